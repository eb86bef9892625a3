"""Change a store with Spark: executors write runs of changes and compact; the driver publishes.

Executors run `lookupstore.spark.build.update_task`. A task that is retried, or runs twice, writes
other files: the driver lists those that one of the attempts reported, and deletes the others.
"""

from __future__ import annotations

import functools
import logging
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StructType

from lookupstore.arrow.fitting import fit
from lookupstore.keys.joins import can_equal
from lookupstore.quantities import Duration, seconds_of
from lookupstore.spark.buckets import BUCKET, has_a_task_each, in_buckets
from lookupstore.spark.build.build import (
    DATAFRAME,
    check_seen,
    delete_unlisted,
)
from lookupstore.spark.build.update_task import (
    CHANGED,
    PACKS,
    UpdateTask,
    change_buckets,
    encode_changes,
)
from lookupstore.spark.frames import UPDATE_STREAM, check_dataframe, check_no_stream
from lookupstore.spark.jobs import streaming_query, watched_jobs
from lookupstore.spark.raised import raised_in
from lookupstore.spark.types import arrow_schema, column_named, type_to_cast_to
from lookupstore.spark.unread import naming_files
from lookupstore.storage.location import Location
from lookupstore.store.change_columns import PAYLOAD
from lookupstore.store.change_shapes import (
    SHAPE_COLUMNS,
    ChangeReader,
    ChangesBy,
    plan_changes,
)
from lookupstore.store.changed_bucket import ChangedBucket, CompactionRule, changed_manifest
from lookupstore.store.changing import check_same_store, retried
from lookupstore.store.debezium_values import SCHEMA
from lookupstore.store.expiry import HOUR
from lookupstore.store.manifest import Manifest
from lookupstore.store.new_version import NewVersion
from lookupstore.store.rules import Rule, merge_rules
from lookupstore.store.store import LookupStore
from lookupstore.store.stream_batches import StreamBatch
from lookupstore.store.version_files import Place, located, name_of, read_newest

_log = logging.getLogger(__name__)


