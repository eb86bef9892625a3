"""The columns of changes: which of them are rows, and which say what becomes of these.

Each check runs before anything is read, and its error names what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from lookupstore.arrow import changelog
from lookupstore.arrow.types import is_text, plain_type
from lookupstore.errors import listed, meant
from lookupstore.store.change_kinds import (
    CHANGELOG,
    FLAGS,
    NAMED,
    ROW,
    KindColumn,
    is_operation,
    is_unordered,
    order_of,
)
from lookupstore.store.debezium_values import SCHEMA

#: Columns of an event: what happened, and the rows before and after.
OP, IMAGES = "op", ("before", "after")
#: Name of the column in which Kafka Connect stores an event of Debezium, next to its schema.
PAYLOAD = "payload"
_ENVELOPE = (SCHEMA, PAYLOAD)
#: Prefix of the columns that Apache Hudi adds to rows, and name of the one that marks deletes.
META = "_hoodie_"
IS_DELETED = "_hoodie_is_deleted"
# Remedy for a change feed whose rows have no order.
_VERSIONS = "load '_commit_version' (Delta) or '_change_ordinal' (Iceberg) too"


def chosen_columns(
    columns: str | Sequence[str] | None, known: Sequence[str]
) -> tuple[str, ...] | None:
    if columns is None:
        return None
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in chosen:
        if not isinstance(name, str):
            raise TypeError(f"columns contains {name!r}; give column names")
        if name not in known:
            raise KeyError(f"columns: {_unknown(name, known)}")
    return chosen


def check_known(
    names: Sequence[str],
    known: Sequence[str],
    chosen: Collection[str] | None,
    given: Sequence[str] = (),
) -> None:
    """Check that the store has all columns, unless the caller chose columns."""
    for name in names if chosen is None else ():
        if name not in known:
            raise KeyError(f"changes: {_unknown(name, known)}; {_what_to_do(name, given)}")


def _unknown(name: str, known: Sequence[str]) -> str:
    others = meant(name, known, f"its columns are {listed(known)}")
    return f"the store has no column {name!r}{others}"


def _what_to_do(name: str, given: Sequence[str]) -> str:
    if name == IS_DELETED:
        return "if rows with it are deletes, pass changes_by='hudi'"
    events = {OP, *IMAGES} if name in (OP, *IMAGES) else {*_ENVELOPE}
    if name in events and events.issubset(given):
        return "if the rows are events of a changelog, pass changes_by='debezium' or 'hudi'"
    if is_operation(name):  # without that column, deletions would be upserted
        return f"if it says what became of each row, {_kinds_remedy(name, given)}"
    return "rename it, or choose with columns= which are taken"


def _kinds_remedy(name: str, given: Collection[str]) -> str:
    return _VERSIONS if is_unordered(name, given) else f"pass kinds={name!r}"


def check_other_kinds(
    names: Sequence[str], known: Collection[str], keys: Collection[str], kinds: str
) -> None:
    """Check that no column besides that of `kinds` may say that a row is to be deleted.

    Args:
        names: Columns of the changes without those of `kinds`.
        known: Columns of the store.
        keys: Key columns of the store.
        kinds: Column that says what becomes of each row.

    Raises:
        KeyError: If the store lacks such a column. The two columns may disagree.
    """
    for name in names:
        if name not in known and may_delete(name):
            values = [one for one in names if one in known and one not in keys]
            raise KeyError(
                f"changes: the store has no column {name!r}, and kinds is {kinds!r}; to leave "
                f"{name!r} out, pass columns={values!r}"
            )


def may_delete(name: str) -> bool:
    """Return whether tools use a column of that name to mark rows that are deleted."""
    return is_operation(name) or name == IS_DELETED


def check_no_kinds(names: Sequence[str], others: Collection[str]) -> None:
    """Check that no column that is not taken may say that a row is to be deleted.

    Raises:
        ValueError: If there is such a column.
    """
    for name in names:
        if name not in others and may_delete(name):
            raise ValueError(
                f"changes: columns= leaves out {name!r}; {_what_to_do(name, names)}, otherwise "
                "changes_by='rows'"
            )


def changelog_kinds(given: pa.Schema, kinds: str | None, default: str) -> KindColumn:
    """Return the column of a changelog that says what becomes of each row.

    Raises:
        KeyError: If there is no column of that name.
        ValueError: If the rows of a change feed have no versions.
        TypeError: If the column or the one that orders the rows has another type.
    """
    if kinds is None and default == changelog.CHANGE:
        return KindColumn(text_column(given, default, "changelog"), CHANGELOG)
    name = default if kinds is None else kinds
    if name not in given.names:
        others = meant(name, given.names, f"they have [{listed(given.names)}]")
        raise KeyError(f"kinds: the changes have no column {name!r}{others}")
    kind = plain_type(given.field(name).type)
    if not (is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeError(f"changes: the column {name!r} is {kind}; give texts or bool")
    if is_unordered(name, given.names):  # deltalake returns the versions in any order
        raise ValueError(
            f"kinds is {name!r}, but the changes lack the versions that order them; {_VERSIONS}"
        )
    order = order_of(name, given.names)
    if order is not None:
        kind = plain_type(given.field(order).type)
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise TypeError(f"changes: the column {order!r} is {kind}; give integers")
    return KindColumn(name, NAMED, any_case=True)


def text_column(given: pa.Schema, name: str, shape: str) -> str:
    if name not in given.names:
        raise ValueError(
            f"changes_by is {shape!r}, but the changes have no column {name!r}; they have "
            f"[{listed(given.names)}]{_flat_remedy(given.names)}"
        )
    kind = plain_type(given.field(name).type)
    if not (is_text(kind) or pa.types.is_null(kind)):
        raise TypeError(f"changes: the column {name!r} is {kind}; give texts")
    return name


def hudi_kinds(given: pa.Schema) -> KindColumn | None:
    """Return the column that marks deletes and the meanings of its values. None: no column does."""
    if IS_DELETED in given.names:
        kind = plain_type(given.field(IS_DELETED).type)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise TypeError(f"changes: the column {IS_DELETED!r} is {kind}; give bool")
        return KindColumn(IS_DELETED, FLAGS, missing=ROW)
    if any(name.startswith(META) for name in given.names):
        return None
    raise ValueError(
        f"changes_by is 'hudi', but the changes have no column {OP!r}, {changelog.CHANGE!r}, "
        f"{IS_DELETED!r} or other column of Hudi; they have [{listed(given.names)}]"
        f"{_flat_remedy(given.names)}"
    )


def _flat_remedy(given: Sequence[str]) -> str:
    """Return the end of an error about rows that have an operation, but not as an event."""
    names = [name for name in given if is_operation(name)]
    if not names:
        return ""
    return (
        f"; leave out changes_by, and if {names[0]!r} says what became of each row, "
        f"{_kinds_remedy(names[0], given)}"
    )


def images_in(names: Collection[str]) -> list[str]:
    return [name for name in IMAGES if name in names]


def check_images(given: pa.Schema, shape: str) -> None:
    there = images_in(given.names)
    if not there:
        raise ValueError(
            f"changes_by is {shape!r}, but the changes have neither 'before' nor 'after'; they "
            f"have [{listed(given.names)}]{_flat_remedy(given.names)}"
        )
    for name in there:
        kind = plain_type(given.field(name).type)
        if not (pa.types.is_struct(kind) or pa.types.is_null(kind) or is_text(kind)):
            raise TypeError(f"changes: the column {name!r} is {kind}; give structs or JSON texts")


def image_names(given: pa.Schema, known: Sequence[str]) -> list[str]:
    """Return the fields of rows in image columns; those of JSON texts are unknown."""
    kinds = [plain_type(given.field(name).type) for name in images_in(given.names)]
    names = [one.name for kind in kinds if pa.types.is_struct(kind) for one in kind]
    if not names:
        return list(known)
    return [name for name in dict.fromkeys(names) if not name.startswith(META) or name in known]
