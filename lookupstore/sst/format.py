"""The dialects of a sorted file as data: magic, footer, trailer, filter; pack and unpack.

docs/reference/format.md draws what is packed here. Nothing in this module reads or writes a file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from crc32c import crc32c
from isal.isal_zlib import crc32

from lookupstore.errors import FormatError

#: Sizes of the footer of native files, by format version. Files of version 2 have a dictionary; a
#: file without a dictionary is of version 1.
NATIVE_FOOTERS = {1: 64, 2: 80}

#: Names of the key orders of a file, except those of typed rows. Native files have order `bytes`.
KEY_ORDERS = ("bytes", "int8", "int16", "int32", "int64")

TRAILER_SIZE = 5

# Maximum number of digits of a number in properties, such that it fits into an integer of C.
_DIGITS = 18

#: Maximum size of a block in bytes: lengths of blocks and positions in them are ints in Java.
MAX_BLOCK = 2**31 - 1


@dataclass(frozen=True)
class Dialect:
    """The differences between kinds of files with the same blocks.

    Attributes:
        footer_size: Size of the footer in bytes; for native files, of the smallest footer.
    """

    name: str
    magic: int
    footer_size: int
    checksum: Callable[[bytes | memoryview, int], int]
    checksum_name: str
    filter_kind: str


NATIVE = Dialect("native", 0x4B4F4F4C, NATIVE_FOOTERS[1], crc32c, "CRC-32C", "split-block-xxh64")
PAIMON = Dialect("paimon", 1481571681, 36, crc32, "CRC-32", "paimon-murmur3")
#: Paimon's BTree global index: the same file with a bitmap of null rows and another footer.
PAIMON_BTREE = Dialect("paimon-btree", 0x50425449, 52, crc32, "CRC-32", "paimon-murmur3")

DIALECTS = {dialect.name: dialect for dialect in (NATIVE, PAIMON, PAIMON_BTREE)}
LONGEST_FOOTER = max(
    *NATIVE_FOOTERS.values(), *(dialect.footer_size for dialect in DIALECTS.values())
)

# The end of a native footer of any version: version, a reserved field, checksum, magic.
_NATIVE_END = struct.Struct("<4I")
_HANDLE = struct.Struct("<2q")
_PAIMON_FOOTER = struct.Struct("<qiqqii")
_BTREE_FOOTER = struct.Struct("<qiqqiqiii")
_TRAILER = struct.Struct("<BI")


@dataclass(frozen=True)
class Footer:
    """The handles at the end of a file: (offset, size without trailer) of each region."""

    index: tuple[int, int]
    filter: tuple[int, int] | None = None
    filter_entries: int = 0
    properties: tuple[int, int] | None = None
    null_bitmap: tuple[int, int] | None = None
    dictionary: tuple[int, int] | None = None

    @property
    def native_version(self) -> int:
        """Return the format version of a native file with these regions."""
        return 1 if self.dictionary is None else 2


def dialect_of(tail: bytes) -> Dialect | None:
    """Return the dialect whose magic ends these bytes. None: there is none."""
    if len(tail) < 4:
        return None
    magic = int.from_bytes(tail[-4:], "little")
    for dialect in DIALECTS.values():
        if dialect.magic == magic and len(tail) >= dialect.footer_size:
            return dialect
    return None


def pack_footer(dialect: Dialect, footer: Footer) -> bytes:
    """Return the footer's bytes."""
    filter_offset, filter_size = footer.filter or (0, 0)
    index_offset, index_size = footer.index
    if dialect is PAIMON:
        return _PAIMON_FOOTER.pack(
            filter_offset,
            filter_size,
            footer.filter_entries,
            index_offset,
            index_size,
            dialect.magic,
        )
    handles = [(filter_offset, filter_size), footer.index, footer.properties or (0, 0)]
    if footer.dictionary is not None:
        handles.append(footer.dictionary)
    head = b"".join(_HANDLE.pack(*handle) for handle in handles)
    end = _NATIVE_END.pack(footer.native_version, 0, 0, dialect.magic)
    checksum = _native_footer_checksum(head + end)
    return head + end[:8] + struct.pack("<I", checksum) + end[12:]


def _native_footer_checksum(footer: bytes) -> int:
    """Return the checksum of all bytes of the footer except the checksum itself."""
    return crc32c(footer[-4:], crc32c(footer[:-8]))


def footer_in(dialect: Dialect, tail: bytes) -> bytes:
    """Return the bytes of the footer at the end of a file.

    Args:
        dialect: Dialect of the file.
        tail: Last bytes of the file: `LONGEST_FOOTER` bytes, or all bytes of a smaller file.

    Raises:
        FormatError: A native footer has a format version that this release does not know.
        ValueError: The file is smaller than its footer.
    """
    size = dialect.footer_size
    if dialect is NATIVE:
        version = _NATIVE_END.unpack(tail[-_NATIVE_END.size :])[0]
        if version not in NATIVE_FOOTERS:
            known = " and ".join(map(str, NATIVE_FOOTERS))
            raise FormatError(f"format version {version}; this release reads {known}")
        size = NATIVE_FOOTERS[version]
    if size > len(tail):
        raise ValueError(f"a file of {len(tail)} bytes, and a footer of {size}")
    return tail[-size:]


