"""The error for a key that several rows have, where only one is allowed."""

from __future__ import annotations

from lookupstore.errors import DuplicateKeyError


def duplicate_key_error(key: str, where: str, then: str = "") -> DuplicateKeyError:
    """Return the error for a repeated record key.

    Inserts without key lookups, of lookupstore and of Java writers, can repeat keys. Such a table
    is not damaged.

    Args:
        key: Record key, as text for the error.
        where: Places of the rows, as text for the error.
        then: What to do after the repair, as text for the error. Default: nothing.
    """
    return DuplicateKeyError(
        f"the record key {key} is in {where}; to have one row of it, delete the key and upsert the "
        f"row that is to stay{then and f'; then {then}'}",
        key=key,
    )
