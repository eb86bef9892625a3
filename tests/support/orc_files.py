"""ORC files by hand: what they say need not be so."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

# Kinds of types, of streams, of encodings, and of compression, as ORC numbers them.
BOOLEAN, BYTE, INT, LONG, DOUBLE, STRING, BINARY = 0, 1, 3, 4, 6, 7, 8
TIMESTAMP, LIST, MAP, STRUCT, UNION, DECIMAL = 9, 10, 11, 12, 13, 14
PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY = 0, 1, 2, 3, 5
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = 0, 1, 2, 3
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)

#: A field of a protobuf message: its number, and a number or bytes.
Field = tuple[int, "int | bytes"]


def varint(value: int) -> bytes:
    """Return a number of 64 bits, 7 of them a byte."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(fields: Iterable[Field]) -> bytes:
    """Return a protobuf message."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


@dataclass
class Kind:
    """A type of the schema."""

    kind: int
    subtypes: Sequence[int] = ()
    names: Sequence[str] = ()
    precision: int | None = None
    scale: int | None = None

    def fields(self) -> list[Field]:
        """Return the fields of a message Type."""
        fields: list[Field] = [(1, self.kind), *((2, one) for one in self.subtypes)]
        fields += [(3, one.encode()) for one in self.names]
        fields += [] if self.precision is None else [(5, self.precision)]
        return fields + ([] if self.scale is None else [(6, self.scale)])


@dataclass
class Stripe:
    """A stripe: streams, as (kind, column, bytes), and encodings, as (kind, size)."""

    rows: int
    streams: Sequence[tuple[int, int, bytes]]
    encodings: Sequence[tuple[int, int]]
    extra: Sequence[Field] = ()


@dataclass
class OrcFile:
    """A file."""

    types: Sequence[Kind]
    stripes: Sequence[Stripe]
    compression: int = NONE
    block: int = 1 << 18
    rows: int | None = None
    footer: Sequence[Field] = ()
    postscript: Sequence[Field] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Return the file."""
        out = bytearray(b"ORC")
        infos: list[Field] = []
        for one in self.stripes:
            start = len(out)
            said: list[Field] = []
            for kind, column, data in one.streams:
                stored = self.packed(data)
                said.append((1, message([(1, kind), (2, column), (3, len(stored))])))
                out += stored
            said += [(2, message([(1, kind), (2, size)])) for kind, size in one.encodings]
            length = len(out) - start
            end = self.packed(message([*said, *one.extra]))
            out += end
            sizes = (start, 0, length, len(end), one.rows)
            infos.append((3, message(enumerate(sizes, start=1))))
        rows = sum(one.rows for one in self.stripes) if self.rows is None else self.rows
        types: list[Field] = [(4, message(one.fields())) for one in self.types]
        fields: list[Field] = [(1, 3), (2, len(out) - 3), *infos, *types, (6, rows)]
        footer = self.packed(message([*fields, *self.footer]))
        tail: list[Field] = [(1, len(footer)), (2, self.compression), (3, self.block)]
        end = message([*tail, (4, varint(0) + varint(12)), (5, 0), (6, 6), *self.postscript])
        end += message([(8000, b"ORC")])
        return bytes(out) + footer + end + bytes([len(end)])

    def packed(self, data: bytes) -> bytes:
        """Return bytes in chunks as the file has them."""
        if self.compression == NONE:
            return data
        return b"".join(
            chunk(self.compression, data[at : at + self.block])
            for at in range(0, len(data), self.block)
        )


def compressed(compression: int, data: bytes) -> bytes:
    """Return bytes compressed."""
    if compression == ZLIB:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(data) + packer.flush()
    codec = {SNAPPY: "snappy", LZ4: "lz4_raw", ZSTD: "zstd"}[compression]
    return bytes(pa.compress(data, codec, asbytes=True))


def chunk(compression: int, data: bytes) -> bytes:
    """Return a chunk: header, and bytes compressed unless they are shorter as they are."""
    stored = compressed(compression, data)
    whole = len(stored) >= len(data)
    stored = data if whole else stored
    return (len(stored) << 1 | whole).to_bytes(3, "little") + stored


def same(value: int, count: int) -> bytes:
    """Return the runs (version 1) of a number that comes many times; `value` is not signed."""
    runs, rest = divmod(count, 130)
    out = (bytes([127, 0]) + varint(value)) * runs
    if rest >= 3:
        return out + bytes([rest - 3, 0]) + varint(value)
    return out + (bytes([256 - rest]) + varint(value) * rest if rest else b"")


def ascending(count: int) -> bytes:
    """Return the runs (version 1) of the signed numbers 0, 1, 2, ..."""
    out = b""
    for start in range(0, count, 130):
        n = min(130, count - start)
        if n >= 3:
            out += bytes([n - 3, 1]) + varint(start << 1)
        else:
            out += bytes([256 - n]) + b"".join(varint((start + i) << 1) for i in range(n))
    return out


def nothing(count: int) -> bytes:
    """Return a PRESENT stream without a value."""
    runs, rest = divmod(-(-count // 8), 130)
    return bytes([127, 0]) * runs + (bytes([256 - rest]) + bytes(rest) if rest else b"")


def keyed(kind: Kind, *below: Kind) -> list[Kind]:
    """Return the types of a key `k`, of LONG, and a column `v` of a type, with those below it."""
    return [Kind(STRUCT, (1, 2), ("k", "v")), Kind(LONG), kind, *below]