def update_store(
    df: DataFrame,
    path: Place,
    *,
    deletes: Column | str | None = None,
    columns: str | Sequence[str] | None = None,
    changes_by: ChangesBy | None = None,
    kinds: str | None = None,
    order_by: str | None = None,
    rule: Rule = "replace",
    sequence: str | None = None,
    batch: int | tuple[str, int] | None = None,
    max_runs: int = 8,
    max_run_share: float = 0.25,
    max_run_age: Duration | None = None,
    retain: Duration = HOUR,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Change rows of a store with Spark and open its next version on the driver.

    The new version is the same as that of `lookupstore.upsert`. For each bucket with changes, one
    task writes a run of the changes, or compacts the bucket where that is due. If nothing changes,
    no version is published. If another writer publishes meanwhile, the changes are applied to its
    version.

    Args:
        df: Changes: rows with the key columns and the value columns of the store. A column of
            another type is cast if each value keeps its meaning. A column may be missing if its
            rule ignores nulls. `df` may have a column that the store lacks if `deletes` reads it.
        path: Folder of the store, on a file system that the driver and all executors share; or its
            URI or location, or the store itself. The current version is changed.
        deletes: Condition for the rows with keys to delete, as SQL text or a boolean column. Rows
            for which it is null are not deletes. Deleting a missing key is not an error. Deleting a
            key that another row upserts is an error. With `"true"`, the key columns are enough.
            Events have deletes of their own, and do not allow it. Default: no row is a delete.
        columns: Value columns to take from `df`, which may then have other columns that the store
            lacks. Default: all.
        changes_by: Kind of the rows: `"rows"` to upsert, or events of a `"changelog"`, of
            `"debezium"` or of `"hudi"`; see `lookupstore.upsert`. Default: `"changelog"` if there
            is a text column `change` that the store lacks and `deletes` does not read, if `kinds`
            is given, or if the rows are a change feed of Delta or Iceberg; otherwise `"rows"`.
        kinds: Column of a changelog that says what became of each row, such as `"Op"`; see
            `lookupstore.upsert`. The rows of a change feed of Delta or Iceberg count in the order
            of the table's versions, and may be in any partition. Default: `change`, or
            `_change_type` of such a feed.
        order_by: Column that orders the events of a key, such as an offset; the greatest value is
            the last. The store may lack it. Default: the order of the rows. All events of a key
            must then be in one partition of `df`, in their order, as in a Kafka topic.
        rule: Rule that combines the value of a row with the stored one, and with those of earlier
            rows of the same key; see `lookupstore.upsert`. Rows are ordered by Spark's partitions,
            then by their position there, which is the written order only if they were not shuffled.
        sequence: Value column that decides which of two rows with the same key is newer; for
            events, pass `order_by` instead. Default: the later row is newer.
        batch: Identifier that makes these changes once: the number of a micro-batch in
            `foreachBatch`, or a name and a number. A number alone belongs to the streaming query,
            which Spark identifies as long as its checkpoint exists. Give a name too where the query
            is not known, such as over Spark Connect. The version records the last number of each
            stream, and a batch with a number up to that one is skipped. Default: the changes are
            always made.
        max_runs: Greatest number of runs of a bucket. A bucket with more is compacted at once.
        max_run_share: Greatest size of the runs of a bucket, as a share of the bytes of its base. A
            bucket with more is compacted at once.
        max_run_age: Age of the oldest run of a bucket at which an update of the bucket compacts it:
            a timedelta, seconds, or a text such as `"1h"`. Default: no age.
        retain: Time for which replaced versions are kept: a timedelta, seconds, or a text such as
            `"1h"`; see `lookupstore.expire`.
        storage_options: Options of `path`, if it is a URI, such as credentials; see
            `lookupstore.Location`.

    Raises:
        KeyError: If `df` or the store lacks a column.
        ValueError: If a key is null, a column cannot hold a value or a sum, a key is to be upserted
            and deleted, a row is not an event of its changelog, events of a key are in several
            partitions without `order_by`, or an argument is out of range.
        TypeError: If `df` is not a DataFrame, the type of a column means something else in the
            store, or a rule does not apply to the type of its column.
        FileNotFoundError: If there is no such store, or an executor wrote to a folder that the
            driver does not see.
        FormatError: If the folder is not a store.
        CorruptionError: If a file of the store is damaged.
        CommitConflictError: If another writer published first on every retry. The store is
            unchanged.
        CommitUnknownError: If the version may or may not be published. Nothing was deleted.

    Errors of executors are raised with their own types. A failed update removes its files and
    leaves the store unchanged.

    >>> def write(df, batch_id):  # doctest: +SKIP
    ...     update_store(df, "s3://bucket/people", deletes="op = 'd'", batch=batch_id)
    >>> changes.writeStream.foreachBatch(write).start()  # doctest: +SKIP
    """
    check_dataframe(df)
    check_no_stream(df, "df", UPDATE_STREAM)
    location = located(path, storage_options)
    compaction = CompactionRule(
        max_runs,
        max_run_share,
        None if max_run_age is None else seconds_of(max_run_age, "max_run_age"),
    )
    streamed = _stream_batch(df, batch)
    current = read_newest(location)
    if streamed is not None and _is_done(location, streamed, current):
        return LookupStore(location)
    if deletes is not None:
        _check_condition(df, deletes)
    keys, values = current.key_schema.schema, current.row_schema.schema
    shapes = {*SHAPE_COLUMNS, kinds, order_by}
    if changes_by == "debezium":
        shapes |= {PAYLOAD, SCHEMA}
    of_shapes = arrow_schema(StructType([one for one in df.schema.fields if one.name in shapes]))
    given = pa.schema(
        of_shapes.field(name) if name in of_shapes.names else pa.field(name, pa.null())
        for name in df.columns
    )
    reader = plan_changes(
        given,
        pa.schema([*keys, *values]),
        keys.names,
        changes_by=changes_by,
        kinds=kinds,
        columns=columns,
        read=_read_by(deletes, given.names),
        order_by=order_by,
    )
    if reader.is_changelog and sequence is not None:
        raise ValueError(
            f"sequence is {sequence!r}, but df is a changelog; pass order_by={sequence!r} if the "
            "column orders its events"
        )
    if reader.is_changelog and deletes is not None:
        raise ValueError(
            "df is a changelog, which has deletes of its own; pass deletes= in another call"
        )
    if not reader.is_changelog:
        _check_types(df, keys, values, [*keys.names] if _is_true(deletes) else reader.names)
    rules = merge_rules(
        rule,
        values,
        _given(reader, values, has_deletes=deletes is not None),
        sequence,
        is_changelog=reader.is_changelog,
    )
    task = UpdateTask(
        manifest=current,
        rules=rules,
        reader=reader,
        has_deletes=deletes is not None,
        compaction=compaction,
        location=location,
        version_id="",
    )
    changes = _numbered(df, task, deletes)
    try:
        with naming_files():
            retried(lambda: _publish(changes, task, streamed, retain))
    except PySparkException as error:
        raised = raised_in(error, (encode_changes, change_buckets))
        if raised is None:
            raise
        raise raised from None
    return LookupStore(location)


def _publish(
    changes: DataFrame, planned: UpdateTask, streamed: StreamBatch | None, retain: Duration
) -> None:
    """Publish the current version with changes, as the next one; without changes nothing."""
    location = planned.location
    with (
        # A version without rows is intended if all rows are deleted.
        NewVersion(location, overwrite=True, allow_empty=True, retain=retain, change=True) as new,
        watched_jobs(
            changes.sparkSession, f"lookupstore: update {location.uri}", "Updating"
        ) as written,
    ):
        # While the mark exists, the files of the current version are kept.
        manifest = read_newest(location)
        if streamed is not None and _is_done(location, streamed, manifest):
            return
        check_same_store(location, planned.manifest, manifest)
        task = replace(planned, manifest=manifest, version_id=new.id, rows=written)
        packs = changes.mapInArrow(functools.partial(encode_changes, task), PACKS)
        moved = in_buckets(packs, manifest.buckets)
        if not has_a_task_each(packs):
            moved = moved.sortWithinPartitions(BUCKET)
        rows = moved.mapInArrow(functools.partial(change_buckets, task), CHANGED).collect()
        changed = {int(row[BUCKET]): _told(row["changed"]) for row in rows}
        if len(changed) != len(rows):
            raise RuntimeError(f"{location.uri}: Spark changed a bucket twice: {sorted(changed)}")
        if not changed:
            _log.info("%s: nothing to change in version %d", location.uri, manifest.version)
            return
        next_version = changed_manifest(
            manifest,
            changed,
            version_id=new.id,
            source=f"changes: {DATAFRAME}",
            batches=None if streamed is None else streamed.added_to(manifest),
        )
        names = [one.name for one in next_version.named_files if f"{new.id}-" in one.name]
        check_seen(location, names)
        delete_unlisted(location, new.id, names)
        new.publish(next_version, replaces=name_of(manifest))
    _log.info("%s: %d of %d buckets changed", location.uri, len(changed), manifest.buckets)


def _told(changed: bytes) -> ChangedBucket:
    """Return the files of a bucket that a task has reported."""
    told: ChangedBucket = pickle.loads(bytes(changed))
    return told


def _given(reader: ChangeReader, values: pa.Schema, *, has_deletes: bool) -> list[str]:
    """Return the value columns that rules may count on: all of them, if no row needs any."""
    given = [name for name in values.names if name in reader.names]
    return given if given or not has_deletes else values.names


def _read_by(deletes: Column | str | None, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition names, whose text is all that Spark Connect has of it."""
    text = "" if deletes is None else str(deletes)
    return [
        name
        for name in names
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags=re.IGNORECASE)
    ]


