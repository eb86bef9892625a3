"""``spark.read.format("lookupstore")``: a store as a DataFrame, one task per bucket.

Spark asks for partitions on the driver, in a Python process of its own, and reads each of them in a
worker of an executor. Both use the version that the store had when the DataFrame was made: the
pickled store opens as that version, or raises an error that it is stale.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.types import StructField, StructType

from lookupstore.arrow.types import is_bytes, is_text, plain_type
from lookupstore.errors import StaleStoreError, listed, meant
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.schema import KeySchema
from lookupstore.spark.format.filters import ScanRanges, before, push
from lookupstore.spark.format.sink import StoreWriter
from lookupstore.spark.options import (
    SCANS_ARE_SEPARATE,
    given_location,
    given_names,
    given_number,
    unknown_option_error,
)
from lookupstore.spark.types import arrow_schema, spark_type, to_spark
from lookupstore.storage.location import Location
from lookupstore.store.store import LookupStore, version_of
from lookupstore.store.version_times import version_at

FORMAT = "lookupstore"
READ_OPTIONS = (
    "path", "version", "columns", "prefix", "starts_with", "start", "stop", "pushdown",
    "versionAsOf", "timestampAsOf", "storage_options",
)  # fmt: skip
# Names of options, which Spark passes in lower case.
_VERSION_AS_OF, _TIMESTAMP_AS_OF = "versionasof", "timestampasof"
# Number of open stores of a worker, which serves many queries; further stores are closed.
_STORES_KEPT = 16


class StoreSource(datasource.DataSource):
    """The data source that Spark creates for the format ``lookupstore``."""

    _pinned: bytes | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the store, key columns first.

        Raises:
            KeyError: If the store lacks a column of the option `columns`.
            TypeError: If Spark has no type for a column.
            ValueError: If an option is unknown or has a bad value.
        """
        with _loaded(self.options) as store:
            self._pinned = pickle.dumps(store)
            return spark_schema(store.schema, given_names(self.options, "columns"), _nulls(store))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return a reader of the columns of `schema`.

        Raises:
            KeyError: If the store lacks a column.
            TypeError: If a column has another type than in the store.
            ValueError: If an option is unknown or has a bad value.
        """
        with opened(self._pinned) if self._pinned else _loaded(self.options) as store:
            known = spark_schema(store.schema, schema.names, _nulls(store))
            for given, right in zip(schema, known, strict=True):
                if given.dataType != right.dataType:
                    raise TypeError(
                        f"schema: the column {given.name!r} is {given.dataType.simpleString()}; "
                        f"in the store it is {right.dataType.simpleString()}"
                    )
            scan = StoreScan(
                pickle.dumps(store),
                arrow_schema(schema),
                tuple(name for name in schema.names if name not in store.key),
                ranges_of_options(store.key_schema, self.options),
            )
        pushes = self.options.get("pushdown", str(SCANS_ARE_SEPARATE)).lower()
        return PushingReader(scan) if pushes == "true" else StoreReader(scan)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return the writer that builds a store of rows of `schema`; see `StoreWriter.plan`."""
        return StoreWriter.plan(schema, self.options, overwrite=overwrite)

    def streamReader(  # noqa: N802  (the name is Spark's)
        self, schema: StructType
    ) -> datasource.DataSourceStreamReader:
        """Refuse to read a stream, and name what follows a store.

        Raises:
            ValueError: The format does not read streams.
        """
        raise ValueError(
            "the format does not read streams; join a stream with the store by "
            "lookup_join(stream, PATH, on=..., refresh='per_batch'), or read the changes between "
            "two versions with LookupStore.changes"
        )

    def streamWriter(  # noqa: N802  (the name is Spark's)
        self, schema: StructType, overwrite: bool
    ) -> datasource.DataSourceStreamWriter:
        """Refuse a stream, and name the function that writes one.

        Raises:
            ValueError: The format does not write streams.
        """
        raise ValueError(
            "the format does not write streams; change the store by their batches: "
            "lookupstore.spark.update_store(df, PATH, batch=number) in df.writeStream.foreachBatch"
        )


@dataclass(frozen=True)
class StoreScan:
    """The description of a scan of a store, for driver and executors.

    Attributes:
        pinned: The pickled store.
        schema: Columns of the result, in Spark's types.
        values: Names of the columns that are not in the key.
        ranges: Ranges of the keys to read.
    """

    pinned: bytes
    schema: pa.Schema
    values: tuple[str, ...]
    ranges: ScanRanges


