"""File descriptors of this process: holders close some before there are too many.

An object that keeps a file open and can open it again, such as a local copy, is a `Holder`, and
reports when it opens the file and when it uses it. If all holders together have more than half of
the descriptors that the process may have (`ulimit -n`), those used longest ago close theirs. A call
that uses a file keeps it open until the call returns. Mapped files need no descriptor, and have
none.

An open file also keeps its disk space in use: if the quota of the host is used up, all holders
close theirs.
"""

from __future__ import annotations

import itertools
import os
import resource
import threading
import weakref
from abc import ABC, abstractmethod

# Part of the limit that open files are cut down to, so that not every opening closes one file.
_REST = 7 / 8
# Largest number of descriptors without a limit of the system: more are not worth their memory.
_MOST = 1 << 20


class Holder(ABC):
    """A holder of open files that can be closed and opened again.

    Attributes:
        descriptors: Number of its descriptors that are open.
        turn: Sequence number of its last use among the uses of all holders.
    """

    descriptors = 0
    turn = 0

    @abstractmethod
    def give_way(self) -> None:
        """Close the files unless one is being opened; calls that use a file keep it for a while."""


def most() -> int:
    """Return the most descriptors that all holders may have together: half of the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


def used(holder: Holder) -> None:
    """Tell that a holder is used now."""
    holder.turn = next(_turns)


def took(holder: Holder, count: int) -> None:
    """Record how many descriptors a holder has now; others close theirs if all have too many."""
    global total
    used(holder)
    limit = most()
    with _lock:
        total += count - holder.descriptors
        holder.descriptors = count
        holders[id(holder)] = weakref.ref(holder)
        if total <= limit:
            return
        alive = _alive()
        if total <= limit:
            return
    alive.sort(key=lambda one: one.turn)
    for one in alive:
        if total <= limit * _REST:
            break
        if one is not holder:
            one.give_way()


def all_give_way() -> None:
    """Let all holders close the files that are not being opened, to make room for other files."""
    with _lock:
        alive = _alive()
    for one in alive:
        one.give_way()


def gave(holder: Holder) -> None:
    """Tell that a holder has no descriptors any more."""
    global total
    with _lock:
        if holders.pop(id(holder), None) is not None:
            total -= holder.descriptors
        holder.descriptors = 0


def _alive() -> list[Holder]:
    """Return all holders that are alive, and forget the others."""
    global total
    found = []
    for key, reference in list(holders.items()):
        one = reference()
        if one is None:
            del holders[key]
        else:
            found.append(one)
    total = sum(one.descriptors for one in found)
    return found


_turns = itertools.count(1)
#: Holders that have descriptors, by `id`, and the number of descriptors that all of them have.
holders: dict[int, weakref.ref[Holder]] = {}
total: int = 0
# Reentrant: a holder that is collected as garbage while the lock is held may call `gave`.
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
