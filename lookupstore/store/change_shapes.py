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
from lookupstore.arrow.taking import keep_rows
from lookupstore.arrow.types import is_text, plain_type, unwrap
from lookupstore.errors import listed, meant
from lookupstore.source.opening import in_types

#: Shape of changes. `rows`: all rows are upserted. `changelog`: the shape of `LookupStore.changes`.
#: `debezium`: events of Debezium. `hudi`: events of Apache Hudi.
ChangesBy: TypeAlias = Literal["rows", "changelog", "debezium", "hudi"]
SHAPES: tuple[ChangesBy, ...] = get_args(ChangesBy)

#: Effects of an event on the row of a key. `ROW`: the row is stored. `DELETE`: the row is deleted.
#: `BEFORE`: the row is replaced by the next event of the key; without such an event, the row has
#: another key now, and this key is deleted, too.
ROW, DELETE, BEFORE = 0, 1, 2

_CHANGELOG = {
    changelog.INSERT: ROW,
    changelog.BEFORE: BEFORE,
    changelog.AFTER: ROW,
    changelog.DELETE: DELETE,
}
_DEBEZIUM = {"c": ROW, "r": ROW, "u": ROW, "d": DELETE}
_HUDI = {"i": ROW, "u": ROW, "d": DELETE}
_OP, _IMAGES = "op", ("before", "after")
#: Name of the column in which Kafka Connect stores an event of Debezium, next to its schema.
PAYLOAD = "payload"
_ENVELOPE = ("schema", PAYLOAD)
# Prefix of the columns that Apache Hudi adds to rows, and name of the column that marks deletes.
_META = "_hoodie_"
_IS_DELETED = "_hoodie_is_deleted"
# Names, in lower case, of columns in which tools such as AWS DMS write the operation of each row.
_OPERATIONS = frozenset((_OP, "_op", "__op", "op_type", "operation", "change_type", "_change_type"))
_AS_CHANGELOG = (
    f"if it says what became of each row, name it {changelog.CHANGE!r}, with the values "
    f"{changelog.INSERT!r}, {changelog.AFTER!r} and {changelog.DELETE!r}"
)
#: Names of the columns whose types `plan_changes` reads, together with the type of `PAYLOAD` for
#: events of Debezium; it reads only the names of other columns.
SHAPE_COLUMNS = (changelog.CHANGE, _OP, *_IMAGES, _IS_DELETED)

_Kinds = npt.NDArray[np.uint8]
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
    key_kinds: _Kinds


