"""Find out whether the host has restarted."""

from __future__ import annotations

from functools import cache

from lookupstore.storage.small_files import read_small_file


@cache
def boot_id() -> str:
    """Return a text that changes when the host restarts. Empty: the system has none."""
    try:
        return read_small_file("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:  # not on Linux
        return ""
