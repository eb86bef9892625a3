"""Check the claims of stripes of a small ORC file before Arrow allocates memory.

A run of three bytes may encode 512 rows, every row may refer to one long text in a dictionary, and
texts and lists may have any length. Arrow checks none of this. Large files save space this way. A
small file that would need a gigabyte is read a few rows at a time, or not at all.

Source: ORC specification v1, Column Encodings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.orc import footer as kinds
from lookupstore.orc._runs import greatest_byte, lengths_in
from lookupstore.orc.footer import OrcFooter, Stripe, StripeFooter, read_stripe_footer
from lookupstore.parquet.claims import SMALL, Claims, too_large_error

# Largest numbers of stripes and of values that a small file may have.
_MOST_STRIPES = 4096
_MOST_VALUES = 1 << 28
# Most bytes of lengths to read, in all stripes together.
_MOST_LENGTHS = 64 << 20
# Most bytes that one row may take, with all dictionaries and lists: several times as much memory.
_MOST_AT_ONCE = 128 << 20
# Bytes that Arrow takes for a value besides those of a text, and more for a value of a list.
_VALUE = 16
_LEVELS = 4

_TEXTS = {kinds.STRING, kinds.BINARY, kinds.VARCHAR, kinds.CHAR}
_LISTS = {kinds.LIST, kinds.MAP}
_DATA, _LENGTH, _SECONDARY = 1, 2, 5
_DICTIONARIES, _VERSION_2 = {1, 3}, {2, 3}


def in_memory(stream: Any) -> Any:
    """Return a file to read from, in memory if it is small.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
    """
    size = int(stream.size())
    return pa.BufferReader(stream.read_at(size, 0)) if size <= SMALL else stream


def claims_of(file: Any, footer: OrcFooter, names: Collection[str], path: str) -> Claims:
    """Return the claims of the stripes of a small file for some columns.

    Args:
        file: Open file, as returned by `in_memory`.
        footer: Footer of the file.
        names: Names of the columns that will be read. Others are not checked.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If stripes contradict themselves.
        FormatError: If stripes would need more memory, or more time, than a file of this size
            should.
    """
    size = int(file.size())
    if size > SMALL:
        return Claims()
    stripes = [one for one in footer.stripes if one.rows]
    if len(stripes) > _MOST_STRIPES:
        raise too_large_error(path, size, f"{len(stripes):,} stripes")
    # A name may be that of a nested column, or have a dot of its own.
    heads = {part.encode() for name in names for part in (name, name.partition(".")[0])}
    wanted = footer.below(heads)
    if footer.rows * (1 + len(wanted)) > _MOST_VALUES:
        raise too_large_error(path, size, f"{footer.rows:,} rows")
    look = _Look(file, footer, path)
    groups, most = [], _Taken()
    for stripe in stripes:
        taken = look.taken(stripe, wanted)
        groups.append(taken.whole)
        most = most.or_more(taken)
    at_once = most.kept + most.row
    if at_once > _MOST_AT_ONCE:
        raise too_large_error(path, size, f"values of {at_once:,} bytes")
    return Claims(most.row, tuple(groups))


@dataclass
class _Taken:
    """The largest amounts of memory that Arrow may need.

    Attributes:
        kept: Size of dictionaries and lists, which Arrow may need for one row, in bytes.
        row: Size of the other values of a row, in bytes.
        whole: Size of all rows, in bytes.
    """

    kept: int = 0
    row: int = 0
    whole: int = 0

    def or_more(self, other: _Taken) -> _Taken:
        """Return the greater of each amount."""
        return _Taken(
            max(self.kept, other.kept), max(self.row, other.row), max(self.whole, other.whole)
        )


class _Look:
    """A check of the stripes of a file.

    Args:
        file: Open file.
        footer: Footer of the file.
        path: Path of the file, which errors name.
    """

    def __init__(self, file: Any, footer: OrcFooter, path: str) -> None:
        self._file = file
        self._footer = footer
        self._path = path
        self._left = _MOST_LENGTHS

    def taken(self, stripe: Stripe, wanted: list[int]) -> _Taken:
        """Return the memory that some types of a stripe may need.

        Raises:
            CorruptionError: If the stripe contradicts itself.
        """
        said = read_stripe_footer(self._file, self._footer, stripe, self._path)
        try:
            return self._taken(stripe, said, wanted)
        except ValueError as error:
            raise CorruptionError(self._path, stripe.offset, "a stripe", error) from None

    def _taken(self, stripe: Stripe, said: StripeFooter, wanted: list[int]) -> _Taken:
        types = self._footer.types
        taken = _Taken()
        # For each type with parts, the number of its values and whether a row may have several.
        values = {0: (stripe.rows, False)}
        for at in wanted:
            one = types[at]
            count, is_listed = values[one.parent]
            value, longest, texts = _VALUE + _LEVELS * is_listed, 0, 0
            if one.kind in _LISTS:
                _, children, _ = self._lengths(said, at)
                values[at] = children, True
            elif one.kind in _TEXTS:
                stored, texts, longest = self._lengths(said, at)
                encoding, size = said.encodings[at]
                if encoding in _DICTIONARIES:
                    if size > stored:
                        raise ValueError(f"a dictionary of {size} values, of which {stored} are")
                    taken.kept += texts + _VALUE * size
                    texts = count * longest
            else:
                if one.kind == kinds.UNION:
                    tag = greatest_byte(self._plain(said, (_DATA, at)))
                    if tag >= max(1, len(one.children)):
                        raise ValueError(f"tag {tag} of a union of {len(one.children)} types")
                elif one.kind == kinds.DECIMAL:
                    # Arrow multiplies, or divides, until a value has the scale of its type.
                    *_, scale = self._lengths(said, at, _SECONDARY)
                    if scale > kinds.MOST_PRECISION:
                        raise ValueError(f"a decimal of scale {scale}")
                values[at] = count, is_listed
            taken.whole += count * value + texts
            if is_listed:
                taken.kept += count * value + texts
            else:
                taken.row += value + longest
        return taken

    def _lengths(self, said: StripeFooter, at: int, kind: int = _LENGTH) -> tuple[int, int, int]:
        """Return number, sum and maximum of the lengths, or scales, of a type."""
        version = 2 if said.encodings[at][0] in _VERSION_2 else 1
        return lengths_in(self._plain(said, (kind, at)), version, kind == _SECONDARY)

    def _plain(self, said: StripeFooter, which: tuple[int, int]) -> bytes:
        """Return a decompressed stream, or no bytes if it is missing."""
        offset, nbytes = said.streams.get(which, (0, 0))
        stored = bytes(self._file.read_at(nbytes, offset))
        plain = self._footer.compression.plain(stored, self._left)
        self._left -= len(plain)
        return plain
