"""The shapes of changes: rows to upsert, or events of a changelog in one of its forms.

A `ChangeReader` is planned from the columns alone, so that a column that the store lacks raises an
error before anything is read, and is sent to tasks. It splits each batch into rows to upsert and
keys to delete.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow import changelog
from lookupstore.arrow.fitting import shown_value
from lookupstore.arrow.taking import keep_rows, movable
from lookupstore.arrow.types import is_text, plain_type, unwrap
from lookupstore.errors import listed, meant
from lookupstore.keys.schema import KeySchema
from lookupstore.source.opening import in_types, open_source
from lookupstore.store.change_columns import (
    IMAGES,
    IS_DELETED,
    META,
    OP,
    PAYLOAD,
    changelog_kinds,
    check_images,
    check_known,
    check_no_kinds,
    check_other_kinds,
    chosen_columns,
    hudi_kinds,
    image_names,
    images_in,
    may_delete,
    text_column,
)
from lookupstore.store.change_kinds import (
    BEFORE,
    CHANGELOG,
    DEBEZIUM,
    DELETE,
    FEED_COLUMNS,
    HUDI,
    ROW,
    KindColumn,
    Kinds,
    Numbers,
    feed_columns,
    kind_by_default,
    order_of,
)
from lookupstore.store.debezium_values import (
    SCHEMA,
    EventSchemas,
    decoded,
    is_encoded,
    schemas_of,
)

#: Shape of changes. `rows`: all rows are upserted. `changelog`: the shape of `LookupStore.changes`.
#: `debezium`: events of Debezium. `hudi`: events of Apache Hudi.
ChangesBy: TypeAlias = Literal["rows", "changelog", "debezium", "hudi"]
SHAPES: tuple[ChangesBy, ...] = get_args(ChangesBy)

#: Names of the columns whose types `plan_changes` reads, together with the type of `PAYLOAD` for
#: events of Debezium; it reads only the names of other columns.
SHAPE_COLUMNS = (changelog.CHANGE, OP, *IMAGES, IS_DELETED, *FEED_COLUMNS)

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """The events of a batch.

    Attributes:
        rows: Rows to upsert, with columns of the store.
        row_places: Places of these rows among the events, ascending.
        keys: Key columns of the rows that are deleted or replaced.
        key_places: Places of these keys among the events.
        key_kinds: Kind of each key, `DELETE` or `BEFORE`.
    """

    rows: pa.RecordBatch
    row_places: _Places
    keys: pa.RecordBatch
    key_places: _Places
    key_kinds: Kinds


@dataclass(frozen=True)
class ChangeReader:
    """A plan for reading changes, made by `plan_changes`.

    Attributes:
        shape: Shape of the changes, such as `"changelog"`.
        names: Names of the store's columns that the rows have, key columns first.
        source_names: Names of the columns to read from the source.
        keys: Names of the key columns of the store.
        known: Arrow schema of the store, key columns first.
        kinds: Column that says what becomes of a row. None: all rows are upserted.
        has_images: Whether the rows are in columns `before` and `after`.
        chosen: Names of the value columns to take. None: all.
        in_payload: Whether the events are structs in a column `payload`.
        ordered_by: Name of the column with the version of each event. In one version, rows follow
            deletes. None: events are in the order of the rows.
        order: Column by whose values events are ordered; equal ones are in the order of the rows.
            None: there is none.
    """

    shape: ChangesBy
    names: tuple[str, ...]
    source_names: tuple[str, ...]
    keys: tuple[str, ...]
    known: pa.Schema
    kinds: KindColumn | None = None
    has_images: bool = False
    chosen: tuple[str, ...] | None = None
    in_payload: bool = False
    ordered_by: str | None = None
    order: pa.Field | None = None

    @property
    def is_changelog(self) -> bool:
        """Return whether the changes are events whose order counts."""
        return self.shape != "rows"

    def types_in_text(self, given: pa.Schema) -> pa.Schema:
        """Return the columns whose values are read in types of the store from a source of text."""
        if not self.has_images:
            return self.known
        if self.in_payload:
            payload = given.field(PAYLOAD)
            event = _payload_of(given)
            typed = replace(self, in_payload=False).types_in_text(event)
            fields = [typed.field(one.name) if one.name in typed.names else one for one in event]
            return pa.schema([payload.with_type(pa.struct(fields))])
        images = [given.field(name) for name in images_in(given.names)]
        structs = [one for one in images if pa.types.is_struct(one.type)]
        # In a snapshot, all rows before the change are null; their types are those of rows after
        # it.
        images = [
            structs[0].with_name(one.name) if structs and one not in structs else one
            for one in images
        ]
        return pa.schema([one for image in images for one in self._image_in_text(image)])

    def _image_in_text(self, image: pa.Field) -> list[pa.Field]:
        if not pa.types.is_struct(image.type):
            return []
        fields = [
            self.known.field(one.name).with_nullable(True)
            if is_text(one.type) and one.name in self.known.names and not self._is_encoded(one)
            else one
            for one in image.type
        ]
        return [image.with_type(pa.struct(fields))]

    def _is_encoded(self, given: pa.Field) -> bool:
        """Return whether values of a field are decoded here, and not where they are read."""
        if self.shape != "debezium" or given.name not in self.known.names:
            return False
        return is_encoded(given.type, self.known.field(given.name).type)

    def events(self, batch: pa.RecordBatch, first_row: int | None = None) -> Events:
        """Return the events of a batch of the columns to read.

        Args:
            batch: Batch of n rows with the columns `source_names`.
            first_row: Number of the first row, from 0, for errors. Default: rows have no numbers.

        Returns:
            Events whose places are twice the numbers of their rows; rows to upsert have one more,
            so that each follows the row that it replaces.

        Raises:
            ValueError: If a row does not say what becomes of it, or lacks the row before or after
                that it should have.
        """
        schemas = None
        if self.shape == "debezium" and SCHEMA in batch.schema.names:
            schemas = schemas_of(batch.column(SCHEMA))
        batch = self._unpacked(batch)
        kinds = self._kinds(batch, first_row)
        if self.has_images:
            return self._of_images(batch, kinds, first_row, schemas)
        is_row = kinds == ROW
        rows, keys = batch.select(list(self.names)), batch.select(list(self.keys))
        return Events(
            keep_rows(rows, pa.array(is_row)),
            np.flatnonzero(is_row) * 2 + 1,
            keep_rows(keys, pa.array(~is_row)),
            np.flatnonzero(~is_row) * 2,
            kinds[~is_row],
        )

    def arrivals(self, batch: pa.RecordBatch, numbers: Numbers) -> Numbers:
        """Return the numbers that order the rows of a batch; the greater is that of the newer row.

        Args:
            batch: Batch of n rows with the columns `source_names`.
            numbers: Array of uint64 with the n numbers of the rows.

        Raises:
            ValueError: If a row has no number in the column that orders them.
        """
        if self.ordered_by is None:
            return numbers
        versions = unwrap(batch.column(self.ordered_by)).cast(pa.int64())
        if versions.null_count or pc.min(versions).as_py() < 0:
            raise ValueError(
                f"changes: the column {self.ordered_by!r} has a row without a version; pass the "
                "rows as the feed has them"
            )
        return np.asarray(versions).astype(np.uint64)

    def orders(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the values by which the events of a batch are ordered. None: there are none.

        Args:
            batch: Batch of n rows with the columns `source_names`.
        """
        if self.order is None:
            return None
        return unwrap(self._unpacked(batch).column(self.order.name))

    def _unpacked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of events, also of those in an envelope."""
        if not self.in_payload:
            return batch
        payload = unwrap(batch.column(PAYLOAD))
        return pa.RecordBatch.from_arrays(payload.flatten(), schema=pa.schema([*payload.type]))

    def _kinds(self, batch: pa.RecordBatch, first_row: int | None) -> Kinds:
        """Return the kind of each row; rows without effect are `DELETE` without a row."""
        assert self.kinds is not None
        name = self.kinds.name
        column = batch.column(name)
        kinds, bad = self.kinds.effects(column)
        if self.has_images:  # after a delete, Kafka sends an empty message
            empty = column.is_null()
            for one in images_in(batch.schema.names):
                empty = pc.and_(empty, batch.column(one).is_null())
            bad = pc.and_not(bad, empty)
        if bad.true_count:
            row = pc.index(bad, True).as_py()
            found = unwrap(column)[row]
            raise ValueError(
                f"changes: {_where(first_row, row)}the column {name!r} is {shown_value(found)}; "
                f"expected {', '.join(map(repr, self.kinds.meanings))}{self._remedy(found.as_py())}"
            )
        return kinds

    def _remedy(self, found: object) -> str:
        if isinstance(found, str) and found.lower() in ("t", "truncate"):
            return "; the table was truncated: build the store again from its rows"
        if self.shape == "changelog" and self.kinds is not None and not self.kinds.any_case:
            return "; if it is not what became of the rows, pass changes_by='rows' and columns="
        return "; leave such rows out"

    def _of_images(
        self,
        batch: pa.RecordBatch,
        kinds: Kinds,
        first_row: int | None,
        schemas: EventSchemas | None,
    ) -> Events:
        images = {name: batch.column(name) for name in images_in(batch.schema.names)}
        missing = pa.nulls(batch.num_rows)
        before, after = (images.get(name, missing) for name in IMAGES)
        is_row = kinds == ROW
        has_before, has_after = (np.asarray(one.is_valid()) for one in (before, after))
        op = batch.column(OP)
        nothing = np.asarray(op.is_null())
        for what, lacks in (("after", is_row & ~has_after), ("before", ~is_row & ~has_before)):
            lacks &= ~nothing
            if lacks.any():
                row = int(np.argmax(lacks))
                raise ValueError(
                    f"changes: {_where(first_row, row)}{what!r} is null, and 'op' is "
                    f"{shown_value(op[row])}; let the source write the "
                    f"{'key' if what == 'before' else 'row'} of each change"
                )
        row_places = np.flatnonzero(is_row & ~nothing)
        rows = self._image(after, row_places, self.names, first_row)
        rows = self._decoded(rows, row_places, "after", schemas)
        # The row before an update is needed only if it had another key.
        key_places = np.flatnonzero(has_before & ~nothing)
        keys = self._image(before, key_places, self.keys, first_row)
        keys = self._decoded(keys, key_places, "before", schemas)
        replaced = is_row[key_places]
        if replaced.any():
            own = rows.select(list(self.keys)).take(
                pa.array(np.searchsorted(row_places, key_places[replaced]))
            )
            were = keys.filter(pa.array(replaced))
            moved = np.zeros(len(were), bool)
            for one, other in zip(were.columns, own.columns, strict=True):
                # An image may contain only the columns that changed.
                differ = pc.not_equal(unwrap(one), unwrap(other))
                moved |= np.asarray(pc.fill_null(differ, False))
            wanted = ~replaced
            wanted[np.flatnonzero(replaced)[moved]] = True
            keys, key_places = keys.filter(pa.array(wanted)), key_places[wanted]
            replaced = replaced[wanted]
        return Events(
            rows,
            row_places * 2 + 1,
            keys,
            key_places * 2,
            np.where(replaced, BEFORE, DELETE).astype(np.uint8),
        )

    def _decoded(
        self, rows: pa.RecordBatch, places: _Places, image: str, schemas: EventSchemas | None
    ) -> pa.RecordBatch:
        """Return rows of events of Debezium with the meaning of their values."""
        if self.shape != "debezium":
            return rows
        columns = []
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            field = self.known.field(name)
            if schemas is None:
                columns.append(decoded(column, None, field))
            else:
                columns.append(schemas.decoded(column, places, image, field))
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)

    def _image(
        self, column: pa.Array, places: _Places, names: Sequence[str], first_row: int | None
    ) -> pa.RecordBatch:
        """Return columns of some rows that are stored as structs or JSON texts."""
        column = movable(unwrap(column)).take(pa.array(places))
        if not len(column):
            return pa.RecordBatch.from_pylist(
                [], schema=pa.schema([self.known.field(name) for name in names])
            )
        if is_text(column.type):
            return self._of_texts(column, names, whole=names is self.names)
        parts = {one.name: part for one, part in zip(column.type, column.flatten(), strict=True)}
        for name in names:
            if name not in parts:
                raise KeyError(
                    f"changes: {_where(first_row, int(places[0]))}the row has no field {name!r}; "
                    f"it has [{listed(parts)}]"
                )
        return pa.RecordBatch.from_arrays([parts[name] for name in names], names=list(names))

    def _of_texts(self, texts: pa.Array, names: Sequence[str], *, whole: bool) -> pa.RecordBatch:
        lines = "\n".join(texts.to_pylist())
        text = lines.encode()
        known = self.known
        if self.shape == "debezium":
            given = open_source(io.BytesIO(text)).schema
            known = pa.schema([one for one in given if self._is_encoded(one)])
            others = [one for one in self.known if one.name not in known.names]
            known = pa.schema([*known, *others])
        source = in_types(io.BytesIO(text), known)
        if whole:
            given = [name for name in source.schema.names if not name.startswith(META)]
            check_known(given, self.known.names, self.chosen)
        for name in names:
            if name not in source.schema.names:
                raise KeyError(
                    f"changes: the rows have no field {name!r}; they have "
                    f"[{listed(source.schema.names)}]"
                )
        table = pa.Table.from_batches(source.batches(names))
        if len(table) != len(texts):
            raise ValueError(
                f"changes: {len(texts)} JSON texts have {len(table)} objects; give one in each"
            )
        return table.combine_chunks().to_batches()[0]


def plan_changes(
    given: pa.Schema,
    known: pa.Schema,
    keys: Sequence[str],
    *,
    changes_by: ChangesBy | None = None,
    kinds: str | None = None,
    columns: str | Sequence[str] | None = None,
    read: Collection[str] = (),
    order_by: str | None = None,
) -> ChangeReader:
    """Plan how changes with the given columns are read.

    Args:
        given: Arrow schema of the changes.
        known: Arrow schema of the store, key columns first.
        keys: Names of the key columns.
        changes_by: Shape of the changes. Default: `changelog` if `kinds` is given, or if a column
            that the store lacks and nothing else reads says what becomes of each row (see
            `kind_by_default`), otherwise `rows`.
        kinds: Name of the column of a changelog that says what becomes of each row. Default:
            `change`, or that of a feed of Delta or Iceberg.
        columns: Names of the value columns to take. Default: all.
        read: Names of columns that something else reads, which the store may lack.
        order_by: Name of the column that orders events. Default: the order of the rows counts.

    Raises:
        KeyError: The store lacks a column, or the changes lack a key column or one of `columns`.
        ValueError: There is no such shape, or the changes lack its columns.
        TypeError: A column of the shape is of another type, or that of `order_by` has no order.

    >>> known = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> plan_changes(pa.schema({"id": pa.int64(), "nmae": pa.string()}), known, ["id"])
    Traceback (most recent call last):
    KeyError: "changes: the store has no column 'nmae'; did you mean 'name'? Its columns are 'id', \
'name'; rename it, or choose with columns= which are taken"
    """
    chosen = chosen_columns(columns, known.names)
    if changes_by not in (None, *SHAPES):
        raise ValueError(f"changes_by is {changes_by!r}; give {', '.join(map(repr, SHAPES))}")
    if kinds is not None and changes_by not in (None, "changelog"):
        raise ValueError(f"kinds is {kinds!r}, and changes_by is {changes_by!r}; give one of them")
    in_payload = _is_in_payload(changes_by, given.names)
    has_schema = SCHEMA in given.names
    if in_payload:
        given = _payload_of(given)
    told = kind_by_default(given, known.names, read)
    shape = changes_by or ("rows" if told is None and kinds is None else "changelog")
    column: KindColumn | None = None
    has_images = False
    own: set[str] = set()
    if shape == "changelog":
        column = changelog_kinds(given, kinds, told or changelog.CHANGE)
        own = feed_columns(column.name, given.names)
    elif shape == "hudi" and told == changelog.CHANGE:
        column, own = KindColumn(text_column(given, told, shape), CHANGELOG), {told}
    elif shape == "debezium" or (shape == "hudi" and OP in given.names):
        meanings = DEBEZIUM if shape == "debezium" else HUDI
        column = KindColumn(text_column(given, OP, shape), meanings)
        has_images = True
    elif shape == "hudi":
        own = {name for name in given.names if name.startswith(META)}
        column = hudi_kinds(given)
    elif changes_by is None and chosen is not None:
        check_no_kinds(given.names, {*known.names, *read})
    order = None
    if order_by is not None:
        order = _order_field(given, order_by, column)
        own.add(order_by)
    if has_images:
        check_images(given, shape)
        names = image_names(given, known.names)
    else:
        others = own.union(read).difference(known.names)
        names = [name for name in given.names if name not in others]
    if kinds is None or chosen is not None:
        check_known(names, known.names, chosen, given.names)
    else:  # a misspelt name is no column to leave out, so it is named first
        of_rows = [name for name in names if not may_delete(name)]
        check_known(of_rows, known.names, chosen, given.names)
        check_other_kinds(names, known.names, keys, kinds)
    for name in [*keys, *(chosen or ())]:
        if name not in names:
            what = "key column" if name in keys else "column"
            raise KeyError(f"changes: no {what} {name!r}; they have {names}")
    wanted = set(known.names if chosen is None else [*keys, *chosen])
    rows = tuple(name for name in known.names if name in names and name in wanted)
    if has_images:
        source_names = [PAYLOAD] if in_payload else [OP, *images_in(given.names)]
        source_names += [SCHEMA] if in_payload and has_schema else []
        source_names += [] if in_payload or order_by is None else [order_by]
    else:
        source_names = [*rows]
        more = [] if column is None else [column.name, order_of(column.name, given.names)]
        more.append(order_by)
        source_names += [name for name in more if name is not None and name not in rows]
    return ChangeReader(
        "rows" if column is None else shape,
        rows,
        tuple(source_names),
        tuple(keys),
        known,
        column,
        has_images,
        chosen,
        in_payload,
        None if column is None or has_images else order_of(column.name, given.names),
        order,
    )


def _order_field(given: pa.Schema, name: str, kinds: KindColumn | None) -> pa.Field:
    """Return the column that orders events.

    Raises:
        ValueError: If the changes are rows, or a feed with an order of its own.
        KeyError: If there is no such column.
        TypeError: If the type of the column has no order.
    """
    if kinds is None:
        raise ValueError(
            f"order_by is {name!r}, but the changes are rows to upsert; pass sequence= with a "
            "value column, or kinds= or changes_by= if they are events"
        )
    order = order_of(kinds.name, given.names)
    if order is not None:
        raise ValueError(
            f"order_by is {name!r}, but the column {order!r} orders the rows of the feed; leave "
            "order_by out"
        )
    if name not in given.names:
        others = meant(name, given.names, f"they have [{listed(given.names)}]")
        raise KeyError(f"order_by: the changes have no column {name!r}{others}")
    kind = plain_type(given.field(name).type)
    try:
        KeySchema(pa.schema([(name, kind)]))
    except TypeError:
        raise TypeError(
            f"order_by: the column {name!r} is {kind}, which has no order; name another column"
        ) from None
    return pa.field(name, kind)


def _is_in_payload(changes_by: ChangesBy | None, names: Collection[str]) -> bool:
    """Return whether events of Debezium are in the envelope of Kafka Connect."""
    return changes_by == "debezium" and OP not in names and PAYLOAD in names


def _payload_of(given: pa.Schema) -> pa.Schema:
    """Return the columns of the events in an envelope.

    Raises:
        TypeError: If the events are not structs.
    """
    kind = plain_type(given.field(PAYLOAD).type)
    if not pa.types.is_struct(kind):
        raise TypeError(f"changes: the column {PAYLOAD!r} is {kind}; give structs")
    return pa.schema([kind.field(at) for at in range(kind.num_fields)])


def _where(first_row: int | None, row: int) -> str:
    return "" if first_row is None else f"row {first_row + row + 1}: "
