"""Parse an expression of Arrow into a tree of its calls, fields and literals.

Arrow has no interface to look into an expression, but it serializes one for pickle. The result is a
record batch with the literals and the options; the tree is in the metadata of its schema, in prefix
order. Names in the metadata repeat, which a dict cannot represent. Therefore the metadata is read
through the C data interface. An unexpected expression has no tree, and callers work without it.

Source: Arrow, compute/expression.cc (Serialize); format/CDataInterface.rst (ArrowSchema.metadata).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Maximum depth of an expression; deeper expressions are not parsed.
_MOST_DEPTH = 200
_CAPSULE = b"arrow_schema"


@dataclass(frozen=True)
class Field:
    """A column, by its name."""

    name: str


@dataclass(frozen=True)
class StructField:
    """A field of a struct.

    Attributes:
        path: Name of the column, and then of a field at each level.
    """

    path: tuple[str, ...]


@dataclass(frozen=True)
class Literal:
    """A value, with its type."""

    value: pa.Scalar


@dataclass(frozen=True)
class Call:
    """A call of a function of Arrow.

    Attributes:
        function: Name of the function.
        arguments: Arguments of the call.
        options: Options of the call, as Arrow serializes them, by name.
    """

    function: str
    arguments: tuple[Node, ...]
    options: Mapping[str, pa.Scalar]


@dataclass(frozen=True)
class Unread:
    """A part that is not supported."""


Node = Field | StructField | Literal | Call | Unread


def parse_expression(expression: pc.Expression) -> Node:
    """Return the tree of an expression, or `Unread` if it is not supported.

    >>> parse_expression(pc.field("a") > 3).function
    'greater'
    """
    try:
        pairs, literals = tokens_of(expression)
        tokens = iter(pairs)
        node = _node(tokens, literals, 0)
        return Unread() if next(tokens, None) is not None else node
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, pa.ArrowException):
        return Unread()


def tokens_of(
    expression: pc.Expression,
) -> tuple[list[tuple[str, str]], pa.RecordBatch | None]:
    """Return the serialized form of an expression.

    Returns:
        Kind and value of each token in prefix order, and a record batch of literals. None instead
        of the batch: no literals.

    Raises:
        ValueError, TypeError, KeyError, ArrowException: If Arrow cannot serialize the expression.
    """
    _, (data,) = expression.__reduce__()
    batches = pa.ipc.open_file(data)
    literals = batches.get_batch(0) if batches.num_record_batches else None
    return list(_pairs(batches.schema)), literals


class _SchemaStart(ctypes.Structure):
    """The first fields of the struct ArrowSchema."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _pairs(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the names and values in the metadata of a schema, with repeated names."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = schema.__arrow_c_schema__()  # owns the memory that is read here
    at = _SchemaStart.from_address(pointer(capsule, _CAPSULE)).metadata
    if at is None:
        return
    count = _int32(at)
    at += 4
    for _ in range(count):
        texts = []
        for _ in range(2):
            nbytes = _int32(at)
            texts.append(ctypes.string_at(at + 4, nbytes).decode())
            at += 4 + nbytes
        yield texts[0], texts[1]


def _int32(address: int) -> int:
    value: int
    (value,) = struct.unpack("=i", ctypes.string_at(address, 4))
    return value


def _node(tokens: Iterator[tuple[str, str]], literals: pa.RecordBatch | None, depth: int) -> Node:
    """Return the node of the next tokens."""
    return _known(next(tokens), tokens, literals, depth)


def _known(
    token: tuple[str, str],
    tokens: Iterator[tuple[str, str]],
    literals: pa.RecordBatch | None,
    depth: int,
) -> Node:
    kind, value = token
    if depth > _MOST_DEPTH:
        raise ValueError(f"more than {_MOST_DEPTH} calls in one another")
    if kind == "field_ref":
        return Field(value)
    if kind == "literal":
        return Literal(_literal(literals, value))
    if kind == "nested_field_ref":
        path = [next(tokens) for _ in range(int(value))]
        if not path or any(kind != "field_ref" for kind, _ in path):
            raise ValueError(path)
        return StructField(tuple(name for _, name in path))
    if kind != "call":
        raise ValueError(kind)
    arguments: list[Node] = []
    options: dict[str, pa.Scalar] = {}
    while True:
        kind, inner = next(tokens)
        if kind == "end":
            if inner != value:
                raise ValueError(inner)
            return Call(value, tuple(arguments), options)
        if kind == "options":
            given: Any = _literal(literals, inner)
            options = {name: given[name] for name in given}
        else:
            arguments.append(_known((kind, inner), tokens, literals, depth + 1))


def _literal(literals: pa.RecordBatch | None, number: str) -> pa.Scalar:
    if literals is None:
        raise ValueError("no literals")
    return literals.column(int(number))[0]
