"""How many processors this process may use: by default, so many threads do its work."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

# Where a container finds what it may use of processors: microseconds in each of so many. First of
# version 2 of control groups, in one file, then of version 1.
_LIMITS = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


def processors() -> int:
    """Return how many processors this process may use, at least 1.

    A container with a limit for processors may be scheduled on all that there are, and stands
    still when the limit is reached.
    """
    # Some systems, such as macOS, have no affinity.
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(affine or 1, _limit()))


def _limit() -> int:
    """Return how many processors the container may use, if need be more than there are."""
    for files in _LIMITS:
        try:
            quota, period = " ".join(Path(file).read_text() for file in files).split()
            if int(quota) > 0:
                return math.ceil(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):  # not there, or "max"
            continue
    return sys.maxsize
