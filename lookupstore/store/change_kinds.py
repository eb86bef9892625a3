"""What becomes of each row of a changelog, as tools write it in a column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow import changelog
from lookupstore.arrow.types import is_text, plain_type, unwrap

#: Effects of an event on the row of a key. `ROW`: the row is stored. `DELETE`: the row is deleted.
#: `BEFORE`: the row is replaced by the next event of the key; without such an event, the row has
#: another key now, and this key is deleted, too.
ROW, DELETE, BEFORE = 0, 1, 2

#: Effects of n events, and numbers that order n rows.
Kinds: TypeAlias = "npt.NDArray[np.uint8]"
Numbers: TypeAlias = "npt.NDArray[np.uint64]"

#: Column that says what became of a row in the feeds of Delta (`insert`, `update_preimage`,
#: `update_postimage`, `delete`) and Iceberg (`INSERT`, `UPDATE_BEFORE`, `UPDATE_AFTER`, `DELETE`).
CHANGE_TYPE = "_change_type"
# Column that orders the rows of a feed, and the other column that the feed adds: Delta, Iceberg.
_ORDERS = {"_commit_version": "_commit_timestamp", "_change_ordinal": "_commit_snapshot_id"}
#: Columns of feeds whose types are read.
FEED_COLUMNS = (CHANGE_TYPE, *_ORDERS)
# Names, in lower case, of columns in which tools write what became of each row: AWS DMS, Debezium's
# flattened events, Paimon, Snowflake.
_OPERATIONS = frozenset(
    ("op", "_op", "__op", "__deleted", "op_type", "operation", "change_type", CHANGE_TYPE,
     "rowkind", "row_kind", "metadata$action")
)  # fmt: skip


@dataclass(frozen=True)
class KindColumn:
    """A column that says what becomes of each row.

    Attributes:
        name: Name of the column.
        meanings: Effect of each value as text, in lower case if `any_case`.
        any_case: Whether values may be in upper case.
        missing: Effect of null. None: null is not allowed.
    """

    name: str
    meanings: Mapping[str, int]
    any_case: bool = False
    missing: int | None = None

    def effects(self, column: pa.Array) -> tuple[Kinds, pa.Array]:
        """Return the effect of each value of the column, and which values have none."""
        texts = unwrap(column).cast(pa.large_string())
        if self.any_case:
            texts = pc.utf8_lower(texts)
        found = pc.index_in(texts, value_set=pa.array(list(self.meanings), texts.type))
        bad = found.is_null()
        if self.missing is not None:
            bad = pc.and_not(bad, texts.is_null())
        codes = np.asarray(found.fill_null(len(self.meanings)))
        effects = [*self.meanings.values(), DELETE if self.missing is None else self.missing]
        return np.take(np.array(effects, np.uint8), codes), bad


#: Values of the column `change` of a changelog.
CHANGELOG = {
    changelog.INSERT: ROW,
    changelog.BEFORE: BEFORE,
    changelog.AFTER: ROW,
    changelog.DELETE: DELETE,
}
#: Values of `op` in events of Debezium, and of Hudi.
DEBEZIUM = {"c": ROW, "r": ROW, "u": ROW, "d": DELETE}
HUDI = {"i": ROW, "u": ROW, "d": DELETE}
#: Values of `_hoodie_is_deleted` of Hudi.
FLAGS = {"true": DELETE, "false": ROW}
#: Values of a column that the caller names, in lower case. No two tools use one of them in another
#: sense.
NAMED = {
    "i": ROW, "c": ROW, "r": ROW, "u": ROW, "d": DELETE,
    "insert": ROW, "update": ROW, "delete": DELETE,
    "update_before": BEFORE, "update_after": ROW,
    "update_preimage": BEFORE, "update_postimage": ROW,
    "+i": ROW, "-u": BEFORE, "+u": ROW, "-d": DELETE,
    **FLAGS,
}  # fmt: skip


def is_operation(name: str) -> bool:
    """Return whether a column has a name under which tools write what became of each row.

    >>> is_operation("Op"), is_operation("country")
    (True, False)
    """
    return name.lower() in _OPERATIONS


def order_of(name: str, given: Collection[str]) -> str | None:
    """Return the column that orders the rows of a feed. None: the order of the rows counts.

    >>> order_of("_change_type", ["id", "_change_type", "_commit_version"])
    '_commit_version'
    """
    if name != CHANGE_TYPE:
        return None
    return next((one for one in _ORDERS if one in given), None)


def is_unordered(name: str, given: Collection[str]) -> bool:
    """Return whether rows of a feed lack the column that orders them.

    >>> is_unordered("_change_type", ["id", "_change_type"]), is_unordered("Op", ["id", "Op"])
    (True, False)
    """
    return name.lower() == CHANGE_TYPE and order_of(name, given) is None


def feed_columns(name: str, given: Collection[str]) -> set[str]:
    """Return the columns that a tool adds to rows to say what became of them."""
    order = order_of(name, given)
    return {name} if order is None else {name, order, _ORDERS[order]}


def kind_by_default(given: pa.Schema, known: Sequence[str], read: Collection[str]) -> str | None:
    """Return the column that says what becomes of each row, where its name leaves no doubt.

    Args:
        given: Arrow schema of the changes.
        known: Names of the columns of the store.
        read: Names of columns that something else reads.
    """
    for name in (CHANGE_TYPE, changelog.CHANGE):
        if name not in given.names or name in known or name in read:
            continue
        is_feed = name == CHANGE_TYPE
        if order_of(name, given.names) if is_feed else is_text(plain_type(given.field(name).type)):
            return name
    return None
