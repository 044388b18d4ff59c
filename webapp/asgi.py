"""The site as an ASGI application: `uvicorn webapp.asgi:application`."""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

for name, is_set in (
    ("BRIMLINE_SECRET_KEY", settings.SECRET_KEY_IS_SET),
    ("BRIMLINE_FIELD_KEYS", bool(settings.FIELD_KEYS)),
):
    if not is_set:
        raise ImproperlyConfigured(f"{name} is not set: `manage.py up` makes it; elsewhere see docs/operations.md")

application = get_asgi_application()