@dataclass(frozen=True)
class ChangeReader:
    """A plan for reading changes, made by `plan_changes`.

    Attributes:
        shape: Shape of the changes, such as `"changelog"`.
        names: Names of the store's columns that the rows have, key columns first.
        source_names: Names of the columns to read from the source.
        keys: Names of the key columns of the store.
        known: Arrow schema of the store, key columns first.
        kinds: Name of the column that says what becomes of a row, with the meaning of each of its
            values. None: all rows are upserted.
        has_images: Whether the rows are in columns `before` and `after`.
        chosen: Names of the value columns to take. None: all.
        in_payload: Whether the events are structs in a column `payload`.
    """

    shape: ChangesBy
    names: tuple[str, ...]
    source_names: tuple[str, ...]
    keys: tuple[str, ...]
    known: pa.Schema
    kinds: tuple[str, dict[str, int]] | None = None
    has_images: bool = False
    chosen: tuple[str, ...] | None = None
    in_payload: bool = False

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
        images = [given.field(name) for name in _images_in(given.names)]
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
            if is_text(one.type) and one.name in self.known.names
            else one
            for one in image.type
        ]
        return [image.with_type(pa.struct(fields))]

    def events(self, batch: pa.RecordBatch, first_row: int | None = None) -> Events:
        """Return the events of a batch of the columns to read.

        Args:
            batch: Batch of n rows with the columns `source_names`.
            first_row: Number of the first row, from 0, for errors. Default: rows have no numbers.

        Returns:
            Events whose places are twice the numbers of their rows; rows in a column `after` have
            one more, so that each follows the row that it replaces.

        Raises:
            ValueError: If a row does not say what becomes of it, or lacks the row before or after
                that it should have.
        """
        if self.in_payload:
            payload = unwrap(batch.column(PAYLOAD))
            batch = pa.RecordBatch.from_arrays(payload.flatten(), schema=pa.schema([*payload.type]))
        kinds = self._kinds(batch, first_row)
        if self.has_images:
            return self._of_images(batch, kinds, first_row)
        is_row = kinds == ROW
        rows, keys = batch.select(list(self.names)), batch.select(list(self.keys))
        return Events(
            keep_rows(rows, pa.array(is_row)),
            np.flatnonzero(is_row) * 2,
            keep_rows(keys, pa.array(~is_row)),
            np.flatnonzero(~is_row) * 2,
            kinds[~is_row],
        )

    def _kinds(self, batch: pa.RecordBatch, first_row: int | None) -> _Kinds:
        """Return the kind of each row; rows without effect are `DELETE` without a row."""
        assert self.kinds is not None
        name, meanings = self.kinds
        column = batch.column(name)
        texts = unwrap(column)
        if not meanings:
            flags = texts.cast(pa.bool_()).fill_null(False)
            return np.where(np.asarray(flags), DELETE, ROW).astype(np.uint8)
        if pa.types.is_null(texts.type):
            texts = texts.cast(pa.string())
        found = pc.index_in(texts, value_set=pa.array(list(meanings), texts.type))
        bad = found.is_null()
        if self.has_images:  # after a delete, Kafka sends an empty message
            empty = texts.is_null()
            for one in _images_in(batch.schema.names):
                empty = pc.and_(empty, batch.column(one).is_null())
            bad = pc.and_not(bad, empty)
        if bad.true_count:
            row = pc.index(bad, True).as_py()
            raise ValueError(
                f"changes: {_where(first_row, row)}the column {name!r} is "
                f"{shown_value(texts[row])}; expected {', '.join(map(repr, meanings))}"
                f"{self._remedy(texts[row].as_py())}"
            )
        codes = np.asarray(found.fill_null(len(meanings)))
        return np.take(np.array([*meanings.values(), DELETE], np.uint8), codes)

    def _remedy(self, found: str | None) -> str:
        if self.shape == "debezium" and found == "t":
            return "; the table was truncated: build the store again from its rows"
        if self.shape == "changelog":
            return "; if it is not what became of the rows, pass changes_by='rows' and columns="
        return "; leave such rows out"

    def _of_images(self, batch: pa.RecordBatch, kinds: _Kinds, first_row: int | None) -> Events:
        images = {name: batch.column(name) for name in _images_in(batch.schema.names)}
        missing = pa.nulls(batch.num_rows)
        before, after = (images.get(name, missing) for name in _IMAGES)
        is_row = kinds == ROW
        has_before, has_after = (np.asarray(one.is_valid()) for one in (before, after))
        op = batch.column(_OP)
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
        # The row before an update is needed only if it had another key.
        key_places = np.flatnonzero(has_before & ~nothing)
        keys = self._image(before, key_places, self.keys, first_row)
        replaced = is_row[key_places]
        if replaced.any():
            own = rows.select(list(self.keys)).take(
                pa.array(np.searchsorted(row_places, key_places[replaced]))
            )
            were = keys.filter(pa.array(replaced))
            moved = np.zeros(len(were), bool)
            for one, other in zip(were.columns, own.columns, strict=True):
                # An image may contain only the columns that changed.
                moved |= np.asarray(pc.fill_null(pc.not_equal(one, other), False))
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

    def _image(
        self, column: pa.Array, places: _Places, names: Sequence[str], first_row: int | None
    ) -> pa.RecordBatch:
        """Return columns of some rows that are stored as structs or JSON texts."""
        column = unwrap(column.take(pa.array(places)))
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
        source = in_types(io.BytesIO(lines.encode()), self.known)
        if whole:
            given = [name for name in source.schema.names if not name.startswith(_META)]
            _check_known(given, self.known.names, self.chosen)
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
    columns: str | Sequence[str] | None = None,
    read: Collection[str] = (),
) -> ChangeReader:
    """Plan how changes with the given columns are read.

    Args:
        given: Arrow schema of the changes.
        known: Arrow schema of the store, key columns first.
        keys: Names of the key columns.
        changes_by: Shape of the changes. Default: `changelog` if there is a text column `change`
            that the store lacks and nothing else reads, otherwise `rows`.
        columns: Names of the value columns to take. Default: all.
        read: Names of columns that something else reads, which the store may lack.

    Raises:
        KeyError: The store lacks a column, or the changes lack a key column or one of `columns`.
        ValueError: There is no such shape, or the changes lack its columns.
        TypeError: A column of the shape is of another type.

    >>> known = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> plan_changes(pa.schema({"id": pa.int64(), "nmae": pa.string()}), known, ["id"])
    Traceback (most recent call last):
    KeyError: "changes: the store has no column 'nmae'; did you mean 'name'? Its columns are 'id', \
'name'; rename it, or choose with columns= which are taken"
    """
    chosen = _chosen(columns, known.names)
    if changes_by not in (None, *SHAPES):
        raise ValueError(f"changes_by is {changes_by!r}; give {', '.join(map(repr, SHAPES))}")
    told = _has_changelog(given, known.names)
    in_payload = _is_in_payload(changes_by, given.names)
    if in_payload:
        given = _payload_of(given)
    shape = changes_by or ("changelog" if told and changelog.CHANGE not in read else "rows")
    kinds: tuple[str, dict[str, int]] | None = None
    has_images = False
    own: set[str] = set()
    if shape == "changelog" or (shape == "hudi" and told):
        kinds, own = (_text_column(given, changelog.CHANGE, shape), _CHANGELOG), {changelog.CHANGE}
    elif shape == "debezium" or (shape == "hudi" and _OP in given.names):
        kinds = (_text_column(given, _OP, shape), _DEBEZIUM if shape == "debezium" else _HUDI)
        has_images = True
    elif shape == "hudi":
        own = {name for name in given.names if name.startswith(_META)}
        kinds = _hudi_kinds(given)
    if has_images:
        _check_images(given, shape)
        names = _image_names(given, known.names)
    else:
        others = own.union(read).difference(known.names)
        names = [name for name in given.names if name not in others]
    _check_known(names, known.names, chosen, given.names)
    for name in [*keys, *(chosen or ())]:
        if name not in names:
            what = "key column" if name in keys else "column"
            raise KeyError(f"changes: no {what} {name!r}; they have {names}")
    wanted = set(known.names if chosen is None else [*keys, *chosen])
    rows = tuple(name for name in known.names if name in names and name in wanted)
    if has_images:
        source_names = [PAYLOAD] if in_payload else [_OP, *_images_in(given.names)]
    else:
        source_names = [*rows]
        if kinds is not None and kinds[0] not in rows:
            source_names.append(kinds[0])
    return ChangeReader(
        "rows" if kinds is None else shape,
        rows,
        tuple(source_names),
        tuple(keys),
        known,
        kinds,
        has_images,
        chosen,
        in_payload,
    )


