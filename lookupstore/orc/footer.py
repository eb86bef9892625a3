"""Read the footer of an ORC file, and the footers of its stripes.

Source: ORC specification v1, File Tail and Stripes; orc_proto.proto.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.orc.chunks import LZO, MOST_BLOCK, NONE, ZSTD, Compression
from lookupstore.orc.messages import (
    Message,
    choice,
    messages,
    number,
    numbers,
    read_message,
    texts,
)

# Bytes to read first from the end of a file: most footers are shorter, and need one read.
_TAIL = 16 << 10
# Most bytes of an uncompressed footer, unless its file is larger.
_MOST = 16 << 20
# Deepest nesting of types: code that walks through them, such as Arrow, takes stack for each.
_MOST_DEPTH = 64
#: Most digits of a decimal, and most digits after its point.
MOST_PRECISION = 38

# Fields of PostScript.
_FOOTER_BYTES, _COMPRESSION, _BLOCK, _METADATA_BYTES = 1, 2, 3, 5
_DEFAULT_BLOCK, _BROTLI = 256 << 10, 6
# Fields of Footer, of its Encryption, and of the variants of columns in this.
_STRIPES, _TYPES, _ROWS, _WRITER, _ENCRYPTION, _CALENDAR = 3, 4, 6, 9, 10, 11
_VARIANTS, _ENCRYPTED_TYPE = 3, 1
# Writers and calendars: a file of Java has the old calendar if it does not record today's.
_JAVA, _UNKNOWN, _OLD = 0, 0, 1
# Fields of Type.
_KIND, _SUBTYPES, _NAMES, _PRECISION, _SCALE = 1, 2, 3, 5, 6
# Fields of StripeInformation.
_OFFSET, _INDEX_BYTES, _DATA_BYTES, _STRIPE_FOOTER_BYTES, _STRIPE_ROWS = 1, 2, 3, 4, 5
# Fields of StripeFooter, of its streams, and of its encodings.
_STREAMS, _ENCODINGS, _TIMEZONE = 1, 2, 3
_STREAM_KIND, _STREAM_COLUMN, _STREAM_BYTES = 1, 2, 3
_ENCODING_KIND, _DICTIONARY_SIZE = 1, 2
_ENCODINGS_KNOWN = range(4)

STRING, BINARY, TIMESTAMP, LIST, MAP, STRUCT, UNION, DECIMAL = 7, 8, 9, 10, 11, 12, 13, 14
VARCHAR, CHAR, INSTANT = 16, 17, 18
#: Time zone of stripes that name no zone, or UTC by any of its names.
UTC = "UTC"
_NAMES_OF_UTC = {b"", b"UTC", b"GMT", b"Etc/UTC", b"Etc/GMT", b"Z"}
_LAST_KIND = 18
_NESTED = {LIST: 1, MAP: 2, STRUCT: None, UNION: None}
# Pattern of a zone, which becomes a path below the folder of time zones.
_ZONE = re.compile(rb"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


@dataclass(frozen=True)
class OrcType:
    """A type of the schema.

    Attributes:
        kind: Number of the type in ORC.
        children: Numbers of the types of its parts.
        names: Names of its parts, if it is a struct.
        parent: Number of the type that it is part of.
    """

    kind: int
    children: tuple[int, ...]
    names: tuple[bytes, ...]
    parent: int


@dataclass(frozen=True)
class Stripe:
    """The place of a stripe, whose footer follows its streams."""

    offset: int
    streams_bytes: int
    footer_bytes: int
    rows: int


@dataclass(frozen=True)
class StripeFooter:
    """The footer of a stripe.

    Attributes:
        streams: Offset and size in bytes of each stream, by its kind and the number of its type.
        encodings: Kind of the encoding, and size of the dictionary, of each type.
        zone: Time zone of the writer's local time.
    """

    streams: dict[tuple[int, int], tuple[int, int]]
    encodings: list[tuple[int, int]]
    zone: str


@dataclass(frozen=True)
class OrcFooter:
    """The footer of a file.

    Attributes:
        compression: Compression of the file except its end.
        types: Types of the schema as a tree in depth-first order, the root first.
        stripes: Stripes, in the order of rows.
        rows: Number of rows.
        encrypted: Numbers of the types with encrypted values. Without a key, a reader finds masks
            instead.
        has_old_days: Whether days before 1582-10-15 use the Julian calendar.
    """

    compression: Compression
    types: list[OrcType]
    stripes: list[Stripe]
    rows: int
    encrypted: frozenset[int]
    has_old_days: bool

    def below(self, names: Collection[bytes]) -> list[int]:
        """Return the numbers of the types of some columns, in their order."""
        root = self.types[0]
        taken = {at for at, name in zip(root.children, root.names, strict=False) if name in names}
        for at, one in enumerate(self.types):
            if one.parent in taken:
                taken.add(at)
        return sorted(taken)


def read_footer(stream: Any, path: str) -> OrcFooter:
    """Read the footer of a file.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If there is no footer, or it contradicts itself.
        FormatError: If a type or the compression of the file is not supported.
    """
    size = int(stream.size())
    tail = bytes(stream.read_at(min(size, _TAIL), max(0, size - _TAIL)))
    end = size - 1 - (tail[-1] if tail else 0)
    try:
        said = read_message(tail[end - size : -1] if tail and end >= 0 else b"")
        nbytes = number(said, _FOOTER_BYTES)
        kind = number(said, _COMPRESSION, default=-1, bits=32)
        compression = Compression(kind, number(said, _BLOCK, default=_DEFAULT_BLOCK))
        if not 0 < nbytes <= end - number(said, _METADATA_BYTES):
            raise ValueError(f"a footer of {nbytes} bytes in a file of {size}")
        if kind != NONE and not 0 < compression.block <= MOST_BLOCK:
            raise ValueError(f"compressed blocks of {compression.block} bytes")
    except ValueError as error:
        raise CorruptionError(path, max(0, end), "the end of an ORC file", error) from None
    if kind == LZO or not NONE <= kind <= ZSTD:
        name = {LZO: "LZO", _BROTLI: "Brotli"}.get(kind, f"codec {kind}")
        raise FormatError(f"{path}: ORC compressed with {name} is not read; write it with zstd")
    start = end - nbytes
    stored = tail[start - size : end - size] if nbytes + size - end <= len(tail) else None
    if stored is None:
        stored = bytes(stream.read_at(nbytes, start))
    try:
        footer = read_message(compression.plain(stored, max(_MOST, size)))
        types = _tree(messages(footer, _TYPES))
        stripes = [_stripe(one) for one in messages(footer, _STRIPES)]
        rows = number(footer, _ROWS)
        at = 0
        for one in stripes:
            if one.offset < at:
                raise ValueError("stripes that lie on each other")
            at = one.offset + one.streams_bytes + one.footer_bytes
        if at > start:
            raise ValueError(f"stripes of {at} bytes before a footer at {start}")
        if sum(one.rows for one in stripes) != rows:
            raise ValueError(f"{rows} rows, and others in its stripes")
        encrypted = frozenset(
            number(variant, _ENCRYPTED_TYPE)
            for one in messages(footer, _ENCRYPTION)
            for variant in messages(one, _VARIANTS)
        )
        calendar = number(footer, _CALENDAR, bits=32)
        by_java = number(footer, _WRITER, bits=32) == _JAVA
        is_old = calendar == _OLD or (calendar == _UNKNOWN and by_java)
    except ValueError as error:
        raise CorruptionError(path, start, "the footer of an ORC file", error) from None
    if types[0].kind != STRUCT:
        raise FormatError(f"{path}: an ORC file whose rows are no structs, and have no columns")
    if any(one.kind > _LAST_KIND for one in types):
        raise FormatError(f"{path}: a column of a type of ORC that is not known")
    return OrcFooter(compression, types, stripes, rows, encrypted, is_old)


def read_stripe_footer(stream: Any, footer: OrcFooter, stripe: Stripe, path: str) -> StripeFooter:
    """Read the footer of a stripe.

    Args:
        stream: Open file, with the method `read_at(nbytes, offset)`.
        footer: Footer of the file.
        stripe: Place of the stripe.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If the footer is damaged, or refers to bytes outside the stripe.
    """
    end = stripe.offset + stripe.streams_bytes
    stored = bytes(stream.read_at(stripe.footer_bytes, end))
    try:
        return _stripe_footer(stored, footer, stripe)
    except ValueError as error:
        raise CorruptionError(path, end, "the footer of a stripe", error) from None


def _stripe_footer(stored: bytes, footer: OrcFooter, stripe: Stripe) -> StripeFooter:
    said = read_message(footer.compression.plain(stored, _MOST))
    zones = texts(said, _TIMEZONE) or [b""]
    for named in zones:
        if named and not _ZONE.fullmatch(named):
            raise ValueError(f"a time zone {named[:100]!r}")
    streams: dict[tuple[int, int], tuple[int, int]] = {}
    at, end = stripe.offset, stripe.offset + stripe.streams_bytes
    for one in messages(said, _STREAMS):
        nbytes = number(one, _STREAM_BYTES)
        if nbytes > end - at:
            raise ValueError(f"a stream of {nbytes} bytes where {end - at} are left")
        if _STREAM_KIND in one:
            which = number(one, _STREAM_KIND), number(one, _STREAM_COLUMN, bits=32)
            # Of several streams of one kind, Arrow reads the first.
            streams.setdefault(which, (at, nbytes))
        at += nbytes
    encodings = [
        (choice(one, _ENCODING_KIND, _ENCODINGS_KNOWN), number(one, _DICTIONARY_SIZE, bits=32))
        for one in messages(said, _ENCODINGS)
    ]
    if len(encodings) != len(footer.types):
        raise ValueError(f"{len(encodings)} encodings of {len(footer.types)} types")
    zone = UTC if zones[-1] in _NAMES_OF_UTC else zones[-1].decode()
    return StripeFooter(streams, encodings, zone)


def _stripe(message: Message) -> Stripe:
    return Stripe(
        number(message, _OFFSET),
        number(message, _INDEX_BYTES) + number(message, _DATA_BYTES),
        number(message, _STRIPE_FOOTER_BYTES),
        number(message, _STRIPE_ROWS),
    )


def _tree(said: list[Message]) -> list[OrcType]:
    """Return the types, and check that each is part of exactly one other.

    Arrow makes a type each time that it is referred to.
    """
    if not said:
        raise ValueError("no types")
    types: list[OrcType] = []
    above: list[tuple[int, Iterator[int]]] = []  # types of which others are part, and these
    for at, message in enumerate(said):
        parent, child = 0, None if at else 0
        while above:
            parent, left = above[-1]
            child = next(left, None)
            if child is not None:
                break
            above.pop()
        if child != at:
            raise ValueError(f"type {at} where {child} should be")
        kind = _kind(message, parent)
        types.append(kind)
        above.append((at, iter(kind.children)))
        if len(above) > _MOST_DEPTH:
            raise ValueError(f"types more than {_MOST_DEPTH} deep")
    if any(next(left, None) is not None for _, left in above):
        raise ValueError("types that are not there")
    return types


def _kind(message: Message, parent: int) -> OrcType:
    kind = number(message, _KIND, bits=32)
    children = tuple(numbers(message, _SUBTYPES))
    names = tuple(texts(message, _NAMES))
    wanted = _NESTED.get(kind, 0)
    if wanted is not None and len(children) != wanted:
        raise ValueError(f"a type {kind} of {len(children)} others")
    if kind == STRUCT and len(names) != len(children):
        raise ValueError(f"a struct of {len(children)} types and {len(names)} names")
    if kind == DECIMAL and max(number(message, _PRECISION), number(message, _SCALE)) > (
        MOST_PRECISION
    ):
        raise ValueError(f"a decimal of more than {MOST_PRECISION} digits")
    return OrcType(kind, children, names, parent)