@dataclass
class BucketPartition(datasource.InputPartition):
    """The work of one task: ranges of the keys of one bucket."""

    bucket: int
    ranges: tuple[tuple[bytes, bytes | None], ...]


class StoreReader(datasource.DataSourceReader):
    """A reader of the rows of a scan."""

    def __init__(self, scan: StoreScan) -> None:
        self.scan: StoreScan = scan

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Return a partition for each bucket that can hold wanted keys."""
        with opened(self.scan.pinned) as store:
            bounds = version_of(store).reads.bounds()
            buckets = store.info().buckets
        ranges = self.scan.ranges
        held = None
        if ranges.are_keys:
            keys = pa.array([start for start, _ in ranges.ranges], pa.large_binary())
            held = bucket_of(keys, buckets)
        found: list[datasource.InputPartition] = []
        for bucket, (low, high) in bounds.items():
            own = ranges
            if held is not None:
                places = np.flatnonzero(held == bucket).tolist()
                own = replace(ranges, ranges=tuple(ranges.ranges[i] for i in places))
            if inside := own.within(low, high + b"\x00").ranges:
                found.append(BucketPartition(bucket, inside))
        return found

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, in key order.

        Raises:
            StaleStoreError: If the loaded version was replaced, and is gone.
            CorruptionError: If stored bytes are damaged.
            ValueError: If Spark's type cannot hold a value.
        """
        if not isinstance(partition, BucketPartition):
            return  # Spark passes this if there are no partitions
        scan = self.scan
        store = _kept(scan.pinned)
        for batch in version_of(store).reads.scan_bucket(
            partition.bucket, partition.ranges, scan.values
        ):
            columns = [to_spark(batch.column(f.name), f.type, f.name) for f in scan.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=scan.schema)


class PushingReader(StoreReader):
    """A reader of only the keys that filters leave."""

    def pushFilters(  # noqa: N802  (the name is Spark's)
        self, filters: list[datasource.Filter]
    ) -> list[datasource.Filter]:
        """Use the filters on leading key columns, and return those that Spark has to check."""
        with opened(self.scan.pinned) as store:
            pushed, rest = push(store.key_schema, filters)
        # The options name one range of keys, or that no range is wanted.
        ((start, stop),) = self.scan.ranges.ranges or ((b"", b""),)
        self.scan: StoreScan = replace(self.scan, ranges=pushed.within(start, stop))
        return rest


def opened(pinned: bytes) -> LookupStore:
    """Open a pickled store.

    Raises:
        StaleStoreError: If its version was replaced, and is gone.
    """
    try:
        store: LookupStore = pickle.loads(pinned)
    except StaleStoreError as error:
        raise StaleStoreError(
            f"{error}: load the DataFrame again, or retain versions for longer"
        ) from None
    return store


@functools.lru_cache(maxsize=_STORES_KEPT)
def _kept(pinned: bytes) -> LookupStore:
    return opened(pinned)


def spark_schema(
    schema: pa.Schema, names: Sequence[str] | None, nullable: Mapping[str, bool]
) -> StructType:
    """Return columns of a store in Spark's types; all of them for None.

    Raises:
        KeyError: If the store lacks a column.
        TypeError: If Spark has no type for a column.
    """
    wanted = schema.names if names is None else names
    for name in wanted:
        if name not in schema.names:
            raise KeyError(
                f"columns: the store has no column {name!r}"
                + meant(name, schema.names, f"it has [{listed(schema.names)}]")
            )
    return StructType(
        [
            StructField(name, spark_type(schema.field(name).type, name)[0], nullable[name])
            for name in wanted
        ]
    )


