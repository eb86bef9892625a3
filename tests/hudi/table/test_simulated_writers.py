"""Simulated writers: nothing is wrong, and what somebody might forget is found.

`make hudi-sim` runs thousands of seeds.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from support.hudi.simulated import simulate
from support.samples import amount, seed_of_the_day, some_of

from lookupstore.hudi.locking import lock, places
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.services import rollback
from lookupstore.hudi.timeline.plans import RollbackPlan
from lookupstore.hudi.timeline.timeline import Instant, State
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.storage import lock_file
from lookupstore.storage.lock_file import LocalLockFile, ObjectLockFile, SeenLock

SEEDS = amount(4, 40)
# Found more once: an instant of ours that was not completed was taken for one of another zone; a
# file of a writer that stood still was deleted before it had its name (from 975 on), or got it
# after the rollback of its instant (860).
FOUND = (38, 602, 706, 860, 975, 1337, 1364)
# Each mistake below is found within so many.
MOST = 120
# Where some of them were found last, after a minute: tried first.
LAST = {"takeover of any file": 117, "no second place": 44}


def nothing(*_: Any, **__: Any) -> None:
    """Forget to do it."""


def no_lock(patch: pytest.MonkeyPatch) -> None:
    for name in ("acquire", "check", "release"):
        patch.setattr(TableLock, name, nothing)
    patch.setattr(TableLock, "renew", lambda lock: False)
    patch.setattr(TableLock, "now", nothing)


def takeover_of_any_file(patch: pytest.MonkeyPatch) -> None:
    """Let whoever saw a dead owner's lock remove the file that is there by now."""

    def take_over(file: LocalLockFile, dead: SeenLock, content: bytes) -> bool:
        with suppress(FileNotFoundError):
            lock_file.os.unlink(file.path)
        return file.create(content)

    patch.setattr(LocalLockFile, "take_over", take_over)


def takeover_of_any_object(patch: pytest.MonkeyPatch) -> None:
    """Let whoever saw a dead owner's lock replace the object that is there by now."""

    def take_over(file: ObjectLockFile, dead: SeenLock, content: bytes) -> bool:
        bucket: Any = file.puts
        bucket.turns.step("put the lock")
        file.tag = bucket.put(file.path, content)
        return True

    patch.setattr(ObjectLockFile, "take_over", take_over)


def no_second_place(patch: pytest.MonkeyPatch) -> None:
    """Forget where Java's ready-made configuration has its lock."""
    patch.setattr(lock, "places_of", lambda *given: places.places_of(*given)[:1])


def no_look_at_java(patch: pytest.MonkeyPatch) -> None:
    """Take an object of Java's that was not given back."""
    real = places._StoragePlace._is_free

    def is_free(place: Any, seen: SeenLock, unchanged: float) -> bool:
        said = places._parse_storage(seen)
        return "lookupstore" not in said or real(place, seen, unchanged)

    patch.setattr(places._StoragePlace, "_is_free", is_free)


def no_key_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "_check_keys", nothing)


def no_group_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lookupstore.hudi.write.transaction.check_groups", nothing)


def no_overwrite_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lookupstore.hudi.write.transaction.check_overwritten", nothing)


def wrong_rollback_order(patch: pytest.MonkeyPatch) -> None:
    real = rollback.finish

    def finish(view: TableView, one: Instant, plan: RollbackPlan, lock: TableLock) -> Instant:
        target = plan.instant_to_rollback
        assert target is not None
        for state in (State.INFLIGHT, State.REQUESTED):
            view.folder.delete(Instant(target.commit_time, target.action, state))
        return real(view, one, plan, lock)

    patch.setattr(rollback, "finish", finish)


# One whose reads fail is not told whether the table keeps statistics; its write goes on.
pytestmark = pytest.mark.filterwarnings("ignore:.*statistics of columns are not kept")

PLANTS = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        no_lock,
        takeover_of_any_file,
        takeover_of_any_object,
        no_second_place,
        no_look_at_java,
        no_key_check,
        no_group_check,
        no_overwrite_check,
        wrong_rollback_order,
    )
}


@pytest.mark.sampled
def test_nothing_is_lost_and_nothing_is_twice(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    told: Counter[str] = Counter()
    steps = 0
    for seed in (*range(first := seed_of_the_day(), first + SEEDS), *some_of(FOUND, 1)):
        report = simulate(seed)
        assert not report.problems, str(report)
        told += report.told
        steps += report.steps
    # Else nothing was tried.
    assert min(told[what] for what in ("yes", "no", "died")) > 0
    with capsys.disabled():
        print(f"\nsimulated writers: {SEEDS} seeds, {steps:,} operations of files, told {told}")


@pytest.mark.parametrize(
    "plant",
    # The others are found after a minute at times.
    [pytest.param(one, marks=() if one == "no lock" else pytest.mark.long) for one in PLANTS],
)
def test_a_mistake_is_found(
    plant: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    seeds = (LAST.get(plant, 0), *range(MOST))
    seed = next((one for one in seeds if simulate(one, PLANTS[plant]).problems), None)
    assert seed is not None, f"not found in {MOST} seeds"
    with capsys.disabled():
        print(f"\n{plant}: found by seed {seed}")


def test_a_seed_is_repeated_step_by_step(caplog: pytest.LogCaptureFixture) -> None:
    first = simulate(1)
    simulate(2)
    assert simulate(1).trace == first.trace
