"""`manage.py demo --engine-url URL --base-url URL`: a demo user, and a campaign on the simulated engine that starts by
itself and is followed to its load line. `manage.py up --demo` runs it; started again, it goes on with what is there.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand

from campaigns.models import ACTIVE_STATES, Campaign, Mix, Run, RunResult, RunState, Target
from campaigns.services.cancel import cancel_run
from campaigns.services.errors import Conflict
from campaigns.services.inputs import AbortInput, CampaignInput, LaunchInput, MixInput, RefineInput, TargetInput
from campaigns.services.launch import launch_run
from campaigns.services.mixes import create_mix
from campaigns.services.plans import create_campaign
from campaigns.services.progress import Progress, progress_of
from campaigns.services.resume import resume_run
from campaigns.services.targets import create_target, update_target
from webapp.commands import manage_command

USER = "demo"
TARGET = "Simulated engine"
CAMPAIGN = "Demo: how many users does the simulated engine carry?"
# Short answers, so that stages of seconds hold enough of them.
MIX = MixInput(
    name="Demo: 3:4:3 of short answers",
    classes=[
        {"name": "short", "weight": 3, "input_tokens": 50, "output_tokens": 16},
        {"name": "medium", "weight": 4, "input_tokens": 100, "output_tokens": 24},
        {"name": "long", "weight": 3, "input_tokens": 200, "output_tokens": 40},
    ],
)
STAGES = [1, 4, 8, 16, 32]
WARMUP_S, STAGE_S, BASELINE_S = 2.0, 8.0, 18.0
LOOK_EVERY_S = 1.0
TELL_EVERY_S = 5.0


class Command(BaseCommand):
    help = "Launch the demo campaign on a simulated engine and follow it to its load line."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--engine-url", required=True, metavar="URL", help="the engine's address, up to /v1")
        parser.add_argument("--base-url", required=True, metavar="URL", help="the address of this site, for links")
        parser.add_argument("--model", default="sim-8b", help="the model's name (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        # Whoever started this ends it when the product goes down: that is no error.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            user = self._user()
            target = self._target(user, options["engine_url"], options["model"])
            run = self._run(_campaign(user, target), user)
            self._tell_end(self._follow(run, user), options["base_url"].rstrip("/"))
        except KeyboardInterrupt:
            sys.exit(0)

    def _user(self) -> AbstractBaseUser:
        user, is_new = get_user_model().objects.get_or_create(username=USER)
        chosen = settings.DEMO_PASSWORD
        password = chosen or secrets.token_urlsafe(12)
        if is_new or (chosen and not user.check_password(chosen)):
            user.set_password(password)
            user.save(update_fields=["password"])
        if chosen:
            self._say(f"Log in as {USER} with the password in BRIMLINE_DEMO_PASSWORD")
        elif is_new:
            self._say(f"Log in as {USER} with the password {password}")
        else:
            self._say(f"Log in as {USER}: the password was printed at the first start, and it is not kept readable")
            self._say(f"(a new one: {manage_command('changepassword', USER)})")
        return user

    def _target(self, user: AbstractBaseUser, engine_url: str, model: str) -> Target:
        data = TargetInput(name=TARGET, base_url=engine_url, model=model)
        target = Target.objects.current().filter(name=TARGET).first()
        if target is None:
            return create_target(user, data)
        if (target.base_url, target.model) == (engine_url, model):
            return target
        # A run that an earlier start left behind cannot go on at another address.
        for run in target.runs.filter(state__in=[RunState.QUEUED, *ACTIVE_STATES]):
            cancel_run(run, user)
            self._say(f"Waiting for run {run.pk}, which an earlier start left behind, to end")
            while not run.is_over:
                time.sleep(LOOK_EVERY_S)
                run.refresh_from_db()
        return update_target(target, data)

    def _run(self, campaign: Campaign, user: AbstractBaseUser) -> Run:
        run = campaign.runs.order_by("-pk").first()
        if run is not None and run.state == RunState.INTERRUPTED:
            return self._resume(run, user)
        if run is not None:
            return run
        run = launch_run(campaign, user, LaunchInput(label="demo"))
        self._say(f"Launched run {run.pk}: {', '.join(map(str, STAGES))} users, under three minutes")
        return run

    def _resume(self, run: Run, user: AbstractBaseUser) -> Run:
        try:
            run = resume_run(run, user)
        except Conflict as conflict:
            self._say(conflict.message)
            return launch_run(run.campaign, user, LaunchInput(label="demo"))
        self._say(f"Resumed run {run.pk}")
        return run

    def _follow(self, run: Run, user: AbstractBaseUser) -> Run:
        """The run at its end; another one than `run` if that could not be resumed."""
        told: tuple[object, ...] = ()
        told_at = 0.0
        while not run.is_over:
            progress = progress_of(run)
            place = (progress.phase, progress.stage)
            if place != told or time.monotonic() - told_at >= TELL_EVERY_S:
                self._say(_words(progress))
                told, told_at = place, time.monotonic()
            time.sleep(LOOK_EVERY_S)
            run.refresh_from_db()
            if run.state == RunState.INTERRUPTED:
                run = self._resume(run, user)
        return run

    def _tell_end(self, run: Run, base_url: str) -> None:
        result = RunResult.objects.filter(run=run).first()
        self._say(f"Load line: {result.text}" if result else f"Run {run.pk} is {run.state}: {run.end_reason}")
        self._say(f"{base_url}/runs/{run.pk}/")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _campaign(user: AbstractBaseUser, target: Target) -> Campaign:
    campaign = Campaign.objects.filter(name=CAMPAIGN, target=target).first()
    if campaign is not None:
        return campaign
    mix = Mix.objects.current().filter(name=MIX.name).first() or create_mix(user, MIX)
    return create_campaign(
        user,
        CampaignInput(
            name=CAMPAIGN,
            target=target.pk,
            mix=mix.pk,
            stages=STAGES,
            stage_s=STAGE_S,
            baseline_s=BASELINE_S,
            warmup_s=WARMUP_S,
            drain_s=10,
            timeout_s=60,
            refine=RefineInput(enabled=True, budget_s=40),
            abort=AbortInput(error_pct=50, after_s=5),
        ),
    )


def _words(progress: Progress) -> str:
    """Such as "stage 3 of about 7: ladder at 8 users, measure, 8 in flight, 412 tokens/s, about 40 s left"."""
    if progress.concurrency is None:
        return progress.phase
    users = "1 user" if progress.concurrency == 1 else f"{progress.concurrency} users"
    parts = [f"{progress.kind} at {users}", progress.phase]
    if progress.in_flight is not None:
        parts.append(f"{progress.in_flight} in flight")
    if progress.output_tokens_per_s is not None:
        parts.append(f"{progress.output_tokens_per_s:.0f} tokens/s")
    if progress.requests_failed:
        parts.append(f"{progress.requests_failed} failed")
    if progress.eta_s is not None:
        parts.append(f"about {progress.eta_s:.0f} s left")
    return f"stage {progress.stage} of about {progress.stages}: {', '.join(parts)}"
