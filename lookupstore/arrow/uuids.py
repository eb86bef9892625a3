"""Convert UUIDs to texts and back, as `uuid.UUID` writes them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_FORM = r"^(0x)?[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$"


def is_uuid(kind: pa.DataType) -> bool:
    """Return whether a type is that of UUIDs.

    >>> is_uuid(pa.uuid()), is_uuid(pa.binary(16))
    (True, False)
    """
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def uuid_texts(column: pa.ExtensionArray) -> pa.Array:
    """Return UUIDs as texts, null for null.

    >>> uuid_texts(pa.array([bytes(16)], pa.uuid())).to_pylist()
    ['00000000-0000-0000-0000-000000000000']
    """
    digits = [None if one is None else one.hex() for one in column.storage.to_pylist()]
    shown = [
        one and f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for one in digits
    ]
    return pa.array(shown, pa.large_string())


def uuids_of(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return texts as UUIDs, null for null. None: a text is not a UUID.

    Args:
        texts: UUIDs as 32 hex digits, with or without dashes, or a 0x before them.
        kind: Type of UUIDs.

    >>> one = uuids_of(pa.array(["00000000-0000-0000-0000-000000000001"]), pa.uuid())
    >>> one.to_pylist()
    [UUID('00000000-0000-0000-0000-000000000001')]
    """
    if pc.all(pc.match_substring_regex(texts, _FORM)).as_py() is False:
        return None
    raw = [None if one is None else uuid_bytes(one) for one in texts.to_pylist()]
    return pa.ExtensionArray.from_storage(kind, pa.array(raw, kind.storage_type))


def uuid_bytes(text: str) -> bytes:
    """Return the bytes of a UUID, or of its beginning.

    Raises:
        ValueError: If the text is not hex digits, two per byte.

    >>> uuid_bytes("415500f6-82")
    b'AU\\x00\\xf6\\x82'
    """
    return bytes.fromhex(text.removeprefix("0x").replace("-", ""))
