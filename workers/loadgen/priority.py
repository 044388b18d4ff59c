"""The generator's place on its host: before other programs where the system allows it, its processes apart."""

from __future__ import annotations

import contextlib
import os

# With three busy programs on two cores this took the p99 of the generator's own lateness from 60 ms to 4–15 ms.
NICENESS = -10
# The lowest: above every program that asks for none, below the system's own.
REAL_TIME_PRIORITY = 1


def go_first() -> None:
    """Needs a privilege (root, CAP_SYS_NICE) that most hosts do not give; without it nothing changes.

    A real-time process takes a core as soon as it has something to do, which here is microseconds for each token. The
    kernel keeps a twentieth of each core for others, should this one ever want all of it.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    if hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REAL_TIME_PRIORITY))


def keep_apart(part: int, parts: int) -> None:
    """Give each process of a stage a core of its own, where there are enough: they would else wait for each other."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= parts:
        os.sched_setaffinity(0, {cores[part]})