def _check_types(df: DataFrame, keys: pa.Schema, values: pa.Schema, taken: Sequence[str]) -> None:
    """Raise TypeError if a column of changes cannot have the type that it has in the store.

    Executors check all types. This names those of Spark, before a job runs.

    Args:
        df: Changes.
        keys: Key columns of the store.
        values: Value columns of the store.
        taken: Names of the columns to check.
    """
    for field in (*keys, *values):
        # For other types, executors name other remedies than a cast.
        wanted = None if pa.types.is_nested(field.type) else type_to_cast_to(field)
        if wanted in (None, "void") or field.name not in taken:
            continue
        given = df.schema[field.name]
        try:
            (kind,) = arrow_schema(StructType([given]))
            if pa.types.is_nested(kind.type):
                continue
            if field.name in keys.names and not can_equal(kind.type, field):
                raise TypeError("the key")
            if field.name in values.names:
                fit(pa.array([], kind.type), field.type)
        except TypeError:
            raise TypeError(
                f"changes: the column {field.name!r} is {given.dataType.simpleString()}, but in "
                f"the store it is {field.type}; cast it to {wanted}"
            ) from None


def _is_true(deletes: Column | str | None) -> bool:
    """Return whether all rows are deletes, whose value columns are not read."""
    return str(deletes).strip().lower() in ("true", "column<'true'>")


