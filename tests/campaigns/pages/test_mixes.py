"""The pages of traffic mixes: rows of classes, presets, and the tokens of a request on average."""

from __future__ import annotations

import pytest
from django.urls import reverse

from campaigns.models import Mix
from campaigns.pages.forms.mix import COLUMNS, NEW_CLASS
from campaigns.services.mixes import PRESETS
from tests.campaigns.builders import make_mix


def rows(*classes):
    """Form data of class rows; columns that are left out are as in a new row."""
    return {f"class-{column}": [{**NEW_CLASS, **one}[column] for one in classes] for column in COLUMNS}


SHORT = {"name": "short", "weight": "3", "input_tokens": "50", "output_tokens": "200"}
DRAWN = {
    "name": "drawn",
    "weight": "1.5",
    "input_kind": "uniform",
    "input_min": "100",
    "input_max": "900",
    "output_kind": "empirical",
    "output_values": "10, 20 30",
}


def test_a_mix_of_numbers_and_distributions_is_created(page):
    response = page.post(reverse("mix-new"), {"name": "x", "shared_prefix_tokens": "16", **rows(SHORT, DRAWN)})
    assert response["Location"] == reverse("mix-list")
    mix = Mix.objects.get()
    assert mix.shared_prefix_tokens == 16
    assert mix.classes == [
        {"name": "short", "weight": 3, "input_tokens": 50, "output_tokens": 200},
        {
            "name": "drawn",
            "weight": 1.5,
            "input_tokens": {"dist": "uniform", "min": 100, "max": 900},
            "output_tokens": {"dist": "empirical", "values": [10, 20, 30]},
        },
    ]


def test_a_row_that_was_added_and_left_empty_is_no_class(page):
    page.post(reverse("mix-new"), {"name": "x", **rows(SHORT, {})})
    assert [one["name"] for one in Mix.objects.get().classes] == ["short"]


def test_a_row_that_is_not_complete_says_so_and_keeps_what_was_typed(page):
    response = page.post(reverse("mix-new"), {"name": "x", **rows({**SHORT, "weight": "heavy", "name": "kept"})})
    body = response.content.decode()
    assert response.status_code == 422
    assert "weight must be a number, not “heavy”" in body and 'value="kept"' in body
    assert not Mix.objects.exists()


@pytest.mark.parametrize("n", range(len(PRESETS)))
def test_a_preset_fills_the_form_and_comes_back_the_same(page, n):
    body = page.get(reverse("mix-new"), {"preset": n}).content.decode()
    for one in PRESETS[n].classes:
        assert f'name="class-name" value="{one["name"]}"' in body
    make_mix("same", classes=PRESETS[n].classes)
    mix = Mix.objects.get()
    form = page.get(reverse("mix-edit", args=[mix.pk])).context["form"]
    sent = {f"class-{column}": [row.values[column] for row in form.rows["classes"]] for column in COLUMNS}
    page.post(reverse("mix-edit", args=[mix.pk]), {"name": "same", "shared_prefix_tokens": "0", **sent})
    mix.refresh_from_db()
    assert mix.classes == PRESETS[n].classes


def test_the_preview_says_the_mean_tokens_of_a_request(page):
    long = {**SHORT, "name": "long", "weight": "1", "input_tokens": "450", "output_tokens": "600"}
    body = page.post(reverse("mix-preview"), rows(SHORT, long)).content.decode()
    assert "<strong>150</strong>" in body and "<strong>300</strong>" in body and "75%" in body
    assert not Mix.objects.exists()


def test_the_preview_of_half_a_row_waits(page):
    assert "once each class is complete" in page.post(reverse("mix-preview"), rows({"name": "x"})).content.decode()


def test_a_mix_that_the_form_cannot_show_whole_is_not_opened_in_it(page):
    mix = make_mix(classes=[{"name": "file", "weight": 1, "prompts": "p.jsonl"}])
    response = page.get(reverse("mix-edit", args=[mix.pk]), follow=True)
    assert "changed there" in response.content.decode()


def test_an_archived_mix_leaves_the_list(admin):
    mix = make_mix("gone soon")
    admin.post(reverse("mix-archive", args=[mix.pk]))
    assert reverse("mix-edit", args=[mix.pk]) not in admin.get(reverse("mix-list")).content.decode()
    admin.post(reverse("mix-unarchive", args=[mix.pk]))
    assert Mix.objects.current().get() == mix
