"""Assign the rows of an upsert to files by workload, small files and key hashes.

Files depend only on sizes and keys: the same input leads to the same files.

Source: org.apache.hudi.table.action.commit.UpsertPartitioner, WorkloadProfile,
org.apache.hudi.common.util.NumericUtils (getMessageDigestHash).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.write._md5 import md5_numbers
from lookupstore.quantities import bytes_of


@dataclass(frozen=True)
class FileSizing:
    """The target sizes of new and small files.

    Attributes:
        max_file_size: Size that files should not exceed, in bytes or as a text such as `"128MiB"`.
        small_file_limit: Size below which a file receives new rows, in bytes or as a text. 0 or
            less: new rows never go to existing files.
        record_size: Size of a row, in bytes or as a text, if no commit is large enough to estimate
            it.
        split_size: Number of rows of a new file if `auto_split` is False.
        auto_split: Whether to compute the number of rows of a new file from the size of a row.
        threshold: Factor of `small_file_limit`. Only commits that wrote more bytes than that are
            used to estimate the size of a row.

    Raises:
        ValueError: If a number is out of range.
    """

    max_file_size: int = 120 << 20
    small_file_limit: int = 100 << 20
    record_size: int = 1024
    split_size: int = 500_000
    auto_split: bool = True
    threshold: float = 1.0

    def __post_init__(self) -> None:
        for name in ("max_file_size", "small_file_limit", "record_size"):
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, bytes_of(given, name))
        for name in ("max_file_size", "record_size", "split_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if not self.threshold >= 0:
            raise ValueError(f"threshold is {self.threshold}; give 0 or more")


@dataclass(frozen=True)
class FileSize:
    """The size in bytes of a file group's current base file."""

    file_id: str
    size: int


@dataclass(frozen=True)
class Load:
    """The numbers of rows that an upsert inserts in a partition and updates by file."""

    inserts: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Bucket:
    """One file to write.

    Attributes:
        number: Index in the list of buckets.
        partition: Path of the partition.
        file_id: Id of the file group to merge into. None: a new file group.
        updates: Number of rows that change stored rows of the file group.
        inserts: Planned number of new rows. The actual number depends on the hashes of keys.
    """

    number: int
    partition: str
    file_id: str | None
    updates: int
    inserts: int


def workload(partitions: pa.DictionaryArray, file_ids: pa.Array) -> dict[str, Load]:
    """Count the rows to insert and to update, by partition and file.

    Args:
        partitions: Partition path of each row, without nulls.
        file_ids: Id of the file group that contains each row, string; null for a new row.

    Raises:
        ValueError: If the lengths differ, or a partition is null.

    >>> paths = pa.array(["eu", "eu", "us"]).dictionary_encode()
    >>> workload(paths, pa.array(["f1", None, None], pa.string()))
    {'eu': Load(inserts=1, updates={'f1': 1}), 'us': Load(inserts=1, updates={})}
    """
    groups, rows = _groups(partitions, file_ids)
    counts = np.bincount(rows, minlength=len(groups)).tolist()
    inserts: dict[str, int] = {}
    updates: dict[str, dict[str, int]] = {}
    for (path, file_id), count in zip(groups, counts, strict=True):
        inserts.setdefault(path, 0)
        updates.setdefault(path, {})
        if file_id is None:
            inserts[path] += count
        else:
            updates[path][file_id] = updates[path].get(file_id, 0) + count
    return _loads(inserts, updates)


def summed(parts: Iterable[Mapping[str, Load]]) -> dict[str, Load]:
    """Return the sums of the numbers of rows in all parts.

    >>> summed([{"eu": Load(1)}, {"eu": Load(1, {"f1": 2}), "us": Load(3)}])
    {'eu': Load(inserts=2, updates={'f1': 2}), 'us': Load(inserts=3, updates={})}
    """
    inserts: dict[str, int] = {}
    updates: dict[str, dict[str, int]] = {}
    for loads in parts:
        for path, load in loads.items():
            inserts[path] = inserts.get(path, 0) + load.inserts
            files = updates.setdefault(path, {})
            for file_id, count in load.updates.items():
                files[file_id] = files.get(file_id, 0) + count
    return _loads(inserts, updates)


