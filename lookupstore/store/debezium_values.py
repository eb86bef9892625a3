"""Values in events of Debezium that JSON has as numbers and texts: dates, times, decimals, bytes.

The schema next to an event names the meaning of each value. Without it, only the type of the column
in the store can, and only where one meaning is possible.

Source: the data type mappings in the documentation of Debezium's connectors, and the JsonConverter
of Kafka Connect, which writes bytes in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.fitting import fit, shown_value
from lookupstore.arrow.types import is_bytes, is_text, plain_type, unwrap
from lookupstore.source.text_values import typed

#: Name of the column in which Kafka Connect stores the schema of an event.
SCHEMA = "schema"

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_DECIMAL = f"{_CONNECT}Decimal"
# Types of integers, by the names that schemas have for them.
_TIMES: Mapping[str, pa.DataType] = {
    f"{_CONNECT}Date": pa.date32(),
    f"{_CONNECT}Time": pa.time32("ms"),
    f"{_CONNECT}Timestamp": pa.timestamp("ms"),
    f"{_DEBEZIUM}Date": pa.date32(),
    f"{_DEBEZIUM}Time": pa.time32("ms"),
    f"{_DEBEZIUM}MicroTime": pa.time64("us"),
    f"{_DEBEZIUM}NanoTime": pa.time64("ns"),
    f"{_DEBEZIUM}Timestamp": pa.timestamp("ms"),
    f"{_DEBEZIUM}MicroTimestamp": pa.timestamp("us"),
    f"{_DEBEZIUM}NanoTimestamp": pa.timestamp("ns"),
}
# Units of times of a day, each by its number in a second.
_PER_SECOND: Mapping[str, int] = {"ms": 10**3, "us": 10**6, "ns": 10**9}
# More digits than a decimal of Arrow has.
_EXACT = Context(prec=1000)
# Separators of texts that name schemas.
_FIELD, _ENTRY = "\x1f", "\x1e"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_WITH_SCHEMAS = "let the connector write schemas (value.converter.schemas.enable=true)"
_WITH_TEXTS = (
    "let the connector write decimals as texts (decimal.handling.mode=string), or schemas "
    "(value.converter.schemas.enable=true)"
)


@dataclass(frozen=True)
class ValueType:
    """The type of a value in the schema of an event.

    Attributes:
        kind: Type in JSON, such as `int32`, `bytes` or `string`.
        name: Name of the meaning of the value. None: it has none.
        scale: Number of digits after the point of a decimal. None: there is none.
    """

    kind: str
    name: str | None
    scale: int | None


#: Types of the fields of rows, by the name of the image (`before` or `after`), then of the field.
ImageTypes = Mapping[str, Mapping[str, ValueType]]


@dataclass(frozen=True)
class EventSchemas:
    """The schemas of the events of a batch.

    Attributes:
        codes: Number of the schema of each of the n events.
        types: What each schema says of the rows.
    """

    codes: npt.NDArray[np.int64]
    types: tuple[ImageTypes, ...]

    def decoded(
        self, column: pa.Array, events: npt.NDArray[np.int64], image: str, field: pa.Field
    ) -> pa.Array:
        """Return values of a field with the meaning that they have.

        Args:
            column: The values.
            events: Number of the event of each value.
            image: Name of the image that has the field.
            field: Column of the store.

        Raises: what `decoded` raises.
        """
        if column.null_count == len(column):
            return column
        codes = self.codes[events]
        parts, places = [], []
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            given = self.types[code].get(image, {}).get(field.name)
            parts.append(decoded(column.take(pa.array(chosen)), given, field))
            places.append(chosen)
        if len(parts) == 1:
            return parts[0]
        kinds = {part.type for part in parts if part.null_count < len(part)}
        parts = [
            pa.nulls(len(part), next(iter(kinds))) if part.null_count == len(part) else part
            for part in parts
        ]
        if len(kinds) > 1:
            # The schemas disagree, and each may be right for its values.
            try:
                parts = [fit(part, plain_type(field.type)) for part in parts]
            except (TypeError, ValueError) as error:
                raise ValueError(f"changes: the column {field.name!r}: {error}") from None
        order = np.argsort(np.concatenate(places), kind="stable")
        return pa.concat_arrays(parts).take(pa.array(order))


def schemas_of(column: pa.Array) -> EventSchemas:
    """Return the schemas of events, which are structs or JSON texts; null or other ones are empty.

    >>> fields = [{"type": "int32", "field": "on", "name": "io.debezium.time.Date"}]
    >>> schema = {"fields": [{"type": "struct", "field": "after", "fields": fields}]}
    >>> schemas_of(pa.array([json.dumps(schema)])).types[0]["after"]["on"].name
    'io.debezium.time.Date'
    """
    column = unwrap(column)
    names = column if is_text(column.type) else _names_of_structs(column)
    coded = names.dictionary_encode("encode")
    codes = np.asarray(coded.indices).astype(np.int64)
    first = [int(np.argmax(codes == code)) for code in range(len(coded.dictionary))]
    found = [column[at].as_py() for at in first]
    return EventSchemas(codes, tuple(_image_types(one) for one in found))


def _names_of_structs(column: pa.Array) -> pa.Array:
    """Return a text for each schema; equal schemas of rows have equal texts."""
    if not pa.types.is_struct(column.type) or column.type.get_field_index("fields") < 0:
        return pa.array([""] * len(column))
    entries = _child(column, "fields")
    if not pa.types.is_list(entries.type) or not pa.types.is_struct(entries.type.value_type):
        return pa.array([""] * len(column))
    flat = entries.flatten()
    said = [_texts(flat, "field")]
    rows = _child(flat, "fields")
    if pa.types.is_list(rows.type) and pa.types.is_struct(rows.type.value_type):
        fields = rows.flatten()
        parameters = _child(fields, "parameters")
        parts = [_texts(fields, name) for name in ("field", "type", "name")]
        parts.append(_texts(parameters, "scale"))
        said.append(_joined(rows, pc.binary_join_element_wise(*parts, _FIELD)))
    return _joined(entries, pc.binary_join_element_wise(*said, _FIELD))


def _child(structs: pa.Array, name: str) -> pa.Array:
    """Return a field of structs, null where the struct is; a missing field is null."""
    if not pa.types.is_struct(structs.type) or structs.type.get_field_index(name) < 0:
        return pa.nulls(len(structs))
    return structs.flatten()[structs.type.get_field_index(name)]


def _texts(structs: pa.Array, name: str) -> pa.Array:
    """Return a field of structs as texts, empty where there is none."""
    found = _child(structs, name)
    if pa.types.is_nested(found.type):
        found = pa.nulls(len(structs))
    return found.cast(pa.string()).fill_null("")


def _joined(lists: pa.Array, texts: pa.Array) -> pa.Array:
    """Return one text for each of some lists, whose items have texts."""
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), _ENTRY)


def _image_types(schema: Any) -> ImageTypes:
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError:
            return {}
    found: dict[str, dict[str, ValueType]] = {}
    for entry in _fields(schema):
        types = {}
        for one in _fields(entry):
            scale = (one.get("parameters") or {}).get("scale")
            text = "" if scale is None else str(scale)
            number = int(text) if text.lstrip("-").isdecimal() else None
            types[str(one.get("field"))] = ValueType(str(one.get("type")), one.get("name"), number)
        found[str(entry.get("field"))] = types
    return found


def _fields(schema: Any) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [one for one in fields or () if isinstance(one, dict)]


def with_schema_texts(changes: Any) -> Any:
    """Return dicts with their schemas as texts: the defaults in a schema are of several types.

    Other changes are returned unchanged.
    """
    if not isinstance(changes, (list, tuple)) or not changes:
        return changes
    if not all(isinstance(one, dict) and isinstance(one.get(SCHEMA), dict) for one in changes):
        return changes
    return [{**one, SCHEMA: json.dumps(one[SCHEMA])} for one in changes]


def is_encoded(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type may be an encoding of values of another type.

    >>> is_encoded(pa.string(), pa.decimal128(9, 2)), is_encoded(pa.string(), pa.date32())
    (True, False)
    """
    given, wanted = plain_type(given), plain_type(wanted)
    if is_text(given):
        return pa.types.is_decimal(wanted) or is_bytes(wanted)
    return pa.types.is_integer(given) and _is_time(wanted)


