"""What the team keeps. One file a concept; other rooms import from here."""

from campaigns.models.access import ApiToken, Membership, Role, Scope
from campaigns.models.campaign import Campaign
from campaigns.models.host import WorkerHost
from campaigns.models.mix import Mix
from campaigns.models.run import ACTIVE_STATES, END_STATES, Run, RunEvent, RunState
from campaigns.models.sample import RequestLog, StageTick
from campaigns.models.stage import RunResult, Stage, StageKind, StageState
from campaigns.models.target import Protocol, Target

__all__ = [
    "ACTIVE_STATES",
    "END_STATES",
    "ApiToken",
    "Campaign",
    "Membership",
    "Mix",
    "Protocol",
    "RequestLog",
    "Role",
    "Run",
    "RunEvent",
    "RunResult",
    "RunState",
    "Scope",
    "Stage",
    "StageKind",
    "StageState",
    "StageTick",
    "Target",
    "WorkerHost",
]
