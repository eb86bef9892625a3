"""Check from a table's properties whether the table can be read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lookupstore.errors import FormatError
from lookupstore.hudi.options.names import (
    BACKUP,
    BASE_FORMAT,
    BOOTSTRAP,
    CDC,
    CDC_MODE,
    COPY_ON_WRITE,
    DROP,
    DROP_COLUMNS,
    ENCODINGS,
    EVENT_TIME,
    EXTRACTOR,
    FILES,
    FORMAT,
    FORMATS,
    GENERATORS,
    HIVE_STYLE,
    INDEXES,
    INITIAL_VERSION,
    LEGACY_PAYLOAD,
    LOCK_PROVIDER,
    LOG_FORMAT,
    LOG_READ_FORMAT,
    MAINTAIN,
    MERGE_LIST,
    MERGE_MODE,
    MERGE_PROPERTY,
    META_FIELDS,
    METADATA,
    OLD_STRATEGY,
    PARTIAL,
    PARTITION,
    PAYLOAD,
    PAYLOADS,
    PROPERTIES,
    READ_FORMAT,
    READ_OPTIMIZED,
    RECORD_KEY,
    REDUCE,
    REFUSE,
    RULES,
    SAME_PAYLOADS,
    SLASHES,
    SNAPSHOT,
    STORAGE_LAYOUT,
    STRATEGIES,
    STRATEGY,
    TIMELINE,
    TIMES,
    TYPE,
    URL_ENCODE,
    VERSION,
    VERSIONS,
)
from lookupstore.hudi.options.refused import either, refused_error
from lookupstore.hudi.options.table_options import KNOWN, TableOptions

_FALSE = frozenset({"", "false"})
# Properties without effect on writes of lookupstore: allowed values in lower case; None: any value.
_HARMLESS: Mapping[str, frozenset[str] | None] = {
    INITIAL_VERSION: None,
    FORMAT: frozenset({"native"}),
    BASE_FORMAT: frozenset({"parquet"}),
    READ_FORMAT: frozenset({"parquet"}),
    # Tables that lookupstore writes have no log files, and therefore no logged changes.
    LOG_FORMAT: None,
    LOG_READ_FORMAT: None,
    CDC_MODE: None,
    CDC: _FALSE,
    # Path of the definitions of indexes; the indexes are partitions of the metadata table.
    INDEXES: None,
    # Since Hudi 1.2: how catalogs derive the values of partitions from their paths.
    EXTRACTOR: None,
    PARTIAL: frozenset({"", "none"}),
    MERGE_LIST: frozenset({""}),
    STRATEGY: frozenset(STRATEGIES.values()),
    FORMATS: _FALSE,
    SLASHES: _FALSE,
}
# Reasons for the refusal of other known properties.
_REASONS = {
    CDC: "changes would not be logged for Hudi's CDC queries, which fail then",
    PARTIAL: "rows would not be merged column by column",
    MERGE_LIST: "rows would be merged by other rules",
    MERGE_PROPERTY: "rows would be merged by other rules",
    FORMATS: "base files may be of several formats",
    SLASHES: "folders of days would be called otherwise",
    **dict.fromkeys(ENCODINGS, "keys of one column may be written otherwise"),
}


def check_readable(options: TableOptions, path: str) -> None:
    """Raise an error if the rows of a table cannot be read from its base files alone.

    Args:
        options: Options of the table.
        path: Path of the table, which errors name.

    Raises:
        FormatError: If they cannot. The error names the property.
    """
    if options.others.get(FORMAT, "native") != "native":
        raise refused_error(path, FORMAT, options.others[FORMAT], "native")
    if options.others.get(BASE_FORMAT, "PARQUET").upper() != "PARQUET":
        raise refused_error(path, BASE_FORMAT, options.others[BASE_FORMAT], "PARQUET")
    if options.version not in VERSIONS and options.table_type != COPY_ON_WRITE:
        known = f"{COPY_ON_WRITE} in a table of version {options.version}"
        raise refused_error(path, TYPE, options.table_type, known)
    if options.others.get(STORAGE_LAYOUT, "default").strip().lower() not in ("", "default"):
        raise refused_error(path, STORAGE_LAYOUT, options.others[STORAGE_LAYOUT], "default")
    if options.drop_partition_columns:
        raise refused_error(path, DROP_COLUMNS, "true", "false: rows have their partition columns")
    if BOOTSTRAP in options.others:
        raise refused_error(path, BOOTSTRAP, options.others[BOOTSTRAP], "no bootstrapped tables")


def check_query(options: TableOptions, query_type: str, path: str) -> None:
    """Raise an error if a query of a table cannot be answered.

    Args:
        options: Options of the table.
        query_type: Kind of query: `snapshot` or `read_optimized`.
        path: Path of the table, which errors name.

    Raises:
        ValueError: If `query_type` is not a kind of query.
        FormatError: If base files and log files cannot be merged; the error names the property.
    """
    if query_type not in (SNAPSHOT, READ_OPTIMIZED):
        raise ValueError(f"query_type is {query_type!r}; give {SNAPSHOT!r} or {READ_OPTIMIZED!r}")
    if options.table_type != COPY_ON_WRITE and query_type == SNAPSHOT:
        _check_merging(options, path)


def _check_merging(options: TableOptions, path: str) -> None:
    """Check that the rows of base files and log files are merged by a known rule.

    Source: HoodieTableConfig.inferMergingConfigsForV9TableCreation and BufferedRecordMergerFactory
    of Apache Hudi.
    """
    mode, others = options.merge_mode, options.others
    if mode not in PAYLOADS:
        named = options.merge_from or MERGE_MODE
        known = PAYLOADS if options.merge_from is None else PAYLOADS.values()
        raise _not_merged_error(path, named, others.get(named, mode), either([*known]))
    allowed: dict[str, Sequence[str]] = {
        PARTIAL: ("none",),
        LEGACY_PAYLOAD: SAME_PAYLOADS[mode],
    }
    if options.version != 6:
        allowed |= {STRATEGY: (STRATEGIES[mode],), PAYLOAD: SAME_PAYLOADS[mode]}
    for name, values in allowed.items():
        if others.get(name, "").strip().lower() not in ("", *map(str.lower, values)):
            raise _not_merged_error(path, name, others[name], either(values))
    for name, value in others.items():
        if name.startswith(MERGE_PROPERTY) or (name == MERGE_LIST and value.strip()):
            raise _not_merged_error(path, name, value, "no such property")
    if not options.meta_fields:
        raise _not_merged_error(path, META_FIELDS, "false", "true")
    if mode == EVENT_TIME and len(options.ordering) > 1:
        given = ",".join(options.ordering)
        raise _not_merged_error(path, options.ordering_property, given, "one column")


def _not_merged_error(path: str, name: str, value: str, known: str) -> FormatError:
    return FormatError(
        f"{path}: {name} is {value!r}; supported for log files: {known}. Compact the table with "
        f"Apache Hudi, and read its base files with query_type={READ_OPTIMIZED!r}"
    )


def check_writable(options: TableOptions, path: str, metadata: str = REFUSE) -> None:
    """Raise an error if other readers would miss or misread what lookupstore writes.

    Args:
        options: Options of the table.
        path: Path of the table, which errors name.
        metadata: Treatment of the table's metadata table: `refuse`, `maintain`, `reduce` or `drop`.

    Raises:
        FormatError: If they would. The error names the property.
    """
    check_readable(options, path)
    if options.version not in VERSIONS:
        written = f"{either(VERSIONS)} for writing"
        raise refused_error(path, VERSION, str(options.version), written)
    if options.table_type != COPY_ON_WRITE:
        raise FormatError(
            f"{path}: {TYPE} is {options.table_type!r}: such a table can only be read; write with "
            "Apache Hudi, or to a copy: HudiTable.create(...).bulk_insert(table.scan_batches())"
        )
    if options.from_backup:
        raise FormatError(
            f"{path}: only {BACKUP} exists: another writer is changing the table's "
            f"properties, or died while doing so; wait, or rename that file to {PROPERTIES}"
        )
    if not options.meta_fields:
        raise refused_error(path, META_FIELDS, "false", "true")
    _check_rules(options, path)
    _check_metadata(options, path, metadata)
    if options.key_generator not in GENERATORS:
        given = options.key_generator
        raise refused_error(path, options.generator_property, given, ", ".join(GENERATORS))
    if options.merge_mode not in PAYLOADS:
        named = options.merge_from or MERGE_MODE
        given = options.others.get(named, options.merge_mode)
        known = PAYLOADS if options.merge_from is None else PAYLOADS.values()
        raise refused_error(path, named, given, either([*known]))
    if len(options.ordering) > 1:
        # Readers in Rust refuse such a table entirely.
        raise refused_error(
            path, options.ordering_property, ",".join(options.ordering), "one column"
        )
    if options.key_generator == "TIMESTAMP" and len(options.record_key) > 1:
        given = ",".join(options.record_key)
        raise refused_error(path, RECORD_KEY, given, "one column, with such a key generator")
    if not options.record_key:
        raise refused_error(path, RECORD_KEY, "", "the columns of a record's key")


def _check_metadata(options: TableOptions, path: str, choice: str) -> None:
    """Check that the choice for the metadata table does not make it wrong."""
    partitions, inflight = options.metadata_partitions, options.metadata_inflight
    if choice == DROP or not (partitions or inflight):
        return
    shown = f"{path}: {METADATA} is {','.join((*partitions, *inflight))!r}"
    delete = f"to delete the metadata table first, {metadata_remedy(DROP)}"
    if options.version == 6:
        raise FormatError(
            f"{shown}: readers would not see new files, and that of version 6 is not written "
            f"here; {delete}"
        )
    if FILES not in partitions or FILES in inflight:
        raise FormatError(f"{shown}: files are not listed there, or not yet; {delete}")
    is_files_only = partitions == (FILES,) and not inflight
    if choice == REFUSE and is_files_only:
        raise FormatError(
            f"{shown}: readers would not see new files; to list these there, too, "
            f"{metadata_remedy(MAINTAIN)}; {delete}"
        )
    if choice in (REFUSE, MAINTAIN) and not is_files_only:
        raise FormatError(
            f"{shown}: readers would not see new files, and only {FILES!r} is written here; to "
            f"remove the other partitions first, {metadata_remedy(REDUCE)}; {delete}"
        )


def metadata_remedy(choice: str) -> str:
    """Return a remedy for errors: how to choose the treatment of the metadata table.

    >>> metadata_remedy("drop")
    "pass metadata='drop', to a write in options=WriteOptions(metadata='drop')"
    """
    return f"pass metadata={choice!r}, to a write in options=WriteOptions(metadata={choice!r})"


def _check_rules(options: TableOptions, path: str) -> None:
    """Check that no property contains a rule for writers that is not supported."""
    for name, value in options.others.items():
        if name in KNOWN or not (name.startswith(RULES) or name == OLD_STRATEGY):
            continue
        allowed = _HARMLESS.get(name, frozenset())
        if name == STRATEGY and options.version != 6 and options.merge_mode in STRATEGIES:
            allowed = frozenset({STRATEGIES[options.merge_mode]})
        elif name == LEGACY_PAYLOAD and options.merge_mode in PAYLOADS:
            # This was the value in version 8; the upgrade wrote the equivalent mode.
            allowed = frozenset({PAYLOADS[options.merge_mode].lower()})
        elif name == OLD_STRATEGY:
            allowed = frozenset(STRATEGIES.values())
        if allowed is None or value.strip().lower() in allowed:
            continue
        known = next((one for one in _REASONS if name.startswith(one)), "")
        reason = _REASONS.get(known, "a rule for writers that is not known here")
        raise FormatError(
            f"{path}: {name} is {value!r}: {reason}; the table can only be read: write with "
            "Apache Hudi, or delete the property if no writer or reader goes by it"
        )


def check_same_layout(options: TableOptions, before: TableOptions, path: str) -> None:
    """Raise an error if the layout of a table has changed since a write began.

    Args:
        options: Options of the table.
        before: Options when the write began.
        path: Path of the table, which errors name.

    Raises:
        FormatError: If a property changed. The error names the property.
    """
    for name, now, then in (
        (VERSION, options.version, before.version),
        (RECORD_KEY, options.record_key, before.record_key),
        (PARTITION, options.partition_by, before.partition_by),
        (PARTITION, options.partition_types, before.partition_types),
        (options.generator_property, options.key_generator, before.key_generator),
        (TIMES[0], options.time_format, before.time_format),
        (HIVE_STYLE, options.hive_style, before.hive_style),
        (URL_ENCODE, options.url_encode, before.url_encode),
        (TIMELINE, options.timeline, before.timeline),
        (LOCK_PROVIDER, options.others.get(LOCK_PROVIDER), before.others.get(LOCK_PROVIDER)),
    ):
        if now != then:
            raise FormatError(
                f"{path}: {name} is {now!r}, but was {then!r} when this write began; nothing "
                "was committed: write again"
            )