def decoded(column: pa.Array, given: ValueType | None, field: pa.Field) -> pa.Array:
    """Return values of a field with the meaning that they have.

    Values whose type needs no decoding are returned as they are.

    Args:
        column: The values.
        given: Type in the schema of the events. None: unknown.
        field: Column of the store.

    Raises:
        ValueError: If the meaning is not known, or a value has none.
    """
    column, kind = unwrap(column), plain_type(field.type)
    field = field.with_type(kind)
    if column.null_count == len(column):
        return column
    if pa.types.is_integer(column.type) and _is_time(kind):
        return _as_times(column, given, field.name, kind)
    if pa.types.is_decimal(kind) and pa.types.is_struct(column.type):
        return _as_variable_decimals(column, field.name)
    if not is_text(column.type):
        return column
    if pa.types.is_decimal(kind):
        if given is not None and given.name == _DECIMAL and given.scale is not None:
            values = _from_base64(column, field.name).to_pylist()
            return _decimals(values, [given.scale] * len(column), field.name)
        if given is None or given.kind == "bytes":
            _check_numbers(column, field.name)
        return typed(column, field, "changes", 1)
    if is_bytes(kind) and (given is None or given.kind == "bytes"):
        if given is None:
            raise _unknown_error(column, field.name, _WITH_SCHEMAS)
        return _from_base64(column, field.name)
    # Without a schema, texts of files were read in the types of the store; others stay texts.
    return column if given is None or not _is_time(kind) else typed(column, field, "changes", 1)