def _is_in_payload(changes_by: ChangesBy | None, names: Collection[str]) -> bool:
    """Return whether events of Debezium are in the envelope of Kafka Connect."""
    return changes_by == "debezium" and _OP not in names and PAYLOAD in names


def _payload_of(given: pa.Schema) -> pa.Schema:
    """Return the columns of the events in an envelope.

    Raises:
        TypeError: If the events are not structs.
    """
    kind = plain_type(given.field(PAYLOAD).type)
    if not pa.types.is_struct(kind):
        raise TypeError(f"changes: the column {PAYLOAD!r} is {kind}; give structs")
    return pa.schema([kind.field(at) for at in range(kind.num_fields)])


def _chosen(columns: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...] | None:
    if columns is None:
        return None
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in chosen:
        if not isinstance(name, str):
            raise TypeError(f"columns contains {name!r}; give column names")
        if name not in known:
            raise KeyError(f"columns: {_unknown(name, known)}")
    return chosen


def _check_known(
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
    if name == _IS_DELETED:
        return "if rows with it are deletes, pass changes_by='hudi'"
    events = {_OP, *_IMAGES} if name in (_OP, *_IMAGES) else {*_ENVELOPE}
    if name in events and events.issubset(given):
        return "if the rows are events of a changelog, pass changes_by='debezium' or 'hudi'"
    if name.lower() in _OPERATIONS:  # without that column, deletions would be upserted
        return _AS_CHANGELOG
    return "rename it, or choose with columns= which are taken"


def _has_changelog(given: pa.Schema, known: Collection[str]) -> bool:
    name = changelog.CHANGE
    return name in given.names and name not in known and is_text(plain_type(given.field(name).type))


def _text_column(given: pa.Schema, name: str, shape: str) -> str:
    if name not in given.names:
        raise ValueError(
            f"changes_by is {shape!r}, but the changes have no column {name!r}; they have "
            f"[{listed(given.names)}]{_flat_remedy(given.names)}"
        )
    kind = plain_type(given.field(name).type)
    if not (is_text(kind) or pa.types.is_null(kind)):
        raise TypeError(f"changes: the column {name!r} is {kind}; give texts")
    return name


def _hudi_kinds(given: pa.Schema) -> tuple[str, dict[str, int]] | None:
    """Return the column that marks deletes and the meanings of its values. None: no column does."""
    if _IS_DELETED in given.names:
        kind = plain_type(given.field(_IS_DELETED).type)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise TypeError(f"changes: the column {_IS_DELETED!r} is {kind}; give bool")
        return _IS_DELETED, {}
    if any(name.startswith(_META) for name in given.names):
        return None
    raise ValueError(
        f"changes_by is 'hudi', but the changes have no column {_OP!r}, {changelog.CHANGE!r}, "
        f"{_IS_DELETED!r} or other column of Hudi; they have [{listed(given.names)}]"
        f"{_flat_remedy(given.names)}"
    )


def _flat_remedy(given: Sequence[str]) -> str:
    """Return the end of an error about rows that have an operation, but not as an event."""
    names = [name for name in given if name.lower() in _OPERATIONS]
    if not names:
        return ""
    return f"; leave out changes_by, and {_AS_CHANGELOG.replace('it', repr(names[0]), 1)}"


def _images_in(names: Collection[str]) -> list[str]:
    return [name for name in _IMAGES if name in names]


def _check_images(given: pa.Schema, shape: str) -> None:
    there = _images_in(given.names)
    if not there:
        raise ValueError(
            f"changes_by is {shape!r}, but the changes have neither 'before' nor 'after'; they "
            f"have [{listed(given.names)}]{_flat_remedy(given.names)}"
        )
    for name in there:
        kind = plain_type(given.field(name).type)
        if not (pa.types.is_struct(kind) or pa.types.is_null(kind) or is_text(kind)):
            raise TypeError(f"changes: the column {name!r} is {kind}; give structs or JSON texts")


def _image_names(given: pa.Schema, known: Sequence[str]) -> list[str]:
    """Return the fields of rows in image columns; those of JSON texts are unknown."""
    kinds = [plain_type(given.field(name).type) for name in _images_in(given.names)]
    names = [one.name for kind in kinds if pa.types.is_struct(kind) for one in kind]
    if not names:
        return list(known)
    return [name for name in dict.fromkeys(names) if not name.startswith(_META) or name in known]


def _where(first_row: int | None, row: int) -> str:
    return "" if first_row is None else f"row {first_row + row + 1}: "