def unpack_footer(dialect: Dialect, data: bytes) -> Footer:
    """Return the footer in the bytes that `footer_in` returned.

    Raises:
        ValueError: If the checksum or a reserved field is wrong; the text describes what was found.
        FormatError: The BTree index has another version.
    """
    if dialect is NATIVE:
        _, reserved, checksum, _ = _NATIVE_END.unpack(data[-_NATIVE_END.size :])
        if checksum != _native_footer_checksum(data):
            raise ValueError(
                f"CRC-32C {checksum:08x} for bytes of {_native_footer_checksum(data):08x}"
            )
        if reserved != 0:
            raise ValueError(f"{reserved:08x} in the reserved field")
        filter_handle, index, properties, *more = _HANDLE.iter_unpack(data[: -_NATIVE_END.size])
        return Footer(
            index,
            filter_handle if filter_handle[1] else None,
            properties=properties,
            dictionary=more[0] if more else None,
        )
    if dialect is PAIMON:
        offset, size, entries, index_offset, index_size, _ = _PAIMON_FOOTER.unpack(data)
        bitmap = None
    else:
        (
            offset,
            size,
            entries,
            index_offset,
            index_size,
            bitmap_offset,
            bitmap_size,
            version,
            _,
        ) = _BTREE_FOOTER.unpack(data)
        if version != 1:
            raise FormatError(f"BTree index version {version}; this release reads 1")
        bitmap = (bitmap_offset, bitmap_size) if bitmap_offset or bitmap_size else None
    has_filter = bool(offset or size or entries)
    return Footer(
        (index_offset, index_size),
        (offset, size) if has_filter else None,
        entries if has_filter else 0,
        null_bitmap=bitmap,
    )


def pack_trailer(dialect: Dialect, codec: int, payload: bytes) -> bytes:
    """Return the 5 bytes after a block: codec id and checksum of payload and id."""
    return _TRAILER.pack(codec, block_checksum(dialect, codec, payload))


def unpack_trailer(trailer: bytes | memoryview) -> tuple[int, int]:
    """Return the codec id and the stored checksum."""
    codec, checksum = _TRAILER.unpack(trailer)
    return codec, checksum


def block_checksum(dialect: Dialect, codec: int, payload: bytes | memoryview) -> int:
    """Return the checksum over a payload and the one byte of its codec id."""
    return dialect.checksum(bytes([codec]), dialect.checksum(payload, 0))


