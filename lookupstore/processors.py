"""Find the number of processors that this process may use, for default threads."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

# Files with the processor time that a container may use, in microseconds, and the period of it:
# first of version 2 of control groups, in one file, then of version 1.
_LIMITS = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


def processors() -> int:
    """Return the number of processors that this process may use, at least 1.

    A container with a limit may be scheduled on all processors of its host, and is stopped whenever
    it reaches the limit.
    """
    # Some systems, such as macOS, have no affinity.
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(affine or 1, _limit()))


def _limit() -> int:
    """Return the limit of the container, which may exceed the number of processors."""
    for files in _LIMITS:
        try:
            quota, period = " ".join(Path(file).read_text() for file in files).split()
            if int(quota) > 0:
                return math.ceil(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):  # missing, or "max"
            continue
    return sys.maxsize
