"""Changes of bytes, of JSON, of Thrift and protobuf: small ones; many are still decoded."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

from support.orc_files import message

from lookupstore.orc.messages import read_message
from lookupstore.parquet.structs import BINARY, BOOL, I16, I32, I64, LIST, STRUCT, Struct

NUMBERS = [
    -1, 0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1 << 15, 1 << 16,
    (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63),
]  # fmt: skip
_BITS = {I16: 15, I32: 31, I64: 63}
_DEEP = 600


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change a few bytes: bits, numbers, pieces that go, come or move."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            number = struct.pack("<q", rng.choice(NUMBERS))[: rng.choice([1, 2, 4, 8])]
            out[at : at + len(number)] = number
        elif kind == 3:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randrange(40)] * rng.choice([1, 1, 1, 100])
        else:
            out[at:at] = rng.randbytes(rng.randrange(6))
    return bytes(out)


def changed_json(value: Any, rng: random.Random) -> Any:
    """Return a JSON value of which some parts are others."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = list(_places(root))
        holder, key = rng.choice(places)
        kind = rng.randrange(5)
        if kind == 0 and holder is not root:
            del holder[key]
        elif kind == 1:
            other, at = rng.choice(places)
            holder[key] = copy.deepcopy(other[at])
        elif kind == 2 and isinstance(holder, list) and holder is not root:
            holder[key:key] = [holder[key]] * rng.choice([1, 2, 1000])
        elif kind == 3 and isinstance(holder[key], str):
            text = holder[key]
            at = rng.randrange(len(text) + 1)
            holder[key] = text[:at] + rng.choice(
                ["", "\0", "/", "..", "\ud800", "ä", "9" * 400, text]
            )
        else:
            holder[key] = rng.choice([None, True, 1.5, float("nan"), "", "x" * 5000, [], {}, [[]],
                                      *NUMBERS, 1 << 80])  # fmt: skip
    return root[0]


def changed_json_text(value: Any, rng: random.Random) -> bytes:
    """Return a JSON text with other parts, or other bytes, or one that is deep."""
    if rng.random() < 0.02:
        return rng.choice([b"[", b'{"a":', b'["', b'{"']) * rng.choice([100, _DEEP, 100_000])
    content = json.dumps(value if rng.random() < 0.3 else changed_json(value, rng)).encode()
    return changed_bytes(content, rng) if rng.random() < 0.4 else content


def changed_struct(value: Struct, rng: random.Random) -> Struct:
    """Return a Thrift struct of which some fields are others."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = list(_fields(STRUCT, value))
        holder, key, kind = rng.choice(places)
        if rng.random() < 0.1:
            del holder[key]
            continue
        if isinstance(holder, list):
            if rng.random() < 0.3:
                holder[key:key] = [copy.deepcopy(holder[key])] * rng.choice([1, 2, 100])
            else:
                holder[key] = _other(kind, holder[key], rng)
        else:
            holder[key] = kind, _other(kind, holder[key][1], rng)
    return value


def changed_message(data: bytes, inner: set[int], rng: random.Random) -> bytes:
    """Return a message of protobuf of which some fields are others.

    Args:
        data: the message.
        inner: its fields that are messages, which are changed inside.
        rng: what decides.
    """
    try:
        said = read_message(data)
    except ValueError:  # it has been changed before
        return changed_bytes(data, rng)
    fields = [(field, value) for field, values in said.items() for value in values]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not fields:
            break
        at = rng.randrange(len(fields))
        field, value = fields[at]
        kind = rng.random()
        if kind < 0.1:
            del fields[at]
        elif kind < 0.2:
            fields[at:at] = [fields[at]] * rng.choice([1, 2, 100])
        elif kind < 0.25:
            fields[at] = rng.randrange(1, 18), rng.choice([value, 1, b"", b"x"])
        elif isinstance(value, int):
            fields[at] = field, rng.choice([*NUMBERS, value + 1, max(0, value - 1)])
        elif field in inner and rng.random() < 0.9:
            fields[at] = field, changed_message(value, set(), rng)
        else:
            fields[at] = field, changed_bytes(value, rng)
    return message(fields)


def _places(value: Any) -> Any:
    """Yield each list or object below a value, with each of its keys."""
    if isinstance(value, dict):
        pairs: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    else:
        return
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


def _fields(kind: int, value: Any) -> Any:
    """Yield each struct or list below a value, with each of its keys and the type there."""
    if kind == STRUCT:
        for key, (inner_kind, inner) in value.items():
            yield value, key, inner_kind
            yield from _fields(inner_kind, inner)
    elif kind == LIST:
        inner_kind, items = value
        for at, inner in enumerate(items):
            yield items, at, inner_kind
            yield from _fields(inner_kind, inner)


def _other(kind: int, value: Any, rng: random.Random) -> Any:
    if kind in _BITS:
        most = 1 << _BITS[kind]
        return rng.choice([one for one in (*NUMBERS, value + 1, value - 1) if -most <= one < most])
    if kind == BINARY:
        return rng.choice([b"", value[:-1], value[:1], value + b"x", b"\xff\xfe", value * 50,
                           changed_bytes(value, rng)])  # fmt: skip
    if kind == BOOL:
        return not value
    if kind == STRUCT:
        return rng.choice([{}, {**value, rng.randrange(1, 18): rng.choice(_NEW)}])
    return value


_NEW = [(I32, 3), (I64, 5), (BOOL, True), (BINARY, b""), (STRUCT, {}), (STRUCT, {1: (STRUCT, {})}),
        (LIST, (I64, [1, 2])), (LIST, (STRUCT, []))]  # fmt: skip
