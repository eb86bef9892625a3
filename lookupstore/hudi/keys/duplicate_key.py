"""What is said of a key that several rows have, where one row or one place was asked for."""

from __future__ import annotations

from lookupstore.errors import DuplicateKeyError


def duplicate_key_error(key: str, where: str) -> DuplicateKeyError:
    """Return the error for a record key.

    Inserts that do not look for keys, ours and Java's, can repeat them: it is not damage.

    Args:
        key: as it is to be shown.
        where: what its rows are in.
    """
    return DuplicateKeyError(
        f"the record key {key} is in {where}; to have one row of it, delete the key and upsert the "
        "row that is to stay",
        key=key,
    )
