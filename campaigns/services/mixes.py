"""Creates, changes and describes traffic mixes. What a class may be is the load generator's business."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from campaigns.models import Mix
from campaigns.services.checks import Problems
from campaigns.services.errors import Conflict
from campaigns.services.inputs import MixInput
from campaigns.services.names import save_named
from workers.loadgen.plan import PlanError, TrafficClass, parse_mix

# What the API documents as a class.
CLASS = TrafficClass
# A path would be read on the worker's host: whoever may edit a mix could have any file there sent away.
REFUSED_IN_A_CLASS = frozenset({"prompts"})


def _class(name: str, weight: float, input_tokens: Any, output_tokens: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "input_tokens": input_tokens, "output_tokens": output_tokens}


PRESETS: tuple[MixInput, ...] = (
    MixInput(
        name="3:4:3 short/medium/long",
        classes=[_class("short", 3, 50, 200), _class("medium", 4, 500, 500), _class("long", 3, 2000, 800)],
    ),
    MixInput(
        name="Chat",
        classes=[
            _class(
                "chat",
                1,
                {"dist": "lognormal", "median": 200, "sigma": 1.0, "max": 4000},
                {"dist": "lognormal", "median": 200, "sigma": 0.7, "max": 1000},
            )
        ],
    ),
    MixInput(
        name="Long documents",
        classes=[_class("document", 1, {"dist": "uniform", "min": 4000, "max": 8000}, 300)],
    ),
)


@transaction.atomic
def create_mix(user: AbstractBaseUser, data: MixInput) -> Mix:
    """Raises InvalidInput."""
    return _write(Mix(created_by_id=user.pk), data)


@transaction.atomic
def update_mix(mix: Mix, data: MixInput) -> Mix:
    """Changes no run: each has its own copy. Raises InvalidInput, Conflict."""
    mix = Mix.objects.select_for_update().get(pk=mix.pk)
    if mix.archived_at is not None:
        raise Conflict(f"The mix {mix.name} is archived and cannot be changed; create a new one")
    return _write(mix, data)


@transaction.atomic
def archive_mix(mix: Mix) -> None:
    """Take a mix out of use; its runs stay. Harmless when it is archived already."""
    Mix.objects.current().filter(pk=mix.pk).update(archived_at=timezone.now())


@transaction.atomic
def unarchive_mix(mix: Mix) -> None:
    """Put a mix back into use. Harmless when it is in use. Raises InvalidInput when its name was taken meanwhile."""
    mix = Mix.objects.select_for_update().get(pk=mix.pk)
    mix.archived_at = None
    save_named(mix, "mix_name_unique")


def describe_mix(mix: Mix) -> dict[str, Any]:
    """The mix as the API shows it."""
    return {
        "id": mix.pk,
        "name": mix.name,
        "classes": mix.classes,
        "shared_prefix_tokens": mix.shared_prefix_tokens,
        "created_by": mix.created_by.get_username() if mix.created_by else None,
        "created_at": mix.created_at.isoformat(),
        "updated_at": mix.updated_at.isoformat(),
        "archived_at": mix.archived_at.isoformat() if mix.archived_at else None,
    }


def _write(mix: Mix, data: MixInput) -> Mix:
    problems = Problems()
    mix.name = problems.text("name", data.name)
    problems.json("classes", data.classes)
    try:
        parse_mix({"classes": data.classes, "shared_prefix_tokens": data.shared_prefix_tokens}, "")
    except PlanError as error:
        for problem in error.problems:
            problems.add(problem.path, problem.message)
    for place, one in enumerate(data.classes):
        for name in sorted(REFUSED_IN_A_CLASS & one.keys()):
            problems.add(f"classes[{place}].{name}", "is not available yet: give input_tokens and output_tokens")
        problems.text(f"classes[{place}].name", str(one.get("name", "")), blank=True)
    problems.stop()
    # A weight that is left out is the generator's own default, which everyone else reads from here.
    mix.classes = [{"weight": 1, **one} for one in data.classes]
    mix.shared_prefix_tokens = data.shared_prefix_tokens
    save_named(mix, "mix_name_unique")
    return mix
