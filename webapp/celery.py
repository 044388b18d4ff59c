"""The Celery application: `celery -A webapp worker`, `celery -A webapp beat`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
app = Celery("brimline")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["workers"])
app.autodiscover_tasks(["workers"], related_name="heartbeat")

# One process of a worker's pool is always free for these (`workers.tasks`); one that comes too late is not worth doing.
app.conf.beat_schedule = {
    "mark-lost-runs": {"task": "workers.tasks.mark_lost_runs", "schedule": 10.0, "options": {"expires": 10}},
    "start-queued-runs": {"task": "workers.tasks.start_queued_runs", "schedule": 5.0, "options": {"expires": 5}},
}
