"""The changes of the files of each bucket from one version of a store to later ones.

A version that is a change names the version that it changes. Its files show how: either runs were
added over the existing files, or the files were replaced, and the run that was merged into them is
named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lookupstore.storage.location import Location
from lookupstore.store.manifest import ChangeRun, DataFile, Manifest
from lookupstore.store.version_files import VersionName, list_names, read_version

#: Content of a data file: its size and hash. Copies of the file have other names.
_Content: TypeAlias = "tuple[int, str]"


class BucketLayers:
    """The files of each bucket of a version: runs, the newest first, and the base behind them."""

    def __init__(self, manifest: Manifest) -> None:
        self._runs = manifest.runs_by_bucket()
        self._files = manifest.layers()
        self._applied = {run.file.bucket: run for run in manifest.applied}

    @property
    def buckets(self) -> set[int]:
        """Return the buckets that have files."""
        return set(self._files)

    def files(self, bucket: int) -> tuple[DataFile, ...]:
        """Return the files of a bucket."""
        return self._files.get(bucket, ())

    def newer_runs(self, before: BucketLayers, bucket: int) -> tuple[ChangeRun, ...] | None:
        """Return the runs that were added over a bucket's files. None: those files are gone."""
        old, new = (list(map(_content, one.files(bucket))) for one in (before, self))
        count = len(new) - len(old)
        runs = self._runs.get(bucket, ())
        if not 0 <= count <= len(runs) or new[count:] != old:
            return None
        return runs[:count]

    def step_runs(self, before: BucketLayers, bucket: int) -> tuple[ChangeRun, ...]:
        """Return the runs by which this version changed a bucket of the version before it.

        If the files of the bucket were merged, only the run that was applied changed rows.
        """
        newer = self.newer_runs(before, bucket)
        if newer is not None:
            return newer
        return (self._applied[bucket],) if bucket in self._applied else ()


def steps_between(
    location: Location, first: Manifest, last: Manifest
) -> list[tuple[VersionName, BucketLayers]] | None:
    """Return the versions before the last one, each changed by the one before it in the list.

    The first version is the last in the list. None: one of them is gone, or was built.
    """
    steps = []
    for step in _back_from(location, last, first):
        if step is None:
            return None
        name, manifest = step
        steps.append((name, BucketLayers(manifest)))
    return steps


def has_same_rows(location: Location, older: Manifest, newer: Manifest) -> bool:
    """Return whether a newer version is known to have the rows of an older one, in other files.

    That is the case if only compactions were published in between. If a version in between is gone,
    the answer is unknown and therefore False.
    """
    if newer.version <= older.version or newer.num_rows != older.num_rows:
        return False
    layers = BucketLayers(newer)
    for step in _back_from(location, newer, older):
        if step is None:
            return False
        before = BucketLayers(step[1])
        if any(layers.step_runs(before, bucket) for bucket in layers.buckets | before.buckets):
            return False
        layers = before
    return True


def _back_from(
    location: Location, last: Manifest, first: Manifest
) -> Iterator[tuple[VersionName, Manifest] | None]:
    """Yield the versions before one, back to the first; None for a version that is gone."""
    names = {name.id: name for name in list_names(location)}
    one = last
    while one.id != first.id:
        name = None if one.parent is None else names.pop(one.parent, None)
        if name is None:
            yield None
            return
        try:
            one = read_version(location, name)
        except FileNotFoundError:  # expired meanwhile
            yield None
            return
        yield name, one


def _content(file: DataFile) -> _Content:
    return file.bytes, file.xxh64