@dataclass(frozen=True)
class Info:
    """A description of a file from its footer, properties and block trailers.

    Attributes:
        path: Path of the file.
        dialect: Dialect of the file: ``native``, ``paimon`` or ``paimon-btree``.
        order: Key order, one of ``format.KEY_ORDERS``, or ``row(...)`` for typed keys.
        num_records: Number of records in the file. None: ``len(reader)`` has not yet counted them,
            which reads every block (Paimon's dialects).
        file_bytes: Size of the file.
        data_blocks: Number of data blocks.
        data_bytes: Size of all data blocks as stored, with trailers, in bytes.
        plain_bytes: Size of all data blocks before compression, in bytes. None: the file does not
            record it.
        codecs: Number of data blocks by codec name. None: the file does not record it.
        filter_kind: Kind of the filter: ``split-block-xxh64``, ``paimon-murmur3`` or ``none``.
        filter_bytes: Size of the filter.
        filter_entries: Number of entries that Paimon's filter is made for.
        min_key: First key. None: the file is empty.
        max_key: Last key. None: the file is empty.
        key_schema: Arrow schema of the key fields. None: the writer was not given one.
        value_schema: Arrow schema of the value columns. None: the writer was not given one.
        source: Description of the origin of the records that the writer was given.
        writer: Program and version that wrote the file. None: the file has one of Paimon's
            dialects.
        format_version: Version of the native format. None: the file has one of Paimon's dialects.
        metadata: Further properties that the writer was given, by name.
    """

    path: str
    dialect: str
    order: str
    num_records: int | None
    file_bytes: int
    data_blocks: int
    data_bytes: int
    plain_bytes: int | None
    codecs: Mapping[str, int] | None
    filter_kind: str
    filter_bytes: int
    filter_entries: int | None
    min_key: bytes | None
    max_key: bytes | None
    key_schema: pa.Schema | None = None
    value_schema: pa.Schema | None = None
    source: str | None = None
    writer: str | None = None
    format_version: int | None = None
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values: bytes as hex, schemas as lists of fields."""

        def fields(schema: pa.Schema | None) -> list[dict[str, Any]] | None:
            if schema is None:
                return None
            return [
                {"name": one.name, "type": str(one.type), "nullable": one.nullable}
                for one in schema
            ]

        return {
            "path": self.path,
            "dialect": self.dialect,
            "format_version": self.format_version,
            "order": self.order,
            "num_records": self.num_records,
            "file_bytes": self.file_bytes,
            "data_blocks": self.data_blocks,
            "data_bytes": self.data_bytes,
            "plain_bytes": self.plain_bytes,
            "codecs": None if self.codecs is None else dict(self.codecs),
            "filter_kind": self.filter_kind,
            "filter_bytes": self.filter_bytes,
            "filter_entries": self.filter_entries,
            "min_key": None if self.min_key is None else self.min_key.hex(),
            "max_key": None if self.max_key is None else self.max_key.hex(),
            "key_schema": fields(self.key_schema),
            "value_schema": fields(self.value_schema),
            "source": self.source,
            "writer": self.writer,
            "metadata": {name: value.hex() for name, value in self.metadata.items()},
        }


def pack_properties(info: Info) -> dict[bytes, bytes]:
    """Return the properties of a native file as the records of its properties block."""
    properties = {
        b"key.order": info.order.encode(),
        b"records": str(info.num_records).encode(),
        b"data.plain_bytes": str(info.plain_bytes).encode(),
        b"writer": (info.writer or "").encode(),
    }
    for name, count in (info.codecs or {}).items():
        properties[b"data.codec." + name.encode()] = str(count).encode()
    optional = {
        b"key.min": info.min_key,
        b"key.max": info.max_key,
        b"key.schema": None if info.key_schema is None else _schema_bytes(info.key_schema),
        b"value.schema": None if info.value_schema is None else _schema_bytes(info.value_schema),
        b"source": None if info.source is None else info.source.encode(),
    }
    properties |= {name: value for name, value in optional.items() if value is not None}
    properties |= {b"user." + name.encode(): value for name, value in info.metadata.items()}
    return dict(sorted(properties.items()))


def unpack_properties(properties: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the properties as arguments of Info.

    Raises:
        ValueError: A property is missing or has an impossible value; the text names it.
    """

    def number(name: bytes) -> int:
        text = properties.get(name, b"")
        if not text.isdigit() or len(text) > _DIGITS:
            raise ValueError(f"property {name.decode()} is {text[:40]!r}, not a number")
        return int(text)

    def text(name: bytes) -> str | None:
        value = properties.get(name)
        return None if value is None else value.decode()

    def schema(name: bytes) -> pa.Schema | None:
        value = properties.get(name)
        try:
            found = None if value is None else pa.ipc.read_schema(pa.py_buffer(value))
            # A name that is not UTF-8 raises an error only when it is read.
            for field in found or ():
                _ = f"{field.name} {field.type}"
            return found
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"property {name.decode()} is not an Arrow schema: {error}") from None

    order = text(b"key.order")
    if order not in KEY_ORDERS:
        raise ValueError(f"property key.order is {order!r}")
    records = number(b"records")
    bounds = properties.get(b"key.min"), properties.get(b"key.max")
    if (records == 0) != (bounds == (None, None)) or (records > 0 and None in bounds):
        raise ValueError(f"{records} records with key bounds {bounds}")
    return {
        "order": order,
        "num_records": records,
        "plain_bytes": number(b"data.plain_bytes"),
        "codecs": {
            name[11:].decode(): number(name)
            for name in properties
            if name.startswith(b"data.codec.")
        },
        "min_key": bounds[0],
        "max_key": bounds[1],
        "key_schema": schema(b"key.schema"),
        "value_schema": schema(b"value.schema"),
        "source": text(b"source"),
        "writer": text(b"writer"),
        "metadata": {
            name[5:].decode(): value
            for name, value in properties.items()
            if name.startswith(b"user.")
        },
    }


def _schema_bytes(schema: pa.Schema) -> bytes:
    serialized: bytes = schema.serialize().to_pybytes()
    return serialized


def unpack_varint(data: bytes | memoryview, start: int) -> tuple[int, int]:
    """Return the number at `start` and the offset after it.

    Raises:
        ValueError: The number does not end within 10 bytes.
    """
    number = 0
    for i, byte in enumerate(data[start : start + 10]):
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number, start + i + 1
    raise ValueError(f"a varint of {data[start : start + 10].hex() or 'no bytes'}")


def unpack_handle(value: bytes) -> tuple[int, int]:
    """Return (offset, payload size) of an index record's value.

    Raises:
        ValueError: The bytes are not two varints.
    """
    offset, at = unpack_varint(value, 0)
    size, at = unpack_varint(value, at)
    if at != len(value):
        raise ValueError(f"a handle of {value.hex()}")
    return offset, size