def _condition(deletes: Column | str) -> Column:
    """Return the condition for the rows with keys to delete."""
    if isinstance(deletes, str):
        return F.expr(deletes)
    if not hasattr(deletes, "alias"):  # Column has two classes
        raise TypeError(
            f'deletes is {deletes!r}; give a condition, such as "op = \'d\'", or "true" if '
            "all rows are deletes"
        )
    return deletes


def _check_condition(df: DataFrame, deletes: Column | str) -> None:
    """Raise KeyError if the condition for deletes names a column that changes lack."""
    try:
        _ = df.select(_condition(deletes)).schema
    except AnalysisException as error:
        said = str(error).splitlines()[0]
        if "UNRESOLVED_COLUMN" not in said:
            raise
        raise KeyError(f"deletes is {deletes!r}: {said}") from None


def _numbered(df: DataFrame, task: UpdateTask, deletes: Column | str | None) -> DataFrame:
    """Return the columns of changes, the number of each row, and whether it is a delete."""
    columns = [column_named(name) for name in task.reader.source_names]
    columns.append(F.monotonically_increasing_id())
    if deletes is not None:
        columns.append(_condition(deletes))
    changes = df.select(*(column.alias(f"c{i}") for i, column in enumerate(columns)))
    # It is checked here: executors would name the Arrow type in their error.
    kind = changes.schema[-1].dataType
    if deletes is not None and not isinstance(kind, BooleanType):
        raise TypeError(
            f"deletes is a column of type {kind.simpleString()}; give a condition, such as "
            "\"op = 'd'\""
        )
    return changes


def _stream_batch(df: DataFrame, batch: int | tuple[str, int] | None) -> StreamBatch | None:
    if batch is None:
        return None
    if isinstance(batch, tuple) and len(batch) == 2:
        return StreamBatch(*batch)
    if not isinstance(batch, int):
        raise TypeError(f"batch is {batch!r}; give a number, or a name and a number")
    query = streaming_query(df.sparkSession)
    if query is None:
        raise ValueError(
            "batch: cannot tell which streaming query this batch belongs to; pass "
            "batch=('a name', number)"
        )
    return StreamBatch(query, batch)


def _is_done(location: Location, streamed: StreamBatch, manifest: Manifest) -> bool:
    if not streamed.is_in(manifest):
        return False
    _log.info(
        "%s: batch %d of %s is in version %d already; passed over",
        location.uri,
        streamed.number,
        streamed.stream,
        manifest.version,
    )
    return True
