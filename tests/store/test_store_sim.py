"""Publishers, expirers and readers in any order: nothing is wrong, and each mistake is found.

`make store-sim` runs 100,000 orders.
"""

from __future__ import annotations

import importlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from support.samples import amount, seed_of_the_day
from support.store_sim import simulate

from lookupstore.storage.location import FoundFile, Location
from lookupstore.store import expiry
from lookupstore.store.manifest import Manifest
from lookupstore.store.new_version import NewVersion
from lookupstore.store.version_files import VersionName, list_names

# The package gives a function under the name of the module.
versions: Any = importlib.import_module("lookupstore.store.version_files")
step: Any = importlib.import_module("lookupstore.store.publish_step")
new_version: Any = importlib.import_module("lookupstore.store.new_version")

SEEDS = amount(500, 10_000)
# Each mistake below is found within so many.
MOST = 2000


def rivals_of_the_same_number_only(patch: pytest.MonkeyPatch) -> None:
    def find_rival(
        location: Location, ours: VersionName, held: list[VersionName], *, overwrite: bool
    ) -> VersionName | None:
        rivals = [name for name in list_names(location) if name.number == ours.number]
        winner = max([ours, *rivals])
        return None if winner == ours and (overwrite or rivals in ([ours], [])) else winner

    patch.setattr(step, "find_rival", find_rival)


def withdrawal_without_a_look(patch: pytest.MonkeyPatch) -> None:
    """Let versions go in favour of one that may be withdrawn, which is withdrawn nevertheless."""
    running, withdraw = expiry.running_builds, step.withdraw

    def only_own(location: Location, *own_mark: Any) -> dict[str, str]:
        return running(location, *own_mark) if own_mark else {}

    def at_once(location: Location, manifest: Manifest, held: list[VersionName]) -> None:
        withdraw(location, manifest, [])

    patch.setattr(expiry, "running_builds", only_own)
    patch.setattr(step, "withdraw", at_once)


def marks_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "running_builds", lambda *_: {})


def no_second_look_at_versions(patch: pytest.MonkeyPatch) -> None:
    """Let data files go that a version named which came and went since the first look."""

    def names_all_in_use(location: Location, manifests: Any, own_mark: Any = None) -> bool:
        return not expiry.running_builds(location, own_mark)

    patch.setattr(expiry, "names_all_in_use", names_all_in_use)


def a_mark_that_goes_before_its_version_is_there(patch: pytest.MonkeyPatch) -> None:
    real = NewVersion.publish

    def publish(new: NewVersion, manifest: Manifest, **replaces: Any) -> Manifest:
        new.location.delete(new.mark)
        return real(new, manifest, **replaces)

    patch.setattr(NewVersion, "publish", publish)


def one_empty_listing_is_final(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "EMPTY_LOOKS", 1)


def one_look_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "LOOKS", 1)


def young_temporary_files_go(patch: pytest.MonkeyPatch) -> None:
    real = expiry.unnamed_files

    def unnamed(location: Location, *given: Any) -> list[FoundFile]:
        young = [file for file in location.files() if file.name.endswith(".tmp")]
        return [*real(location, *given), *young]

    patch.setattr(expiry, "unnamed_files", unnamed)


def the_time_that_is_stated_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "math", SimpleNamespace(inf=float("inf"), floor=lambda _: 0))


def the_newest_but_one_goes(patch: pytest.MonkeyPatch) -> None:
    """Let an expirer take a version as replaced that has been so for any time."""
    real = expiry.replaced_versions

    def replaced(location: Location, now: float, seconds: float, keep: int) -> Any:
        return real(location, now, 0.0, keep)

    patch.setattr(expiry, "replaced_versions", replaced)


def changes_beside_another_of_the_same_number(patch: pytest.MonkeyPatch) -> None:
    """Judge a change as a build, which replaces what came meanwhile."""

    def find_sibling(
        location: Location, ours: VersionName, replaces: VersionName
    ) -> VersionName | None:
        rival: VersionName | None = step.find_rival(location, ours, [replaces], overwrite=True)
        return rival

    patch.setattr(step, "find_sibling", find_sibling)


def changes_of_what_may_give_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "_may_give_way", lambda *_: False)


def a_withdrawal_that_others_have_built_upon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "_may_be_changed", lambda *_: False)


def what_was_killed_as_the_second_is_current(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "void_names", lambda *_: set())


