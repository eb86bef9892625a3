"""The versions of a store, as the history of a table that another store follows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import FormatError, StaleStoreError
from lookupstore.filters.row_filter import RowFilter
from lookupstore.source.source import Source, where_rows
from lookupstore.storage.location import Location
from lookupstore.store.store import LookupStore
from lookupstore.tables.history import TableMoment, hash_of
from lookupstore.tables.kept_columns import HostColumns

_GONE, _NEW = ("delete", "update_before"), ("insert", "update_after")
# A store records no identity that its versions share.
_TABLE = "store"


@dataclass(frozen=True)
class VersionMoment:
    """A store at one version.

    Attributes:
        location: Location of the store.
        number: Number of the version.
        content: Identity of its content.
        schema: Key columns and value columns.
        values: Names of the value columns.
        num_rows: Number of rows.
        condition: Condition that rows meet. None: all rows count.
    """

    location: Location
    number: int
    content: str
    schema: pa.Schema
    values: tuple[str, ...]
    num_rows: int
    condition: RowFilter | None = None

    @classmethod
    def of(cls, store: LookupStore) -> VersionMoment:
        """Return the version of an open store."""
        schema = pa.schema([*store.key_schema.schema, *store.value_schema])
        values = tuple(store.value_schema.names)
        return cls(store.location, store.version, store.id, schema, values, len(store))

    @property
    def description(self) -> str:
        """Return a description of the store and the version."""
        return f"store {self.location.uri} at version {self.number}"

    @property
    def table_id(self) -> str:
        """Return the same text for all stores; `snapshot_id` tells them apart."""
        return _TABLE

    @property
    def snapshot_id(self) -> str:
        """Return the number of the version and the identity of its content."""
        return f"{self.number}-{self.content}"

    @property
    def files_hash(self) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        return hash_of(self.snapshot_id)

    def columns_hash(self, names: Sequence[str]) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        condition = self.condition
        columns = pa.schema([self.schema.field(name) for name in names])
        return hash_of([columns.to_string(), None if condition is None else condition.identity])

    def source(self) -> Source:
        """Return all rows as a source."""
        rows = Source(self.schema, self.description, self.rows, lambda: self.num_rows)
        return rows if self.condition is None else where_rows(rows, self.condition)

    def where(self, condition: RowFilter) -> VersionMoment:
        """Return the store with only the rows that meet one more condition."""
        return replace(self, condition=condition.and_also(self.condition))

    def keeping(self, kept: HostColumns) -> VersionMoment:
        """Return this object: the changelog of a store has the keys of deleted rows."""
        return self

    def lacking(self, other: TableMoment | None) -> Sequence[VersionDifference]:
        """Return the rows that the store lacks at another version."""
        assert other is None or isinstance(other, VersionMoment)
        return [VersionDifference(self, other)]

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the version, whether they meet the condition or not.

        Args:
            columns: Names of the columns to yield.
        """
        with LookupStore(self.location, version=self.number) as store:
            for batch in store.scan(columns=self.values_among(columns)):
                yield batch.select(list(columns))

    def values_among(self, columns: Sequence[str]) -> list[str]:
        """Return the value columns among some columns."""
        return [name for name in self.values if name in columns]


@dataclass(frozen=True)
class VersionDifference:
    """The rows of a store at one version that it lacks at another one, by its changelog.

    Attributes:
        version: The version with the rows.
        other: The other version. None: one without rows.
    """

    version: VersionMoment
    other: VersionMoment | None

    @property
    def num_rows(self) -> int | None:
        """Return the number of rows, if these are all. None: unknown."""
        return self.version.num_rows if self.other is None else None

    @property
    def nbytes(self) -> int:
        """Return 0: the rows are not in files of their own."""
        return 0

    @property
    def is_remote(self) -> bool:
        """Return False: a store reads several of its files at a time itself."""
        return False

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            columns: Names of the columns to yield.

        Raises: The errors of `LookupStore.changes`.
        """
        version, other, condition = self.version, self.other, self.version.condition
        names = [*dict.fromkeys([*columns, *(() if condition is None else condition.names)])]
        if other is None:
            batches = version.rows(names)
        elif other.number < version.number:
            batches = _changes(version, other, names, _NEW)
        else:
            batches = _changes(other, version, names, _GONE)
        for rows in batches:
            if condition is not None and rows.num_rows:
                rows = rows.filter(condition.kept(rows.select(list(condition.names))))
            if rows.num_rows:
                yield rows.select(list(columns))


class VersionHistory:
    """A store at its current version, with its former ones.

    Args:
        location: Location of the store.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        with LookupStore(location) as store:
            #: The current version.
            self.newest: VersionMoment = VersionMoment.of(store)

    def former(self, snapshot_id: str) -> VersionMoment | None:
        """Return a former version. None: it was removed.

        Args:
            snapshot_id: Number of the version and identity of its content.

        Raises:
            FormatError: If it has other columns than the current version.
        """
        number = int(snapshot_id.partition("-")[0])
        try:
            with LookupStore(self._location, version=number) as store:
                found = VersionMoment.of(store)
        except (FileNotFoundError, StaleStoreError):
            return None
        if (found.schema, found.values) != (self.newest.schema, self.newest.values):
            raise FormatError(f"the store {self._location.uri} had other columns")
        return found


def _changes(
    newer: VersionMoment, older: VersionMoment, columns: Sequence[str], kinds: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the changelog between two versions.

    Args:
        newer: The newer version.
        older: The older version.
        columns: Names of the columns to yield.
        kinds: Kinds of changes of these rows.
    """
    wanted = pa.array(kinds, pa.string())
    with LookupStore(newer.location, version=newer.number) as store:
        for batch in store.changes(older.number, columns=newer.values):
            change = batch.column("change").cast(pa.string())
            rows = batch.filter(pc.is_in(change, wanted))
            yield rows.select(list(columns))
