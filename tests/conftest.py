"""What holds for every test. PostgreSQL and Valkey come from `tests.services`."""

from __future__ import annotations

from django.conf import settings


def pytest_configure() -> None:
    # One round instead of hundreds of thousands: tests log in often.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Static files as they lie there: a manifest is only made by collectstatic.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    settings.WHITENOISE_USE_FINDERS = True
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
