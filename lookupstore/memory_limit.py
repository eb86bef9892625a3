"""Find the memory that this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

# Folder of control groups in both versions, and the name of the file with the limit in bytes.
_GROUPS = {
    "": ("/sys/fs/cgroup", "memory.max"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}


@cache
def memory_limit() -> int:
    """Return the bytes of memory that the host or the container allows this process."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for root, name in _GROUPS.values():
        limits += _limits_of(root, "", name)
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:  # not on Linux
        groups = []
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers in _GROUPS:
            root, name = _GROUPS[controllers]
            limits += _limits_of(root, path, name)
    return min(limits)


def _limits_of(root: str, path: str, name: str) -> list[int]:
    """Return the limit of a control group, if it has one."""
    try:
        return [int((Path(root) / path.lstrip("/") / name).read_text())]
    except (OSError, ValueError):  # missing, or "max"
        return []