def copies_count_as_changes(patch: pytest.MonkeyPatch) -> None:
    """Take what replaces any version for a change, which gives way to all others."""
    real = versions.marks
    patch.setattr(
        versions, "marks", lambda where: [one._replace(is_change=True) for one in real(where)]
    )


def changes_stay_beside_builds(patch: pytest.MonkeyPatch) -> None:
    """Pass over a killed change only if another change of the same version was published."""
    real = versions.void_names

    def void_names(location: Location, names: list[VersionName]) -> set[VersionName]:
        def parent(name: VersionName) -> str | None:
            found: str | None = versions.parent_of(location, name)
            return found

        return {
            name
            for name in real(location, names)
            if any(parent(one) == parent(name) for one in versions.siblings(names, name))
        }

    patch.setattr(versions, "void_names", void_names)


def changes_of_what_has_gone(patch: pytest.MonkeyPatch) -> None:
    """Do not look whether the version is still there that ours is a change of."""

    def find_sibling(
        location: Location, ours: VersionName, replaces: VersionName
    ) -> VersionName | None:
        others = [name for name in list_names(location) if name != ours and name > replaces]
        if others and not step._is_changed(location, ours, others):
            return others[-1]
        return None

    patch.setattr(step, "find_sibling", find_sibling)


def changes_that_may_give_way_count(patch: pytest.MonkeyPatch) -> None:
    """Believe that ours is published because of a change of it that may be withdrawn."""

    def is_changed(location: Location, ours: VersionName, others: list[VersionName]) -> bool:
        return any(step.parent_of(location, name) == ours.id for name in others)

    patch.setattr(step, "_is_changed", is_changed)


def one_listing_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Look whether the newest other version is there after a listing, and list no second time."""
    real = step.find_rival

    def find_rival(location: Location, ours: VersionName, *args: Any, **named: Any) -> Any:
        listed: list[VersionName] = []

        def names_of(where: Location) -> list[VersionName]:
            others = [one for one in listed if one != ours]
            if ours not in listed or not others or where.size(others[-1].file) is None:
                listed[:] = list_names(where)
            return listed

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(step, "list_names", names_of)
            return real(location, ours, *args, **named)

    patch.setattr(step, "find_rival", find_rival)


PLANTS = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        rivals_of_the_same_number_only,
        withdrawal_without_a_look,
        marks_are_passed_over,
        no_second_look_at_versions,
        a_mark_that_goes_before_its_version_is_there,
        one_empty_listing_is_final,
        one_look_for_the_newest,
        young_temporary_files_go,
        the_time_that_is_stated_is_believed,
        the_newest_but_one_goes,
        changes_beside_another_of_the_same_number,
        changes_of_what_may_give_way,
        a_withdrawal_that_others_have_built_upon,
        what_was_killed_as_the_second_is_current,
        copies_count_as_changes,
        changes_stay_beside_builds,
        changes_of_what_has_gone,
        changes_that_may_give_way_count,
        one_listing_is_enough,
    )
}
# Some need so many things at once that the first seeds do not have them.
FIRST = {
    "what was killed as the second is current": 9000,
    "changes stay beside builds": 9000,
    "changes of what may give way": 7000,
    "changes of what has gone": 9000,
    "changes that may give way count": 51000,
    "one listing is enough": 63000,
}


@pytest.mark.sampled
def test_no_order_of_steps_breaks_a_promise(capsys: pytest.CaptureFixture[str]) -> None:
    told: Counter[str] = Counter()
    steps = 0
    for seed in range(first := seed_of_the_day(), first + SEEDS):
        report = simulate(seed)
        assert not report.problems, str(report)
        told += report.told
        steps += report.steps
    # Else nothing was tried.
    cases = ("yes", "conflict", "failed", "unknown", "died", "read", "changed", "unknown change")
    assert min(told[one] for one in cases) > 0
    with capsys.disabled():
        print(
            f"\nsimulated publishers: {SEEDS} interleavings, {steps:,} operations of files, {told}"
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_mistake_is_found(plant: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = next((report for report in tries(plant) if report.problems), None)
    assert found is not None, f"not found in {MOST} interleavings"
    with capsys.disabled():
        print(f"\n{plant}: found by seed {found.seed}: {found.problems[0]}")


def tries(plant: str) -> Any:
    first = FIRST.get(plant, 0)
    return (simulate(seed, PLANTS[plant]) for seed in range(first, first + MOST))


def test_a_seed_is_repeated_step_by_step() -> None:
    first = simulate(1)
    simulate(2)
    assert simulate(1).trace == first.trace
