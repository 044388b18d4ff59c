"""Django's settings, all from the environment (see `webapp/environment.py` for how a value is found)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from webapp import environment

BASE_DIR = environment.ROOT
DATA_DIR = environment.data_directory()

# BRIMLINE_SECRET_KEY signs sessions; BRIMLINE_FIELD_KEYS (Fernet keys, comma-separated, newest first) encrypt target
# keys at rest. `manage.py up` makes both on its first start. The fallback signs nothing that outlives a process that
# has no keys (`manage.py check`, `collectstatic` in an image build): without keys the web server refuses to start.
SECRET_KEY = environment.value("BRIMLINE_SECRET_KEY") or hashlib.sha256(str(DATA_DIR).encode()).hexdigest()
SECRET_KEY_IS_SET = bool(environment.value("BRIMLINE_SECRET_KEY"))
FIELD_KEYS = environment.words("BRIMLINE_FIELD_KEYS")

# BRIMLINE_DEMO_PASSWORD: the demo user's password; without it `manage.py demo` makes one and prints it, once.
DEMO_PASSWORD = environment.value("BRIMLINE_DEMO_PASSWORD")

DEBUG = environment.flag("BRIMLINE_DEBUG")
# BRIMLINE_HOSTS: the names under which people reach the site.
ALLOWED_HOSTS = environment.words("BRIMLINE_HOSTS", "127.0.0.1,localhost,[::1]")
# BRIMLINE_ORIGINS: full origins (https://bench.example.com) when a proxy terminates TLS in front.
CSRF_TRUSTED_ORIGINS = environment.words("BRIMLINE_ORIGINS")
# BRIMLINE_HTTPS=1: the site is served over TLS; cookies and redirects then insist on it.
HTTPS = environment.flag("BRIMLINE_HTTPS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "ninja",
    "campaigns",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.security.ContentSecurityPolicy",
    "campaigns.api.errors.ApiErrors",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_database = environment.database(environment.value("DATABASE_URL"))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.name,
        "USER": _database.user,
        "PASSWORD": _database.password,
        "HOST": _database.host,
        "PORT": _database.port,
        "OPTIONS": _database.options,
        "CONN_HEALTH_CHECKS": True,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# In the memory of each web process: only what may be forgotten, such as who typed a wrong password a moment ago.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
# BRIMLINE_STATIC: where collected static files lie, when not in the data directory (an image holds its own).
STATIC_ROOT = Path(environment.value("BRIMLINE_STATIC") or DATA_DIR / "static")
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# Celery. Redis carries messages and nothing else: PostgreSQL is the one source of truth, so there is no result backend.
REDIS_URL = environment.value("REDIS_URL", "redis://127.0.0.1:6379/0")
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 24 * 3600, "socket_keepalive": True}
CELERY_TASK_DEFAULT_QUEUE = "brimline"
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": environment.value("BRIMLINE_LOG_LEVEL", "INFO")},
    # httpx logs whole URLs, which may carry a key in their query.
    "loggers": {"httpx": {"level": "WARNING"}, "httpcore": {"level": "WARNING"}},
}
