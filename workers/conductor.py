"""Conducts one run: takes it, checks the target, has each stage measured in turn, and ends it with a reason in words.

What comes next is decided by `campaigns.services.sequence`, what a stage is worth by the analysis; here is only what
has to happen when, and what when something goes wrong. Whatever happens, the generator does not outlive the call.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, InterfaceError, connection

from campaigns.analysis.summary import RunAnalysis
from campaigns.analysis.validity import StageInput
from campaigns.models import Run, RunState, Stage, StageKind
from campaigns.models.secret import SecretUnreadable
from campaigns.services import conduct as writes
from campaigns.services import housekeeping
from campaigns.services.address import TargetAddress, address_of
from campaigns.services.conduct import ClaimLost, Hold
from campaigns.services.finish import analyse_run, analyse_stages, decode_stage, keep_stage_results
from campaigns.services.outcomes import Outcomes
from campaigns.services.preflight import PreflightReport, PreflightStopped, preflight
from campaigns.services.sequence import PlannedStage, WholeStage, find_ceiling, next_stage
from campaigns.services.stage_plan import calibration_plan, generation_of, stage_plan
from workers.abort import FailureShare
from workers.driver import DriverFailed
from workers.measure import Measured, measure
from workers.watch import Stop, Watch

log = logging.getLogger(__name__)

# A generator that was killed or hung may have been bad luck; twice is a reason.
ATTEMPTS = 2
# A server that died of the load may be restarted by whoever looks after it: so long it is waited for.
RECOVERY_S = 120.0
RECOVERY_PAUSES_S = (1.0, 2.0, 5.0, 10.0)
# So much of a failing stage is measured at least.
EVIDENCE_S = 3.0
REASON_MAX = 1_000


class RunOver(Exception):
    """The run ends here, in `state`, for `reason`."""

    def __init__(self, state: RunState, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


def conduct(run_id: int, worker: str) -> None:
    """From a queued run to its end. Returns at once when the run is not to be had (another worker has it, it was
    cancelled, its target is busy): a task that is delivered twice does nothing the second time."""
    hold = writes.take_run(run_id, worker)
    if hold is None:
        log.info("run %s is not for %s: it is taken or over, or its target is busy", run_id, worker)
        return
    try:
        over = _conduct(hold)
        writes.end_run(hold, over.state, over.reason)
        log.info("run %s is %s: %s", run_id, over.state, over.reason)
        if over.state in (RunState.CANCELLED, RunState.FAILED, RunState.ABORTED):
            analyse_run(run_id)
        housekeeping.start_queued_runs()
    except ClaimLost as lost:
        log.warning("left without a word: %s", lost)
    except (DatabaseError, InterfaceError):
        log.exception("run %s: its end could not be written; it will be found lost", run_id)


def _conduct(hold: Hold) -> RunOver:
    """How the run ends. Raises ClaimLost."""
    try:
        with Watch(hold) as watch:
            return RunOver(RunState.DONE, Conductor(hold, watch).conduct())
    except RunOver as over:
        return over
    except SecretUnreadable as error:
        return RunOver(RunState.FAILED, str(error))
    except (DatabaseError, InterfaceError) as error:
        log.exception("run %s: the database was lost", hold.run_id)
        connection.close()
        return RunOver(RunState.INTERRUPTED, f"The database was lost ({type(error).__name__}). Resume it to go on.")
    except ClaimLost:
        raise
    except Exception as error:
        log.exception("run %s: unexpected", hold.run_id)
        return RunOver(RunState.FAILED, f"Internal error ({type(error).__name__}: {error}); the worker's log says more")


class Conductor:
    """One run under way."""

    def __init__(self, hold: Hold, watch: Watch) -> None:
        self._hold = hold
        self._watch = watch
        self._run = Run.objects.select_related("target").get(pk=hold.run_id)
        self._plan = self._run.frozen_plan
        self._address = _frozen_address(self._run)
        self._generation: dict[str, Any] = {}
        self._calibration: dict[str, Any] | None = None
        self._decoded: dict[int, StageInput] = {}
        self._ceiling_told = False
        self._during = "before the preflight"

    def conduct(self) -> str:
        """The load line in words. Raises RunOver for any other end, ClaimLost."""
        self._preflight()
        self._calibrate()
        while (planned := self._next()) is not None:
            self._measure(planned)
            self._during = "between two stages"
            self._checkpoint()
        self._during = "the analysis"
        writes.begin_analysis(self._hold)
        result = analyse_run(self._run.pk)
        self._checkpoint()
        assert result is not None, "a run that comes this far has a baseline"
        return result.text

    def _checkpoint(self) -> None:
        """Raises what ends the run when something says that it must stop."""
        match self._watch.stop:
            case None:
                return
            case Stop.CLAIM_LOST:
                raise ClaimLost(f"run {self._hold.run_id} was taken away during {self._during}")
            case Stop.CANCELLED:
                raise RunOver(RunState.CANCELLED, f"Cancelled by {_canceller(self._hold)} during {self._during}")
            case Stop.WORKER_STOPPING:
                raise RunOver(
                    RunState.INTERRUPTED,
                    f"The worker was stopped during {self._during}. Resume it to go on from its last whole stage.",
                )

    def _preflight(self) -> None:
        self._during = "the preflight"
        report = self._look()
        writes.record_preflight(self._hold, report.as_dict(), report.simulated)
        if not report.ok:
            raise RunOver(RunState.FAILED, f"Preflight failed: {_missing(report)}")
        unsupported = report.detected["unsupported_fields"]
        self._generation = generation_of(self._plan, unsupported)
        if unsupported:
            message = f"The server does not know {', '.join(unsupported)}: left out of every request"
            writes.tell(self._hold, "fields_dropped", message, {"fields": unsupported})

    def _calibrate(self) -> None:
        """Learn how the server counts words, the same for all stages of the run: a resumed one keeps what its first
        stage had. A server that does not say how long a prompt is gets prompts of a guessed length."""
        self._during = "the calibration"
        summary = self._run.stages.whole().order_by("index").values_list("summary", flat=True).first()
        if summary is None:
            plan = calibration_plan(self._plan, self._address.headers, self._generation)
            try:
                key = self._address.api_key.reveal()
                learnt = measure(plan, key, self._rule(), self._checkpoint, on_progress=lambda line: None)
            except DriverFailed as failed:
                writes.tell(self._hold, "not_calibrated", self._redacted(f"Prompts are of a guessed length: {failed}"))
                return
            summary = learnt.measurement.summary
        self._calibration = summary.get("calibration")

    def _look(self) -> PreflightReport:
        """Raises what `_checkpoint` raises."""
        try:
            return asyncio.run(preflight(self._address, self._watch.should_stop))
        except PreflightStopped:
            self._checkpoint()
            raise

    def _next(self) -> PlannedStage | None:
        """Judge the whole stages, and say what comes after them."""
        stages = list(self._run.stages.whole().order_by("index"))
        whole = [
            WholeStage(StageKind(stage.kind), stage.concurrency, (stage.ended_at - stage.started_at).total_seconds())
            for stage in stages
            if stage.ended_at is not None
        ]
        analysis = self._judge(stages) if stages else None
        ceiling = find_ceiling(self._plan, analysis)
        if ceiling is not None and not self._ceiling_told and ceiling.concurrency < self._plan.stages[-1]:
            self._ceiling_told = True
            message = f"No stage above {ceiling.concurrency} will be run: {ceiling.reason}"
            writes.tell(self._hold, "ladder_ends", message, {"concurrency": ceiling.concurrency})
        return next_stage(self._plan, whole, analysis)

    def _judge(self, stages: list[Stage]) -> RunAnalysis:
        for stage in stages:
            if stage.pk not in self._decoded:
                self._decoded[stage.pk] = decode_stage(stage, self._plan)
        analysis = analyse_stages(self._plan, [self._decoded[stage.pk] for stage in stages])
        keep_stage_results(stages, analysis)
        return analysis

    def _measure(self, planned: PlannedStage) -> None:
        """Until the stage is whole. Raises RunOver when it cannot be had, or when the run is pointless without it."""
        for attempt in range(1, ATTEMPTS + 1):
            stage = writes.begin_stage(self._hold, planned)
            self._during = f"stage {stage.index + 1} ({planned.kind} at {planned.concurrency})"
            try:
                measured = self._drive(stage, planned)
                break
            except DriverFailed as failed:
                words = self._redacted(str(failed))
                writes.leave_stage_partial(self._hold, stage, words)
                if attempt == ATTEMPTS:
                    raise RunOver(RunState.FAILED, f"{words} (in {self._during}, {ATTEMPTS} times)") from None
        self._settle(stage, measured)

    def _drive(self, stage: Stage, planned: PlannedStage) -> Measured:
        return measure(
            stage_plan(self._plan, planned, self._address.headers, self._generation, self._calibration),
            self._address.api_key.reveal(),
            self._rule(),
            checkpoint=self._checkpoint,
            on_progress=lambda line: writes.record_tick(stage, line),
        )

    def _rule(self) -> FailureShare:
        """Not before the window has opened: a stage that ends early must leave evidence in what is measured."""
        return FailureShare(self._plan.abort.error_pct, max(self._plan.abort.after_s, self._plan.warmup_s + EVIDENCE_S))

    def _settle(self, stage: Stage, measured: Measured) -> None:
        """Keep the stage, unless it shows that the run cannot go on."""
        got = measured.measurement
        outcomes = Outcomes.of_log(got.arrow)
        failing = self._rule().exceeded(outcomes)
        if stage.kind == StageKind.BASELINE and (failing or not outcomes.ok):
            raise RunOver(RunState.ABORTED, self._redacted(f"The baseline failed: {outcomes}"))
        if stage.kind == StageKind.CLOSING and failing:
            raise RunOver(RunState.FAILED, self._redacted(f"The target failed in the closing baseline: {outcomes}"))
        writes.finish_stage(self._hold, stage, got.summary, got.arrow, got.rows)
        if measured.ended_early is not None:
            message = f"Stage {stage.index + 1} was ended early: {outcomes}"
            writes.tell(self._hold, "stage_ended_early", self._redacted(message), {"stage": stage.index})
        if failing:
            self._await_target(outcomes)

    def _await_target(self, outcomes: Outcomes) -> None:
        """After a stage that failed: a target that only refuses goes on, one that died is given time to come back.
        Raises RunOver when it does not."""
        begun = time.monotonic()
        pauses = itertools.chain(RECOVERY_PAUSES_S, itertools.repeat(RECOVERY_PAUSES_S[-1]))
        failed_in = self._during
        for pause_s in pauses:
            report = self._look()
            if report.ok:
                return
            gone = not next(check.ok for check in report.checks if check.name == "reachable")
            if not gone or time.monotonic() - begun + pause_s > RECOVERY_S:
                what = f"The target cannot be used any more after {failed_in}: {_missing(report)} ({outcomes})"
                raise RunOver(RunState.FAILED, self._redacted(what))
            if self._during == failed_in:
                self._during = f"the wait for the target, which failed in {failed_in}"
                writes.tell(self._hold, "target_gone", f"Waiting for the target to come back: {_missing(report)}")
            self._watch.wait(pause_s)
            self._checkpoint()

    def _redacted(self, text: str) -> str:
        return self._address.redactor().text(text, longest=REASON_MAX)


def _missing(report: PreflightReport) -> str:
    """What required checks found, and what to do about it."""
    failed = [check for check in report.checks if check.required and not check.ok]
    # The later ones fail because of the first.
    return f"{failed[0].name}: {failed[0].detail}. {failed[0].hint}".rstrip()


def _frozen_address(run: Run) -> TargetAddress:
    """Address and model as the run was launched with; only the secrets are today's. Raises SecretUnreadable."""
    target = run.frozen_plan.target
    return replace(
        address_of(run.target),
        base_url=target.base_url,
        model=target.model,
        protocol=target.protocol,
        verify_tls=target.verify_tls,
    )


def _canceller(hold: Hold) -> str:
    name = Run.objects.filter(pk=hold.run_id).values_list("cancel_requested_by__username", flat=True).first()
    return name or "a person"
