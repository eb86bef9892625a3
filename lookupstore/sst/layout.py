"""What a dump of a sorted file is made of: regions with their checksums, records and errors."""

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

#: The fields of each footer in order, name and struct code, by its size, which no two share.
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
    """The checksum that is stored with a region and the one that its bytes have."""

    name: str
    stored: int
    found: int

    @property
    def ok(self) -> bool:
        """Whether both are the same."""
        return self.stored == self.found


@dataclass(frozen=True)
class Record:
    """One record of a block: where it starts in the decoded block, key and value."""

    offset: int
    key: bytes
    value: bytes


@dataclass
class Region:
    """One stretch of the file.

    Attributes:
        kind: ``data block``, ``dictionary``, ``null bitmap``, ``filter``, ``index block``,
            ``properties``, ``footer``, or ``unknown`` for bytes that nothing points at.
        offset: of its first byte in the file.
        size: bytes, with the trailer.
        number: of a data block.
        checksum: None where the format has none.
        codec: name of the codec of a block.
        plain_size: bytes of the decoded block.
        aligned: whether all records of the block have one size.
        records: number of records of the block.
        first_key: of the block.
        last_key: of the block.
        fields: what a dictionary, filter, properties or footer say, by name.
        errors: what is wrong here, in words; none if all is well.
        contents: the records, if they were asked for.
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
        """Return the kind, with the number of a data block."""
        return self.kind if self.number is None else f"{self.kind} {self.number}"

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain JSON values: bytes as hex, only what is known of it."""
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
class Layout:
    """A file, region by region.

    Attributes:
        path: of the file.
        dialect: ``native``, ``paimon`` or ``paimon-btree``.
        order: key order.
        size: of the file.
        regions: in file order; together they cover every byte.
        index: the index entries, in file order, as far as they can be read.
    """

    path: str
    dialect: str
    order: str
    size: int
    regions: tuple[Region, ...]
    index: tuple[IndexEntry, ...]

    @property
    def ok(self) -> bool:
        """Whether no region has an error."""
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
    """Return a key for people: quoted if it is printable ASCII, a number if its order is one.

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
