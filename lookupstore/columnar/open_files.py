"""Columnar files whose lookup files are open on this host: they answer a call together.

Keys are routed to files, and rows are decoded in the order of the keys, without a part for each
file. If anything is unusual, such as a damaged file or a key in two files, the caller asks the
files one by one instead, which repairs a file and raises the right error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import take
from lookupstore.columnar.file_filter import as_in_others
from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sst import Reader
from lookupstore.sst._answers import Answers, Found
from lookupstore.sst._hits import FileHits, SeveralRowsError
from lookupstore.sst.owners import OwnerTables
from lookupstore.sst.ranged_files import RangedFiles

#: Numbers of hits, of keys or of files.
Numbers = npt.NDArray[np.int64]


class CallKeys(Protocol):
    """The keys of a call."""

    def __len__(self) -> int:
        """Return the number of the keys."""

    def of(self, schema: KeySchema) -> pa.Array:
        """Return the keys as bytes in an encoding, null if it cannot encode them."""


@dataclass(frozen=True)
class _KeyGroup:
    """The files that encode keys in one way.

    Attributes:
        schema: Encoding of the keys.
        files: The files.
        first: Number of the first one among the files with records of all groups.
    """

    schema: KeySchema
    files: RangedFiles
    first: int


class OpenFiles:
    """The open lookup files among those of some columnar files.

    Args:
        plans: Plans of the lookup files of all files.
        readers: Readers of the lookup files that are open, complete and used in place, by the
            numbers of their plans.
        rule: Row of a key that several files have: that of the `first` or `last` file; or `error`,
            and such keys are not answered.
        owners: Function that returns the tables of owners of files that encode keys in one way,
            these files and those that they have replaced.
        fit: Function that returns a column of a file in a wanted type; it is given the column, the
            field and the path of the file.

    Attributes:
        count: Number of all files.
        closed: Numbers of the files without an open lookup file.
        opened: Numbers of the others.

    Raises:
        ClosedError: If a reader is closed.
    """

    def __init__(
        self,
        plans: Sequence[LookupFilePlan],
        readers: Mapping[int, Reader],
        rule: str,
        owners: Callable[[KeySchema], OwnerTables],
        fit: Callable[[pa.Array, pa.Field, str], pa.Array] = as_in_others,
    ) -> None:
        self._plans = plans
        self._rule = rule
        self._fit = fit
        self.count: int = len(plans)
        self.opened: list[int] = sorted(readers)
        self.closed: list[int] = [at for at in range(len(plans)) if at not in readers]
        by_key: dict[KeySchema, list[int]] = {}
        for number in self.opened:
            by_key.setdefault(plans[number].build.key_schema, []).append(number)
        self._groups: list[_KeyGroup] = []
        numbers: list[int] = []
        for schema, some in by_key.items():
            files = RangedFiles([readers[number] for number in some], owners(schema))
            self._groups.append(_KeyGroup(schema, files, len(numbers)))
            numbers += [some[at] for at in files.numbers]
        # Numbers of the plans of the files with records, in the order of groups and their files.
        self._numbers = np.array(numbers, np.min_scalar_type(len(plans)))
        self._rows = list(dict.fromkeys(plans[number].build.row_schema for number in numbers))
        of_rows = {rows: at for at, rows in enumerate(self._rows)}
        self._rows_of = np.zeros(len(plans), np.int64)  # number of the row schema of each plan
        self._conditions = np.zeros(len(plans), bool)
        for number in numbers:
            self._rows_of[number] = of_rows[plans[number].build.row_schema]
            self._conditions[number] = plans[number].source.has_conditions
        # Whether several files had one of the keys of a call. Threads may set it at the same time.
        self._has_repeats = False

    @property
    def _is_plain(self) -> bool:
        """Return whether all files have keys and rows of one kind, and no conditions."""
        return len(self._groups) == 1 and len(self._rows) == 1 and not self._conditions.any()

    def contains(self, keys: CallKeys, first: int = 0) -> pa.BooleanArray | None:
        """Return whether a file has each key. None: several files have one of the keys.

        Raises the errors of `lookup`.
        """
        if self._is_plain and not (first or self._has_repeats):
            encoded = keys.of(self._groups[0].schema)
            answers = Found(len(encoded))
            try:
                self._groups[0].files.lookup(encoded, answers)
                return answers.array()
            except SeveralRowsError:
                self._has_repeats = True
        found = self._found(keys, first)
        return None if found is None else pa.array(found.places >= 0)

    def lookup(
        self, keys: CallKeys, fields: Sequence[pa.Field], file: str | None, first: int = 0
    ) -> tuple[pa.BooleanArray, list[pa.Array]] | None:
        """Return which keys the files have, and columns of their rows, null for other keys.

        Args:
            keys: The keys.
            fields: Columns to return.
            file: Name of the column for the path of each row's file. None: it is not wanted.
            first: Number of the first file that may answer.

        Returns:
            None: several files have one of the keys.

        Raises the errors of `rows`.
        """
        stored = [field for field in fields if field.name != file]
        if len(stored) == len(fields) and self._is_plain and not (first or self._has_repeats):
            try:
                return self._plain_rows(keys, fields)
            except SeveralRowsError:
                self._has_repeats = True
        found = self.rows(keys, stored, first)
        if found is None:
            return None
        columns = dict(zip([field.name for field in stored], found.columns, strict=True))
        for field in fields:
            if field.name == file:
                uris = pa.array([plan.source.uri for plan in self._plans], field.type)
                columns[field.name] = uris.take(found.files())
        return found.present, [columns[field.name] for field in fields]

    def rows(
        self, keys: CallKeys, fields: Sequence[pa.Field], first: int = 0
    ) -> OpenFilesRows | None:
        """Return the rows of the keys. None: several files have one of the keys.

        Args:
            keys: The keys.
            fields: Columns of the rows, null in rows of files that lack them.
            first: Number of the first file that may answer.

        Raises:
            CorruptionError: If a lookup file is damaged.
            FormatError: If the bytes of a row do not fit the columns of its file.
            ValueError: If a column of a file does not fit into that of all files.
        """
        if self._is_plain and self._groups[0].files.are_disjoint and not first:
            group = self._groups[0]
            encoded = keys.of(group.schema)
            present, columns = self._plain_rows(keys, fields)

            def owners() -> Numbers:
                owned: Numbers = self._numbers[group.files.owners(encoded).to_numpy()]
                return owned

        else:
            found = self._found(keys, first)
            if found is None:
                return None
            present = pa.array(found.places >= 0)
            decoded = self._decoded(found, fields)
            columns = [decoded[field.name] for field in fields]
            owners = found.owners
        return OpenFilesRows(present, columns, owners)

    def _plain_rows(
        self, keys: CallKeys, fields: Sequence[pa.Field]
    ) -> tuple[pa.BooleanArray, list[pa.Array]]:
        """Return which keys have a row, and columns of the rows, decoded as they are found.

        Raises:
            SeveralRowsError: If several files have one of the keys.
        """
        group = self._groups[0]
        encoded = keys.of(group.schema)
        present, columns = self._read(
            0, len(encoded), fields, lambda columns: group.files.lookup(encoded, columns)
        )
        return present, [columns[field.name] for field in fields]

    def _read(
        self,
        number: int,
        length: int,
        stored: Sequence[pa.Field],
        find: Callable[[Answers], None],
    ) -> tuple[pa.BooleanArray, dict[str, pa.Array]]:
        """Return which rows are found, and columns of them, null where there is no row.

        Args:
            number: Number of the schema of the rows.
            length: Number of the rows.
            stored: Columns to return, null if the rows do not have them.
            find: Function that passes the rows to a receiver.
        """
        rows = self._rows[number]
        names = [field.name for field in stored if field.name in rows]
        present, batch = rows.read(length, names, find)
        found = dict(zip(names, batch.columns, strict=True))
        uri = self._plans[int(np.argmax(self._rows_of == number))].source.uri
        return present, {
            field.name: self._fit(found[field.name], field, uri)
            if field.name in found
            else pa.nulls(length, field.type)
            for field in stored
        }

    def _found(self, keys: CallKeys, first: int) -> FoundHits | None:
        """Return the rows of the keys. None: several files have one of the keys."""
        encoded = [keys.of(group.schema) for group in self._groups]
        hits = FileHits(len(keys))
        for group, wanted in zip(self._groups, encoded, strict=True):
            group.files.find(wanted, hits, group.first)
        alone = None if first or self._conditions.any() else hits.by_key()
        places: Numbers | None
        places = self._chosen(keys, hits, first) if alone is None else alone.to_numpy()
        return None if places is None else FoundHits(hits, self._numbers, places)

    def _chosen(self, keys: CallKeys, hits: FileHits, first: int) -> Numbers | None:
        """Return the number of the hit that answers each key; -1: none.

        None: several files have one of the keys, and the rule chooses none of them.
        """
        asked, files = hits.keys().to_numpy(), self._numbers[hits.files().to_numpy()]
        kept = self._kept(keys, hits, asked, files)
        if first:
            kept = files >= first if kept is None else kept & (files >= first)
        chosen = np.arange(len(hits)) if kept is None else np.flatnonzero(kept)
        places = np.full(len(keys), -1, np.int64)
        places[asked if kept is None else asked[chosen]] = chosen
        if np.count_nonzero(places >= 0) < len(chosen):
            if self._rule == "error":
                return None
            order = np.argsort(files[chosen], kind="stable")
            # Of several rows of a key, the last one that is assigned stays.
            chosen = chosen[order[::-1] if self._rule == "first" else order]
            places[asked[chosen]] = chosen
        return places

    def _kept(
        self, keys: CallKeys, hits: FileHits, asked: Numbers, files: Numbers
    ) -> npt.NDArray[np.bool_] | None:
        """Return which hits count in their files. None: all of them.

        Args:
            keys: The keys.
            hits: Rows of the keys.
            asked: Number of the key of each hit.
            files: Number of the file of each hit.
        """
        if not self._conditions.any():
            return None
        kept = np.ones(len(hits), bool)
        some = np.flatnonzero(self._conditions[files])
        for number, at in _by_file(some, files[some]):
            plan = self._plans[number]
            is_kept = plan.kept_of(
                partial(_taken, keys.of(plan.build.key_schema), asked[at]),
                partial(_columns_at, plan.build.row_schema, hits, at),
                len(at),
            )
            if is_kept is not None:
                kept[at] = is_kept.to_numpy(zero_copy_only=False)
        return kept

    def _decoded(self, found: FoundHits, stored: Sequence[pa.Field]) -> dict[str, pa.Array]:
        """Return columns of the rows of all keys, null for keys without a row."""
        length, hits, places = len(found.places), found.hits, found.places
        if len(self._rows) == 1:
            return self._read(0, length, stored, partial(hits.read, places))[1]
        chosen = places[places >= 0]
        kinds = self._rows_of[found.files[chosen]]
        parts: dict[str, list[pa.Array]] = {field.name: [] for field in stored}
        at = np.zeros(len(hits), np.int64)  # number of each chosen hit among those of all kinds
        start = 0
        for number in np.unique(kinds).tolist():
            some = chosen[kinds == number]
            at[some] = np.arange(start, start + len(some))
            start += len(some)
            columns = self._read(number, len(some), stored, partial(hits.read, some))[1]
            for name, column in columns.items():
                parts[name].append(column)
        if not start:
            return {field.name: pa.nulls(length, field.type) for field in stored}
        missing = places < 0
        taken = pa.array(np.where(missing, 0, at[places]), mask=missing)
        return {name: take(pa.concat_arrays(columns), taken) for name, columns in parts.items()}


@dataclass(frozen=True)
class OpenFilesRows:
    """The rows of the keys of a call.

    Attributes:
        present: Whether each key has a row.
        columns: Columns of the rows, null for keys without a row.
        owners: Function that returns the number of the file of each key that has a row, and any
            number for the others.
    """

    present: pa.BooleanArray
    columns: Sequence[pa.Array]
    owners: Callable[[], Numbers]

    def files(self) -> pa.Array:
        """Return the number of the file of each key, null for keys without a row."""
        missing = pc.invert(self.present).to_numpy(zero_copy_only=False)
        return pa.array(self.owners(), mask=missing)


@dataclass(frozen=True)
class FoundHits:
    """The rows of some keys.

    Attributes:
        hits: Rows that files have, among them some that do not count.
        numbers: Number of the plan of each file, by the numbers that hits have for files.
        places: Number of the hit that answers each key; -1: none.
    """

    hits: FileHits
    numbers: Numbers
    places: Numbers

    @cached_property
    def files(self) -> Numbers:
        """Return the number of the plan of the file of each hit."""
        files: Numbers = self.numbers[self.hits.files().to_numpy()]
        return files

    def owners(self) -> Numbers:
        """Return the number of the plan of the file of each key; 0: it has no row."""
        owners = np.zeros(len(self.places), np.int64)
        is_found = self.places >= 0
        owners[is_found] = self.files[self.places[is_found]]
        return owners


def _by_file(hits: Numbers, files: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield the number of each file, and its hits in ascending order.

    Args:
        hits: Numbers of hits, ascending.
        files: File of each of these hits.
    """
    order = np.argsort(files, kind="stable")
    found, starts = np.unique(files[order], return_index=True)
    # Without hits there are no files, and yet one part.
    yield from zip(found.tolist(), np.split(hits[order], starts[1:]), strict=False)


def _taken(keys: pa.Array, at: Numbers) -> pa.Array:
    return keys.take(pa.array(at))


def _columns_at(
    rows: RowSchema, hits: FileHits, at: Numbers, names: Sequence[str]
) -> pa.RecordBatch:
    """Return some columns of the rows of some hits."""
    return rows.read(len(at), names, partial(hits.read, at))[1]
