"""Secrets are encrypted at rest, never show themselves, and survive a rotation of keys."""

from __future__ import annotations

import json
import logging

import pytest
from cryptography.fernet import Fernet
from django.core import serializers
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from campaigns.models import Target
from campaigns.models.secret import Secret, SecretUnreadable

pytestmark = pytest.mark.django_db
KEY = "sk-TEST-123"


def make_target(**values: object) -> Target:
    return Target.objects.create(name="t", base_url="http://127.0.0.1:1/v1", model="m", **values)


def stored_bytes(target: Target) -> bytes | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM campaigns_target WHERE id = %s", [target.pk])
        (raw,) = cursor.fetchone()
    return None if raw is None else bytes(raw)


def test_a_key_is_encrypted_at_rest_and_read_back() -> None:
    target = make_target(api_key=KEY)
    raw = stored_bytes(target)
    assert raw and KEY.encode() not in raw
    assert Target.objects.get().api_key.reveal() == KEY


def test_no_key_is_null_and_false() -> None:
    target = make_target()
    assert stored_bytes(target) is None
    assert not Target.objects.get().api_key


def test_saving_again_keeps_the_key() -> None:
    make_target(api_key=KEY)
    target = Target.objects.get()
    target.model = "other"
    target.save()
    assert Target.objects.get().api_key.reveal() == KEY


def test_a_secret_does_not_show_itself(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(KEY)
    caplog.set_level(logging.INFO)
    logging.getLogger(__name__).info("key %s %r", secret, secret)
    target = make_target(api_key=secret)
    shown = [str(secret), repr(secret), f"{secret}", caplog.text, serializers.serialize("json", [target])]
    assert all(KEY not in text for text in shown)
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_an_old_key_still_reads_and_the_next_save_uses_the_new_one(settings: pytest.FixtureRequest) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.FIELD_KEYS = [old]  # type: ignore[attr-defined]
    make_target(api_key=KEY)
    settings.FIELD_KEYS = [new, old]  # type: ignore[attr-defined]
    target = Target.objects.get()
    assert target.api_key.reveal() == KEY
    target.save()
    settings.FIELD_KEYS = [new]  # type: ignore[attr-defined]
    assert Target.objects.get().api_key.reveal() == KEY


def test_an_unreadable_secret_breaks_its_own_use_only_and_is_kept(settings: pytest.FixtureRequest) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.FIELD_KEYS = [old]  # type: ignore[attr-defined]
    make_target(api_key=KEY)
    settings.FIELD_KEYS = [new]  # type: ignore[attr-defined]
    target = Target.objects.get()
    assert target.api_key and str(target.api_key) == "••••"
    with pytest.raises(SecretUnreadable, match="BRIMLINE_FIELD_KEYS"):
        target.api_key.reveal()
    target.save()
    settings.FIELD_KEYS = [new, old]  # type: ignore[attr-defined]
    assert Target.objects.get().api_key.reveal() == KEY


@pytest.mark.parametrize("keys", [[], ["short"]])
def test_missing_or_bad_keys_say_what_to_do(settings: pytest.FixtureRequest, keys: list[str]) -> None:
    settings.FIELD_KEYS = keys  # type: ignore[attr-defined]
    with pytest.raises(ImproperlyConfigured, match="Fernet"):
        make_target(api_key=KEY)
