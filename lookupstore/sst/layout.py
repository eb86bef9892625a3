"""The parts of a dump of a sorted file: regions with their checksums, records and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lookupstore.sst.format import NATIVE_FOOTERS, PAIMON, PAIMON_BTREE

_NATIVE_HANDLES = (
    ("filter offset", "q"),
    ("filter size", "q"),
    ("index offset", "q"),
    ("index size", "q"),
    ("properties offset", "q"),
    ("properties size", "q"),
)
_NATIVE_END = (
    ("format version", "I"),
    ("reserved", "I"),
    ("checksum", "I"),
    ("magic", "I"),
)

#: Fields of each footer in order, as name and struct code, by the size of the footer; all sizes
#: differ.
FOOTER_FIELDS: Mapping[int, tuple[tuple[str, str], ...]] = {
    NATIVE_FOOTERS[1]: (*_NATIVE_HANDLES, *_NATIVE_END),
    NATIVE_FOOTERS[2]: (
        *_NATIVE_HANDLES,
        ("dictionary offset", "q"),
        ("dictionary size", "q"),
        *_NATIVE_END,
    ),
    PAIMON.footer_size: (
        ("filter offset", "q"),
        ("filter size", "i"),
        ("filter entries", "q"),
        ("index offset", "q"),
        ("index size", "i"),
        ("magic", "I"),
    ),
    PAIMON_BTREE.footer_size: (
        ("filter offset", "q"),
        ("filter size", "i"),
        ("filter entries", "q"),
        ("index offset", "q"),
        ("index size", "i"),
        ("null bitmap offset", "q"),
        ("null bitmap size", "i"),
        ("version", "i"),
        ("magic", "I"),
    ),
}


@dataclass(frozen=True)
class Checksum:
    """The stored checksum of a region and the checksum of its bytes."""

    name: str
    stored: int
    found: int

    @property
    def ok(self) -> bool:
        """Whether both checksums are equal."""
        return self.stored == self.found


@dataclass(frozen=True)
class Record:
    """One record of a block: its offset in the decoded block, key and value."""

    offset: int
    key: bytes
    value: bytes


@dataclass
class Region:
    """One contiguous part of the file.

    Attributes:
        kind: Kind of the region: ``data block``, ``dictionary``, ``null bitmap``, ``filter``,
            ``index block``, ``properties``, ``footer``, ``end of the file`` where a file was cut,
            or ``unknown`` for bytes that nothing points at.
        offset: Offset of its first byte in the file.
        size: Size in bytes, with the trailer.
        number: Number of a data block. None: the region is not a data block.
        checksum: Stored and computed checksum. None: the format has none.
        codec: Name of the codec of a block.
        plain_size: Size of the decoded block in bytes.
        aligned: Whether all records of the block have one size.
        records: Number of records of the block.
        first_key: First key of the block.
        last_key: Last key of the block.
        fields: Contents of a dictionary, filter, properties or footer, by name.
        errors: Errors in this region, in words; empty if there are none.
        contents: Records of the block, if they were requested.
    """

    kind: str
    offset: int
    size: int
    number: int | None = None
    checksum: Checksum | None = None
    codec: str | None = None
    plain_size: int | None = None
    aligned: bool | None = None
    records: int | None = None
    first_key: bytes | None = None
    last_key: bytes | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    contents: list[Record] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the kind of the region, and the number of a data block."""
        return self.kind if self.number is None else f"{self.kind} {self.number}"

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain JSON values: bytes as hex; unknown values are left out."""
        out: dict[str, Any] = {"kind": self.kind, "offset": self.offset, "size": self.size}
        if self.checksum is not None:
            out["checksum"] = {
                "name": self.checksum.name,
                "stored": f"{self.checksum.stored:08x}",
                "found": f"{self.checksum.found:08x}",
                "ok": self.checksum.ok,
            }
        for name in ("number", "codec", "plain_size", "aligned", "records"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        for name in ("first_key", "last_key"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name).hex()
        if self.fields:
            out["fields"] = dict(self.fields)
        if self.contents:
            out["contents"] = [
                {"offset": one.offset, "key": one.key.hex(), "value": one.value.hex()}
                for one in self.contents
            ]
        return {**out, "errors": list(self.errors)}


@dataclass(frozen=True)
class IndexEntry:
    """One record of the index: the last key of a data block and the block's handle."""

    last_key: bytes
    offset: int
    size: int


@dataclass(frozen=True)
class FileLayout:
    """The layout of a file, region by region.

    Attributes:
        path: Path of the file.
        dialect: Dialect of the file: ``native``, ``paimon`` or ``paimon-btree``.
        order: Key order.
        size: Size of the file in bytes.
        regions: Regions in file order, which together cover every byte.
        index: Index entries in file order, as far as they can be read.
    """

    path: str
    dialect: str
    order: str
    size: int
    regions: tuple[Region, ...]
    index: tuple[IndexEntry, ...]

    @property
    def ok(self) -> bool:
        """Whether all regions are without errors."""
        return not any(region.errors for region in self.regions)

    def region(self, kind: str) -> Region | None:
        """Return the first region of a kind."""
        return next((region for region in self.regions if region.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain JSON values: bytes as hex."""
        return {
            "path": self.path,
            "dialect": self.dialect,
            "order": self.order,
            "size": self.size,
            "ok": self.ok,
            "regions": [region.to_json() for region in self.regions],
            "index": [{**asdict(entry), "last_key": entry.last_key.hex()} for entry in self.index],
        }


def text(key: bytes, order: str = "bytes", most: int = 40) -> str:
    """Return a key as text: quoted if printable ASCII, a number if its order is one of numbers.

    >>> text(b"paris"), text(bytes([0, 255])), text(bytes([7, 0]), "int16")
    ("'paris'", '0x00ff', '7')
    """
    if order.startswith("int"):
        return str(int.from_bytes(key, "little", signed=True))
    if all(32 <= byte < 127 for byte in key):
        whole, quote = key.decode(), "'"
    else:
        whole, quote = key.hex(), ""
    shown = whole if len(whole) <= most else whole[:most] + "..."
    return f"{quote}{shown}{quote}" if quote else f"0x{shown}"
