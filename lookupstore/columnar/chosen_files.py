"""The key, the value columns and the lookup files of the columnar files that a source names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.builder.plan import OnDuplicate
from lookupstore.columnar.lookup_file import NO_ORDER, LookupFilePlan, Mode, plan_lookup_file
from lookupstore.columnar.named_files import NamedFiles
from lookupstore.columnar.planned_files import value_fields
from lookupstore.columnar.table_files import MERGED
from lookupstore.errors import meant
from lookupstore.keys.schema import KeySchema


@dataclass(frozen=True)
class ChosenFiles:
    """The key, the value columns and the lookup files of some columnar files.

    Attributes:
        key: The key columns.
        values: Columns of the result of a lookup.
        plans: Plan of the lookup file of each columnar file.
    """

    key: KeySchema
    values: pa.Schema
    plans: list[LookupFilePlan]


def wanted_names(key: Sequence[str], columns: Sequence[str] | None, mode: Mode) -> list[str] | None:
    """Return the names of the columns that count. None: all.

    Args:
        key: Names of the key columns.
        columns: Names of the value columns. None: all columns that are not in the key.
        mode: Content of the result of a lookup.
    """
    everything = columns is None and mode in ("value", "value_and_position")
    return None if everything else [*key, *(columns or ())]


def chosen_files(
    found: NamedFiles,
    key: Sequence[str],
    columns: Sequence[str] | None,
    mode: Mode,
    on_duplicate: OnDuplicate,
) -> ChosenFiles:
    """Return the key, the value columns and the lookup files of named files.

    Args:
        found: The files.
        key: Names of the key columns.
        columns: Names of the value columns. None: all columns that are not in the key.
        mode: Content of the result of a lookup.
        on_duplicate: Handling of a repeated key: `"error"`, `"first"` or `"last"`.

    Raises:
        KeyError: If a column does not exist, or a file lacks a key column.
        TypeError: If the type of a key column cannot be ordered, or a value cannot be stored.
        ValueError: If several columns have the name of one of these, or an argument does not fit
            the files.
    """
    schema = found.schema
    counts = Counter(schema.names)
    wanted = wanted_names(key, columns, mode)
    for name in wanted or key:
        if name not in counts:
            others = meant(name, counts, found.known)
            raise KeyError(f"the files have no column {name!r}{others}")
    for name in wanted or schema.names:
        if counts[name] > 1:
            raise ValueError(
                f"the files have several columns named {name!r}; rename them, or choose the "
                "others with columns=[...]"
            )
    position = found.position_column
    if position is not None and on_duplicate != "error":
        raise ValueError(
            f"on_duplicate is {on_duplicate!r}, but the rows of the {found.table} have no "
            f"order; {NO_ORDER}"
        )
    if "position" in mode and any(file.file_format == MERGED for file in found.files):
        raise ValueError(
            f"mode is {mode!r}, but rows of the {found.table} are made of rows of several files, "
            "and have no position; use mode='value'"
        )
    # A file of a table may have columns that only decide which rows count.
    chosen = schema.names if columns is None and position is not None else columns
    plans = [
        plan_lookup_file(
            # A row that does not meet the filter must not be the first or last of a key.
            file if on_duplicate == "error" else file.without_others() or file,
            key,
            chosen,
            mode,
            on_duplicate,
            also=found.decided_by,
            always_position=position,
        )
        for file in found.files
    ]
    return ChosenFiles(
        KeySchema(pa.schema([schema.field(name).with_nullable(False) for name in key])),
        value_fields(schema, key, columns, mode),
        plans,
    )
