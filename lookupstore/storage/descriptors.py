"""The descriptors of this process: who keeps files open gives way before there are too many.

What keeps one open that it can open again, such as a local copy, is a `Holder`, and says when it
opens and when it uses it. When all of them have more than half of what the process may have open
(`ulimit -n`), those that were used longest ago close theirs. Who is in a call with a file keeps it
until the call returns. Files that are mapped need no descriptor, and have none.

What is open also keeps its room from others: where the quota of the host has none left, all of them
give way.
"""

from __future__ import annotations

import itertools
import os
import resource
import threading
import weakref
from abc import ABC, abstractmethod

# What is open is cut down to this part of what may be: not one file each time one is opened.
_REST = 7 / 8
# Where there is no limit, more files than this are not worth their memory.
_MOST = 1 << 20


class Holder(ABC):
    """Files that are open, and can be closed and opened again.

    Attributes:
        descriptors: how many of them are open, for the counting here.
        turn: when it was last used, in no unit.
    """

    descriptors = 0
    turn = 0

    @abstractmethod
    def give_way(self) -> None:
        """Close the files unless someone is opening them; who uses them keeps them for a while."""


def most() -> int:
    """Return how many descriptors all holders together may have: half of the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST)


def used(holder: Holder) -> None:
    """Tell that a holder is used now."""
    holder.turn = next(_turns)


def took(holder: Holder, count: int) -> None:
    """Tell how many descriptors a holder has now; others give way if all have too many."""
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
    """Let all holders close what nobody is opening: somebody needs the room that it has."""
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
    """Return all holders, and forget those that are gone."""
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
#: Who has descriptors, and how many all of them have.
holders: dict[int, weakref.ref[Holder]] = {}
total: int = 0
# Whoever is collected as garbage while it is held may tell that it gave what it had.
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
