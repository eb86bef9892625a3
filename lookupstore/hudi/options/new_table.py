"""``new_options``: the options of a new table, as Hudi would write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookupstore.hudi.options.names import (
    ARCHIVE,
    COMMIT_TIME,
    EVENT_TIME,
    FORMAT,
    INITIAL_VERSION,
    META_FOLDER,
    PAYLOAD,
    PAYLOADS,
    RECORD_KEY,
    STRATEGIES,
    STRATEGY,
    VERSIONS,
)
from lookupstore.hudi.options.refused import either
from lookupstore.hudi.options.table_options import TableOptions


def new_options(
    *,
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    merge_mode: str | None = None,
    version: int = 9,
    database: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
) -> TableOptions:
    """Return the options of a new table.

    A text stands for a list of one column, and None for an empty list.

    Raises:
        ValueError: If an argument is not valid, or two arguments contradict each other.

    >>> new_options(name="t", record_key=["id"], partition_by=["day"]).key_generator
    'SIMPLE'
    """
    if version not in VERSIONS:
        raise ValueError(f"version is {version!r}; give {either(VERSIONS)}")
    record_key = [record_key] if isinstance(record_key, str) else record_key
    partition_by = [partition_by] if isinstance(partition_by, str) else partition_by or ()
    if not record_key:
        raise ValueError(
            "record_key is empty; give the columns that identify a row; among Hudi's options it is "
            f"{RECORD_KEY}"
        )
    for argument, columns in (("record_key", record_key), ("partition_by", partition_by)):
        if len(set(columns)) < len(columns):
            raise ValueError(f"{argument} is {columns!r}; give each column once")
        for column in columns:
            # The properties list columns with commas; Hudi's custom keys have a type after a ":".
            if not column or set(column) & set(",:"):
                names = [name.strip() for name in column.split(",") if name.strip()]
                remedy = "give names without ',' or ':'"
                if len(names) > 1:
                    remedy = f"give several columns as a list: {names!r}"
                raise ValueError(f"{argument} has {column!r}; {remedy}")
    if ordering is not None and not isinstance(ordering, str):
        if len(ordering) > 1:
            raise ValueError(f"ordering: {ordering!r} are several columns; give one")
        ordering = next(iter(ordering), None)
    mode = merge_mode or (COMMIT_TIME if ordering is None else EVENT_TIME)
    if mode not in PAYLOADS:
        raise ValueError(f"merge_mode is {mode!r}; give {either([repr(one) for one in PAYLOADS])}")
    if mode == EVENT_TIME and ordering is None:
        raise ValueError(f"merge_mode is {mode!r}, which needs an ordering column; give ordering=")
    others = {ARCHIVE: "archived"}
    if version != 6:
        others[INITIAL_VERSION] = str(version)
    if version == 8:
        others |= {STRATEGY: STRATEGIES[mode], PAYLOAD: PAYLOADS[mode]}
    if version == 6:
        others[PAYLOAD] = PAYLOADS[mode]
    if version == 9:
        others[FORMAT] = "native"
    generator = "NON_PARTITION"
    if partition_by:
        generator = "SIMPLE" if len(record_key) == len(partition_by) == 1 else "COMPLEX"
    options = TableOptions(
        name=name,
        version=version,
        record_key=tuple(record_key),
        partition_by=tuple(partition_by),
        ordering=() if ordering is None else (ordering,),
        merge_mode=mode,
        database=database,
        hive_style=hive_style,
        url_encode=url_encode,
        key_generator=generator,
        # Otherwise instants of writers in several zones would not be in the order of time.
        timezone="UTC",
        merge_from=PAYLOAD if version == 6 else None,
        others=others,
    )
    return replace(options, timeline=META_FOLDER, history=None) if version == 6 else options
