"""Traffic mixes: list, form, and a preview of what a request will hold on average."""

from __future__ import annotations

from functools import partial

import msgspec
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from campaigns.models import Mix
from campaigns.pages.access import archiver_required, launcher_required, person
from campaigns.pages.forms.mix import MixForm, is_shown_whole
from campaigns.pages.mix_preview import preview_of
from campaigns.pages.query import whole_number
from campaigns.pages.render import page
from campaigns.services.errors import InvalidInput
from campaigns.services.mixes import PRESETS, archive_mix, create_mix, describe_mix, unarchive_mix, update_mix


@require_safe
@login_required
def mix_list(request: HttpRequest) -> HttpResponse:
    mixes = [(mix, preview_of(mix.classes)) for mix in Mix.objects.current()]
    archived = Mix.objects.exclude(archived_at=None)
    return page(request, "mixes/list.html", mixes=mixes, archived=archived, presets=list(enumerate(PRESETS)))


@require_http_methods(["GET", "HEAD", "POST"])
@launcher_required
def mix_new(request: HttpRequest) -> HttpResponse:
    """`?preset=N` begins with that preset."""
    if request.method == "POST":
        form = MixForm(request.POST)
        if form.submit(partial(create_mix, person(request))) is not None:
            return redirect("mix-list")
    else:
        chosen = whole_number(request.GET.get("preset", ""), default=len(PRESETS))
        form = MixForm(shown=msgspec.to_builtins(PRESETS[chosen]) if chosen < len(PRESETS) else None)
    return _form_page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@launcher_required
def mix_edit(request: HttpRequest, pk: int) -> HttpResponse:
    mix = get_object_or_404(Mix.objects.current(), pk=pk)
    if not is_shown_whole(mix.classes):
        messages.info(request, _("%(name)s was made through the API and is changed there.") % {"name": mix.name})
        return redirect("mix-list")
    form = MixForm(request.POST if request.method == "POST" else None, shown=describe_mix(mix))
    if request.method == "POST" and form.submit(partial(update_mix, mix)) is not None:
        return redirect("mix-list")
    return _form_page(request, form, mix)


@require_POST
@login_required
def mix_preview(request: HttpRequest) -> HttpResponse:
    """What the classes as typed so far mean; nothing is kept."""
    try:
        preview = preview_of(MixForm(request.POST).classes())
    except ValidationError:
        preview = None
    return page(request, "mixes/_preview.html", preview=preview)


@require_POST
@archiver_required
def mix_unarchive(request: HttpRequest, pk: int) -> HttpResponse:
    mix = get_object_or_404(Mix, pk=pk)
    try:
        unarchive_mix(mix)
    except InvalidInput as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("%(name)s is in use again.") % {"name": mix.name})
    return redirect("mix-list")


@require_POST
@archiver_required
def mix_archive(request: HttpRequest, pk: int) -> HttpResponse:
    mix = get_object_or_404(Mix, pk=pk)
    archive_mix(mix)
    messages.success(request, _("%(name)s is archived. Runs that used it keep their copy.") % {"name": mix.name})
    return redirect("mix-list")


def _form_page(request: HttpRequest, form: MixForm, mix: Mix | None = None) -> HttpResponse:
    preview = None if form.is_bound or not mix else preview_of(mix.classes)
    return page(
        request,
        "mixes/form.html",
        form=form,
        mix=mix,
        preview=preview,
        presets=list(enumerate(PRESETS)),
        status=422 if form.errors else 200,
    )
