"""The bytes of one small sorted file, each with its meaning."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from lookupstore.sst.codec import CODECS, codec_name
from lookupstore.sst.format import NATIVE, TRAILER_SIZE, unpack_varint
from lookupstore.sst.layout import FOOTER_FIELDS, FileLayout, Region, text

_WIDTH = 16
_SPLIT_BLOCK = 32


@dataclass(frozen=True)
class AnnotatedBytes:
    """Some bytes with one meaning, and a description of the meaning."""

    offset: int
    data: bytes
    meaning: str


def pieces(layout: FileLayout) -> Iterator[tuple[Region, list[AnnotatedBytes]]]:
    """Yield every region of a file in pieces that cover all of its bytes.

    Bytes of a damaged region that cannot be split are one piece.

    Raises:
        FileNotFoundError: The file was removed after the layout was made.
    """
    if not layout.size:  # the file may also be missing
        yield from ((region, []) for region in layout.regions)
        return
    with open(layout.path, "rb") as file:
        for region in layout.regions:
            file.seek(region.offset)
            yield region, _Cutter(layout, region, file.read(region.size)).pieces()


def hexdump(layout: FileLayout) -> str:
    """Return the bytes of a file as lines of offset, up to 16 bytes in hex, and meaning.

    Blocks are split into records if the layout contains them (`records=True`).

    Example:
        >>> from lookupstore.sst import Writer
        >>> from lookupstore.sst.dump import layout
        >>> with Writer("one.sst", dialect="paimon", bloom_fpp=0) as writer:
        ...     writer.put(b"k", b"v")
        >>> print("\\n".join(hexdump(layout("one.sst", records=True)).splitlines()[:3]))
        data block 0
          0000  01 6b                                            key of 1: 'k'
          0002  01 76                                            value of 1: 'v'
    """
    lines = []
    for region, parts in pieces(layout):
        lines.append(region.name)
        for piece in parts:
            meaning = piece.meaning
            for at in range(0, len(piece.data), _WIDTH):
                row = piece.data[at : at + _WIDTH].hex(" ")
                lines.append(f"  {piece.offset + at:04x}  {row:47}  {meaning}".rstrip())
                meaning = ""
        lines += [f"  ! {error}" for error in region.errors]
    return "\n".join(lines) + "\n"


class _Cutter:
    """A splitter of the bytes of one region into pieces, from the beginning."""

    def __init__(self, layout: FileLayout, region: Region, data: bytes) -> None:
        self.layout = layout
        self.region = region
        self.data = data
        self.at = 0
        self.done: list[AnnotatedBytes] = []

    def pieces(self) -> list[AnnotatedBytes]:
        kind = self.region.kind
        if kind == "footer":
            self.footer()
        elif kind == "filter":
            self.filter()
        elif kind == "dictionary":
            self.take(4, "magic of a zstd dictionary")
            self.take(4, "id of the dictionary")
            self.take(len(self.data) - TRAILER_SIZE - self.at, "entropy tables and content")
            self.trailer()
        elif kind == "null bitmap":
            self.take(len(self.data) - 4, "64-bit Roaring bitmap")
            self.checksum()
        elif self.data and kind != "unknown":
            self.block()
        self.take(len(self.data) - self.at, "unknown")
        return self.done

    def take(self, size: int, meaning: str) -> bytes:
        taken = self.data[self.at : self.at + size]
        if taken:
            self.done.append(AnnotatedBytes(self.region.offset + self.at, taken, meaning))
        self.at += len(taken)
        return taken

    def footer(self) -> None:
        for name, code in FOOTER_FIELDS[self.region.size]:
            value = self.region.fields[name]
            hexadecimal = name in ("checksum", "magic")
            shown = f"{value:#010x}" if hexadecimal else str(value)
            self.take(struct.calcsize("<" + code), f"{name} {shown}")

    def filter(self) -> None:
        if self.layout.dialect != NATIVE.name:
            self.take(len(self.data), "filter bits")
            return
        for number in range((len(self.data) - TRAILER_SIZE) // _SPLIT_BLOCK):
            self.take(_SPLIT_BLOCK, f"filter block {number}")
        self.trailer()

    def block(self) -> None:
        end = len(self.data) - TRAILER_SIZE
        plain = self.data[end] == 0
        contents = self.region.contents
        # Each record ends where the next one starts, otherwise it would not be in the contents.
        whole = len(contents) == self.region.records and contents and contents[0].offset == 0
        if plain and whole:
            self.records(end)
        elif plain:
            self.take(end, "a block")
        else:
            self.compressed(end)
        self.trailer()

    def records(self, end: int) -> None:
        region = self.region
        for one in region.contents:
            key = text(one.key, "bytes" if region.kind == "properties" else self.layout.order)
            sizes = _sizes(self.data, self.at, len(one.key))
            name = "name" if region.kind == "properties" else "key"
            self.take(sizes, f"{name} of {len(one.key)}: {key}")
            sizes = _sizes(self.data, self.at, len(one.value))
            self.take(sizes, f"value of {len(one.value)}: {self.value(one.value)}")
        if not region.aligned:
            for number, one in enumerate(region.contents):
                self.take(4, f"record {number} is at {one.offset}")
        (number,) = struct.unpack_from("<i", self.data, end - 5)
        self.take(4, f"{number} bytes per record" if region.aligned else f"{number} records")
        self.take(1, "aligned" if region.aligned else "unaligned")

    def value(self, value: bytes) -> str:
        if self.region.kind != "index block":
            return text(value)
        try:
            offset, at = unpack_varint(value, 0)
            size, _ = unpack_varint(value, at)
        except ValueError:
            return text(value)
        return f"block at offset {offset} of {size} bytes"

    def compressed(self, end: int) -> None:
        codec = CODECS.get(self.data[end])
        try:
            plain, at = unpack_varint(self.data[:end], 0)
        except ValueError:
            at = end
        if codec is not None and at < end:
            self.take(at, f"plain length {plain}")
            if codec.has_lengths and end - at >= 8:
                packed, original = struct.unpack_from("<ii", self.data, at)
                self.take(4, f"compressed length {packed}")
                self.take(4, f"plain length {original}")
        self.take(end - self.at, f"{codec.name if codec else 'unknown'} payload")

    def trailer(self) -> None:
        codec = self.data[len(self.data) - TRAILER_SIZE]
        self.take(1, f"codec {codec_name(codec) or 'unknown'}")
        self.checksum()

    def checksum(self) -> None:
        checksum = self.region.checksum
        if checksum is not None:
            wrong = "" if checksum.ok else f", the bytes have {checksum.found:08x}"
            self.take(4, f"{checksum.name} {checksum.stored:08x}{wrong}")


def _sizes(data: bytes, start: int, size: int) -> int:
    """Return the size of a length as written, plus the size of what it measures."""
    return unpack_varint(data, start)[1] - start + size