def _loads(inserts: Mapping[str, int], updates: Mapping[str, Mapping[str, int]]) -> dict[str, Load]:
    # Buckets are ordered by name, so that they do not depend on the order of rows.
    return {
        path: Load(inserts[path], dict(sorted(updates[path].items()))) for path in sorted(inserts)
    }


def average_record_size(commits: Iterable[tuple[int, int]], sizing: FileSizing) -> int:
    """Return the average bytes of a row, from the newest commit that is large enough.

    Args:
        commits: Bytes and rows that each completed commit wrote, newest first. Leave replacecommits
            out, because clustered files have smaller rows.
        sizing: Target sizes of files, with the size of a row if no commit is large enough.

    >>> average_record_size([(5, 1), (250 << 20, 1_000_000)], FileSizing())
    263
    """
    for nbytes, rows in commits:
        if rows > 0 and nbytes > sizing.threshold * sizing.small_file_limit and nbytes > 0:
            return -(-nbytes // rows)
    return sizing.record_size


def pack(
    loads: Mapping[str, Load],
    files: Mapping[str, Sequence[FileSize]],
    record_size: int,
    sizing: FileSizing | None = None,
    *,
    pending: Mapping[str, Collection[str]] | None = None,
) -> Packing:
    """Plan the files of an upsert.

    Each file with updates is one bucket. New rows fill small files first, in the given order of
    files; the rest is written to new files.

    Args:
        loads: Numbers of rows to insert and to update, by partition path.
        files: Current base files of each partition with rows to insert, by partition path.
        record_size: Size of a row, in bytes.
        sizing: Target sizes of files. Default: Hudi's defaults.
        pending: Ids of file groups that pending clustering replaces, by partition path. They
            receive no new rows. Default: none.

    >>> sizing = FileSizing(max_file_size=1000, small_file_limit=500)
    >>> packing = pack({"eu": Load(150)}, {"eu": [FileSize("f1", 400)]}, 10, sizing)
    >>> [(bucket.file_id, bucket.inserts) for bucket in packing.buckets]
    [('f1', 60), (None, 90)]
    """
    sizing = sizing or FileSizing()
    if record_size < 1:
        raise ValueError(f"record_size is {record_size}; give at least 1")
    planned: list[tuple[str, str | None, int, int]] = []  # path, file id, updates, inserts
    targets: dict[str, list[int]] = {}  # path -> its buckets for inserts, in order
    for path, load in loads.items():
        numbers: dict[str, int] = {}
        for file_id, updates in load.updates.items():
            numbers[file_id] = len(planned)
            planned.append((path, file_id, updates, 0))
        if load.inserts < 1:
            continue
        held = (pending or {}).get(path, ())
        rest = load.inserts
        targets[path] = []
        for file in files.get(path, ()):
            if file.size >= sizing.small_file_limit or file.file_id in held:
                continue
            fits = min((sizing.max_file_size - file.size) // record_size, rest)
            if fits < 1:
                continue
            if file.file_id not in numbers:
                numbers[file.file_id] = len(planned)
                planned.append((path, file.file_id, 0, 0))
            number = numbers[file.file_id]
            planned[number] = (*planned[number][:3], fits)
            targets[path].append(number)
            rest -= fits
        # A row larger than a file still needs a file.
        each = max(1, sizing.max_file_size // record_size) if sizing.auto_split else None
        each = each or sizing.split_size
        while rest > 0:
            targets[path].append(len(planned))
            planned.append((path, None, 0, min(each, rest)))
            rest -= each
    buckets = tuple(Bucket(number, *row) for number, row in enumerate(planned))
    return Packing(buckets, {path: tuple(numbers) for path, numbers in targets.items()})


class NumbersOfRows(Protocol):
    """A function that assigns rows to buckets by the values of their columns."""

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32; -1: the key of the row decides."""


@dataclass(frozen=True)
class Packing:
    """The files of an upsert, and the assignment of rows to them.

    Attributes:
        buckets: Files to write.
        targets: Numbers of the buckets that receive new rows, by partition path.
        boxes: Functions that assign new rows by the values of their columns, by partition path. In
            other partitions, keys decide.
    """

    buckets: tuple[Bucket, ...]
    targets: Mapping[str, tuple[int, ...]]
    boxes: Mapping[str, NumbersOfRows] = field(default_factory=dict)

    def assign(
        self,
        partitions: pa.DictionaryArray,
        file_ids: pa.Array,
        keys: pa.Array | pa.ChunkedArray,
        rows: pa.Table | None = None,
    ) -> npt.NDArray[np.int32]:
        """Return the number of the bucket of each row, int32.

        The MD5 of its key decides the bucket of a new row, unless the partition has boxes. Buckets
        receive about the planned numbers of rows.

        Args:
            partitions: Partition path of each row.
            file_ids: Id of the file group that contains each row; null for a new row.
            keys: Record keys, without nulls.
            rows: Columns of the rows. None: no partition has boxes.

        Raises:
            KeyError: If no bucket was planned for a row.
            ValueError: If the lengths differ, or a key or partition is null.

        >>> packing = pack({"": Load(1, {"f1": 1})}, {}, 1024)
        >>> paths = pa.array(["", ""]).dictionary_encode()
        >>> packing.assign(paths, pa.array([None, "f1"]), pa.array(["k1", "k2"])).tolist()
        [1, 0]
        """
        if len(keys) != len(partitions):
            raise ValueError(f"keys has {len(keys)} rows, partitions {len(partitions)}")
        if keys.null_count:
            raise ValueError("keys contains a null; a record key is a string")
        groups, of_rows = _groups(partitions, file_ids)
        numbers = {(bucket.partition, bucket.file_id): bucket.number for bucket in self.buckets}
        bucket_of = np.full(len(groups), -1, np.int32)
        inserting = np.zeros(len(groups), bool)
        for i, (path, file_id) in enumerate(groups):
            if file_id is None:
                inserting[i] = True
                if path not in self.targets and path not in self.boxes:
                    raise KeyError(f"no bucket was planned for inserts into {path!r}")
            elif (path, file_id) not in numbers:
                raise KeyError(f"no bucket was planned for the file {file_id!r} of {path!r}")
            else:
                bucket_of[i] = numbers[path, file_id]
        assigned = bucket_of[of_rows]
        if not inserting.any():
            return assigned
        new = np.flatnonzero(inserting[of_rows])
        column = keys if len(new) == len(of_rows) else keys.take(pa.array(new))
        hashes = md5_numbers(BinaryColumn(column))
        by_group = np.argsort(of_rows[new], kind="stable")
        cuts = np.flatnonzero(np.diff(of_rows[new][by_group])) + 1
        for part in np.split(by_group, cuts):
            path = groups[int(of_rows[new[part[0]]])][0]
            boxes = self.boxes.get(path)
            if boxes is not None and rows is not None:
                there = boxes.numbers(rows.take(pa.array(new[part])))
                assigned[new[part]] = there
                part = part[there < 0]
            if len(part):
                assigned[new[part]] = self._insert_buckets(path, hashes[part])
        return assigned

    def _insert_buckets(self, path: str, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        targets = self.targets[path]
        planned = [self.buckets[number].inserts for number in targets]
        inserts = max(1, sum(planned))
        weights = np.cumsum([rows / inserts for rows in planned])
        places = np.searchsorted(weights, np.mod(hashes, inserts) / inserts, side="left")
        places[places == len(targets)] = 0  # rounding left the last weight below 1
        return np.array(targets, np.int32)[places]


def _groups(
    partitions: pa.DictionaryArray, file_ids: pa.Array
) -> tuple[list[tuple[str, str | None]], npt.NDArray[np.int64]]:
    """Return the distinct pairs of path and file id, and the index of each row's pair."""
    if len(partitions) != len(file_ids):
        raise ValueError(f"partitions has {len(partitions)} rows, file_ids {len(file_ids)}")
    if partitions.null_count or partitions.dictionary.null_count:
        raise ValueError("partitions contains a null; a table without partitions has the path ''")
    if isinstance(file_ids, pa.ChunkedArray):
        file_ids = file_ids.combine_chunks()
    if not pa.types.is_dictionary(file_ids.type):
        file_ids = file_ids.dictionary_encode()
    paths, names = partitions.dictionary.to_pylist(), [*file_ids.dictionary.to_pylist(), None]
    files = file_ids.indices.fill_null(len(names) - 1).to_numpy().astype(np.int64)
    pairs = pa.array(
        partitions.indices.to_numpy().astype(np.int64) * len(names) + files
    ).dictionary_encode()
    found = [divmod(pair, len(names)) for pair in pairs.dictionary.to_pylist()]
    return (
        [(paths[path], names[file]) for path, file in found],
        pairs.indices.to_numpy().astype(np.int64),
    )
