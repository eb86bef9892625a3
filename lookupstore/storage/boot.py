"""Find out whether the host has restarted."""

from __future__ import annotations

from functools import cache

from lookupstore.storage.small_files import read_small_file

# Linux clears as many bytes as a reader asks for, although the text has 37: megabytes take
# milliseconds, in the first lookup of each process.
_MOST_BYTES = 64


@cache
def boot_id() -> str:
    """Return a text that changes when the host restarts. Empty: the system has none."""
    try:
        return read_small_file("/proc/sys/kernel/random/boot_id", _MOST_BYTES).decode().strip()
    except OSError:  # not on Linux
        return ""
