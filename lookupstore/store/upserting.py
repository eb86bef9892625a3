"""Change rows of a store that need not be open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lookupstore.keywords import with_advice
from lookupstore.quantities import Duration, Size
from lookupstore.source.text_limits import MOST_TEXT
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.change_shapes import ChangesBy
from lookupstore.store.changeable import UPSERT_ADVICE
from lookupstore.store.changing import upsert_version
from lookupstore.store.expiry import HOUR
from lookupstore.store.rules import Rule
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import Place, located


@with_advice(UPSERT_ADVICE.get)
def upsert(
    path: Place,
    changes: Any = None,
    *,
    deletes: Any = None,
    columns: str | Sequence[str] | None = None,
    changes_by: ChangesBy | None = None,
    kinds: str | None = None,
    rule: Rule = "replace",
    sequence: str | None = None,
    max_runs: int = 8,
    max_run_share: float = 0.25,
    max_run_age: Duration | None = None,
    background: bool = False,
    memory: Size = 512 << 20,
    threads: int | None = None,
    retain: Duration = HOUR,
    temp_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    max_text: Size = MOST_TEXT,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Change rows of a store and open it at the next version.

    The cost depends on the number of changes. Each bucket with changes gets a run, one more file
    that lookups read; other files do not change. If nothing changes, no version is published. If
    another writer publishes meanwhile, the changes are applied to its version: after two concurrent
    upserts, both are in the store.

    Args:
        path: Folder, URI or location of the store, or an open store; its current version is
            changed.
        changes: Rows with the key columns and the value columns of the store, in any form that
            `lookupstore.build` takes. Default, or an empty list: no rows. A column of another type
            than in the store is cast if each value keeps its meaning. A column may be missing if
            its rule leaves nulls out. A changelog is applied in its order: see `changes_by`.
        deletes: Keys to delete, in any of the forms of `lookupstore.keys.arguments`; a key that is
            not stored is not an error. Default: none.
        columns: Names of the value columns to take from the changes, which may then have columns
            that the store lacks. A column whose name is that of an operation, such as `op`, needs
            `kinds` or `changes_by`. Default: all.
        changes_by: Form of the changes. `"rows"`: rows to upsert. `"changelog"`: events in the form
            that `LookupStore.changes` returns. `"debezium"`: events with `op` and the rows `before`
            and `after`, or with these in a struct `payload`. `"hudi"`: change data of Apache Hudi,
            with a column `change`, with `op` and the rows `before` and `after`, or with rows whose
            `_hoodie_is_deleted` marks deletes. For each key, the last event wins. Default:
            `"changelog"` if `kinds` is given, if there is a text column `change` that the store
            lacks, or if the rows are a change feed of Delta or Iceberg; otherwise `"rows"`.
        kinds: Name of the column of a changelog that says what became of each row, in upper or
            lower case: `I`, `U` and `D` of AWS DMS; `c`, `r`, `u` and `d`, or `true` for deletes,
            of flattened Debezium events; `+I`, `-U`, `+U` and `-D` of Flink and Paimon; `insert`,
            `update`, `delete`, and `update_before` or `update_preimage` for rows before an update.
            Default: `change`; in a change feed of Delta or Iceberg `_change_type`, whose rows count
            in the order of `_commit_version` or `_change_ordinal`.
        rule: Rule that merges the values of a key that is stored, or that occurs more than once in
            the changes: one rule for all value columns, or a dict of rules by column, in which
            missing columns have `"replace"`. `"replace"` takes the newest value, `"first"` the
            oldest, `"partial"` the newest that is not null; `"sum"`, `"min"` and `"max"` leave
            nulls out (NaN is greatest).
        sequence: Name of the value column that decides which of two rows with one key is newer: the
            row with the greater value (null is least), or the later row if the values are equal.
            Default: the later row. Deletes ignore it. If the changes have no order, as in the
            `scan()` of a Delta table, the upsert raises ValueError if the newest row of a key is
            uncertain.
        max_runs: Largest number of runs of a bucket, from 0 to 64; a bucket with more is compacted
            at once. 0 compacts every bucket with changes.
        max_run_share: Largest size of the runs of a bucket, as a share of the size of its base; a
            bucket with more is compacted at once.
        max_run_age: Age of the oldest run of a bucket at which an upsert of that bucket compacts
            it, as a timedelta, seconds, or a text such as `"1h"`. Default: no limit.
        background: Whether to compact due buckets after the upsert instead of in it, by one thread
            of this process, as a version of its own. Runs that are published meanwhile stay; only a
            bucket that already has 64 runs is compacted at once.
        memory: Memory for changes, in bytes or as a text such as `"1GB"`; changes that do not fit
            are spilled to disk.
        threads: Number of threads that read, compress and write, including the caller's. Default:
            one for each processor that the process may use, at most 64.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        temp_dir: Folder for spilled changes, and for the files of a remote store before they are
            uploaded. Default: the parent folder of a local store, or the system's temporary folder
            for a remote one.
        progress: Whether to show progress bars. Default: after one second, on a terminal or in a
            notebook.
        max_text: Longest value in files of CSV or JSON lines, in bytes or as a text such as
            `"1GiB"`.
        storage_options: Credentials, region, endpoint and similar options of the URIs of the store
            and of files with changes, by the names that pandas or deltalake have for them; see
            `lookupstore.Location`.

    Raises:
        KeyError: If the changes or the store lack a column.
        ValueError: If a key is null, a column cannot hold a value or a sum, a key is to be upserted
            and deleted, a key has several rows in changes without order, a row is not an event of
            its changelog, or an argument is out of range.
        TypeError: If the type of a column means something else in the store, or does not support
            its rule.
        FileNotFoundError: There is no such store, or the source names no files.
        FormatError: If the folder is not a store, a value of text is longer than `max_text`, or
            JSON nests more than 256 brackets.
        CorruptionError: A file of the store or of the source is damaged.
        CommitConflictError: Another writer published first on every retry; the store is
            unchanged.
        CommitUnknownError: The version may or may not be published; nothing was deleted.

    >>> import tempfile, lookupstore
    >>> import pyarrow as pa
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"id": [1, 2, 3], "name": ["one", "two", "three"], "hits": [5, 5, 5]})
    >>> lookupstore.build(table, folder, key="id").close()
    >>> changes = pa.table({"id": [2, 4], "name": ["zwei", None], "hits": [1, 1]})
    >>> store = upsert(folder, changes, deletes=[3], rule={"name": "partial", "hits": "sum"})
    >>> store.version, len(store), store.get(3)
    (2, 3, None)
    >>> store.get(2), store.get(4)
    ({'name': 'zwei', 'hits': 6}, {'name': None, 'hits': 1})
    """
    path, changes = paths_with_options(storage_options, path=path, changes=changes)
    location = located(path)
    published = upsert_version(
        location,
        changes,
        deletes,
        columns=columns,
        changes_by=changes_by,
        kinds=kinds,
        rule=rule,
        sequence=sequence,
        max_runs=max_runs,
        max_run_share=max_run_share,
        max_run_age=max_run_age,
        background=background,
        memory=memory,
        threads=threads,
        retain=retain,
        temp_dir=temp_dir,
        progress=progress,
        max_text=max_text,
    )
    return LookupStore(location, version=published)