def ranges_of_options(keys: KeySchema, options: Mapping[str, str]) -> ScanRanges:
    """Return the ranges of keys that `prefix`, `starts_with`, `start` and `stop` name.

    Raises:
        ValueError: If a text is not JSON, or not values of the key; or if options exclude each
            other.
        TypeError: If a value is of another kind than its field.

    >>> keys = KeySchema(pa.schema({"region": pa.string(), "id": pa.uint8()}))
    >>> ranges_of_options(keys, {"start": '["eu", 7]', "stop": '"us"'}).ranges
    ((b'eu\\x00\\x00\\x07', b'us\\x00\\x00'),)
    """
    given = {
        name: _key_values(keys, name, options[name])
        for name in ("prefix", "start", "stop")
        if name in options
    }
    beginning: Any = options.get("starts_with")
    if "prefix" in given or beginning is not None:
        if "start" in given or "stop" in given:
            raise ValueError(
                "start or stop is given with prefix or starts_with; give one or the other"
            )
        prefix = given.get("prefix", ())
        if beginning is not None and len(prefix) < len(keys.names):
            # The text is used unchanged and needs no JSON.
            beginning = _typed(keys.schema.field(len(prefix)), "starts_with", beginning)
        found = keys.encode_prefix(prefix, beginning)
        return ScanRanges(()) if found is None else ScanRanges().within(*found)
    start = before(keys, given["start"]) if "start" in given else b""
    stop = before(keys, given["stop"]) if "stop" in given else None
    return ScanRanges(()) if start is None else ScanRanges().within(start, stop)


def _key_values(keys: KeySchema, option: str, text: str) -> tuple[Any, ...]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{option} is {listed([text])}, which is not JSON ({error}); give a JSON list of the "
            f"values of the first key columns, which are {keys.names}; put text in double quotes"
        ) from None
    values = tuple(parsed) if isinstance(parsed, list) else (parsed,)
    if len(values) > len(keys.names):
        raise ValueError(f"{option} has {len(values)} values; the key is {keys.names}")
    return tuple(
        _typed(field, option, value) for field, value in zip(keys.schema, values, strict=False)
    )


def _typed(field: pa.Field, option: str, value: Any) -> Any:
    """Return a value of JSON for a key field; types that JSON lacks are texts."""
    plain = plain_type(field.type)
    if not isinstance(value, str) or is_text(plain):
        return value
    if is_bytes(plain):
        return value.encode()
    try:
        return pa.scalar(value).cast(plain)
    except pa.ArrowException as error:
        raise ValueError(
            f"{option}: {value!r} is not a value of the key column {field.name!r}, which is "
            f"{field.type}: {error}"
        ) from None


def _loaded(options: Mapping[str, str]) -> LookupStore:
    """Check the names of options, and open the version of the store that they name."""
    unknown = sorted(set(options) - {name.lower() for name in READ_OPTIONS})
    if "paths" in options:  # Spark's option for a list
        raise ValueError("load() has several paths; load one store at a time, and union them")
    if "location" in unknown:  # which CREATE TABLE passes
        raise ValueError(
            "Spark's catalog keeps no tables of this format; use CREATE TEMPORARY VIEW name USING "
            "lookupstore OPTIONS (path '...')"
        )
    if unknown:
        raise unknown_option_error(unknown[0], READ_OPTIONS, "reading a store")
    if options.get("pushdown", "true").lower() not in ("true", "false"):
        raise ValueError(f"pushdown is {options['pushdown']!r}; give true or false")
    location = given_location(options, "load() the folder or URI of a store")
    return LookupStore(location, version=_version_of(location, options))


def _version_of(location: Location, options: Mapping[str, str]) -> int | None:
    """Return the number of the version that options name; None for the current one.

    Raises:
        ValueError: If two options name a version, or there was none at the time.
        FileNotFoundError: If the version was removed.
    """
    named = [name for name in ("version", _VERSION_AS_OF, _TIMESTAMP_AS_OF) if name in options]
    if len(named) > 1:
        raise ValueError("give one of version, versionAsOf and timestampAsOf")
    if _VERSION_AS_OF in options:
        return given_number({"versionAsOf": options[_VERSION_AS_OF]}, "versionAsOf")
    if _TIMESTAMP_AS_OF not in options:
        return given_number(options, "version")
    time = options[_TIMESTAMP_AS_OF]
    # Spark does not tell data sources the time zone of the session.
    found = version_at(location, time, "timestampAsOf", zone=None)
    if found is None:
        raise ValueError(
            f"timestampAsOf is {time!r}, when the store did not have a version yet; "
            "lookupstore.versions(PATH) lists them"
        )
    return found.number


def _nulls(store: LookupStore) -> dict[str, bool]:
    """Return the schema with the columns that may contain nulls marked."""
    keys = {name: name in store.key_schema.nullable for name in store.key}
    return keys | {field.name: field.nullable for field in store.value_schema}