def _is_time(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind))


def _as_times(column: pa.Array, given: ValueType | None, name: str, kind: pa.DataType) -> pa.Array:
    meant = None if given is None else _TIMES.get(given.name or "")
    if given is None and pa.types.is_date(kind):
        meant = pa.date32()  # no other integer of Debezium is a date
    if meant is None:
        raise _unknown_error(column, name, _WITH_SCHEMAS)
    try:
        stored = pa.int32() if meant.bit_width == 32 else pa.int64()
        if pa.types.is_time(meant):
            _check_in_day(column, name, meant)
        return column.cast(stored).cast(meant)
    except pa.ArrowInvalid as error:
        raise ValueError(f"changes: the column {name!r} has no {meant}: {error}") from None


def _check_in_day(column: pa.Array, name: str, kind: pa.DataType) -> None:
    """Check that integers are times of a day: a TIME of MySQL may be negative, or of days."""
    day = 86_400 * _PER_SECOND[kind.unit]
    beyond = pc.or_(pc.less(column, 0), pc.greater_equal(column, day))
    if pc.any(beyond).as_py():
        shown = column.filter(beyond)[0].as_py()
        raise ValueError(
            f"changes: the column {name!r} has {shown} as a {kind}, which is no time of a day; "
            "leave the column out, or build the store with integers in it"
        )


def _check_numbers(column: pa.Array, name: str) -> None:
    """Check that texts are numbers, and not bytes in base64.

    Raises:
        ValueError: If a text is not a number, or all of them could be both.
    """
    texts = column.drop_null()
    numbers = pc.match_substring_regex(texts, _NUMBER)
    both = pc.match_substring_regex(texts, _BASE64)
    if numbers.false_count:
        raise _unknown_error(texts.filter(pc.invert(numbers)), name, _WITH_TEXTS)
    if not both.false_count:
        raise _unknown_error(texts, name, _WITH_TEXTS)


def _unknown_error(column: pa.Array, name: str, remedy: str) -> ValueError:
    shown = shown_value(column.drop_null()[0])
    return ValueError(
        f"changes: the column {name!r} has {shown} in events that do not say what it means; "
        f"{remedy}"
    )


def _from_base64(column: pa.Array, name: str) -> pa.Array:
    try:
        found = [
            None if one is None else base64.b64decode(one, validate=True)
            for one in column.to_pylist()
        ]
    except (binascii.Error, ValueError):
        raise ValueError(
            f"changes: the column {name!r} has a text that is not base64, as its schema requires"
        ) from None
    return pa.array(found, pa.binary())


def _as_variable_decimals(column: pa.Array, name: str) -> pa.Array:
    """Return decimals that have their own scales: structs of `scale` and `value`."""
    scales, values = _child(column, "scale"), unwrap(_child(column, "value"))
    if not (pa.types.is_integer(scales.type) and (is_text(values.type) or is_bytes(values.type))):
        return column
    if is_text(values.type):
        values = _from_base64(values, name)
    return _decimals(values.to_pylist(), scales.to_pylist(), name)


def _decimals(values: list[bytes | None], scales: list[int | None], name: str) -> pa.Array:
    """Return decimals of integers of any length, with the most significant byte first."""
    found = [
        None
        if value is None or scale is None
        else Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
        for value, scale in zip(values, scales, strict=True)
    ]
    if b"" in values:
        raise ValueError(f"changes: the column {name!r} has a decimal of no bytes")
    try:
        return pa.array(found)
    except pa.ArrowException as error:
        raise ValueError(f"changes: the column {name!r} has no decimal: {error}") from None
