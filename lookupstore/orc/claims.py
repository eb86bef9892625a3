"""What the stripes of a small ORC file claim, looked at before Arrow takes memory for it.

A run of three bytes may stand for 512 rows, a dictionary of one long text for as many as there
are rows, and lengths of texts and lists may be any: Arrow believes them. In a large file that is
how ORC saves room. A small one that would take a gigabyte is read a few rows at a time, or not at
all.

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
from lookupstore.orc.footer import Footer, Stripe, StripeFooter, read_stripe_footer
from lookupstore.parquet.claims import SMALL, Claims, too_large_error

# How many stripes and values a small file may have.
_MOST_STRIPES = 4096
_MOST_VALUES = 1 << 28
# Bytes of lengths that are looked at, of all stripes.
_MOST_LENGTHS = 64 << 20
# Bytes that one row may take, with all dictionaries and lists: several times that of memory.
_MOST_AT_ONCE = 128 << 20
# What Arrow takes for a value besides the bytes of a text, and more for each of a list.
_VALUE = 16
_LEVELS = 4

_TEXTS = {kinds.STRING, kinds.BINARY, kinds.VARCHAR, kinds.CHAR}
_LISTS = {kinds.LIST, kinds.MAP}
_DATA, _LENGTH, _SECONDARY = 1, 2, 5
_DICTIONARIES, _VERSION_2 = {1, 3}, {2, 3}


def in_memory(stream: Any) -> Any:
    """Return a file to read from: a small one is in memory, read once.

    Args:
        stream: the file; has `size()` and `read_at(nbytes, offset)`.
    """
    size = int(stream.size())
    return pa.BufferReader(stream.read_at(size, 0)) if size <= SMALL else stream


def claims_of(file: Any, footer: Footer, names: Collection[str], path: str) -> Claims:
    """Return what the stripes of a small file claim of some columns; nothing of a large file.

    Args:
        file: as `in_memory` gives it.
        footer: of it.
        names: of the columns that are read; others may be anything.
        path: of the file, for errors.

    Raises:
        CorruptionError: stripes contradict themselves.
        FormatError: they would take more memory, or more time, than a file of this size should.
    """
    size = int(file.size())
    if size > SMALL:
        return Claims()
    stripes = [one for one in footer.stripes if one.rows]
    if len(stripes) > _MOST_STRIPES:
        raise too_large_error(path, size, f"{len(stripes):,} stripes")
    # Names may be those of nested columns, or have a dot of their own.
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
    """Bytes that Arrow takes, at most.

    Attributes:
        kept: of dictionaries and lists, which it may take for one row.
        row: of a row besides.
        whole: of all rows.
    """

    kept: int = 0
    row: int = 0
    whole: int = 0

    def or_more(self, other: _Taken) -> _Taken:
        """Return the greater of each."""
        return _Taken(
            max(self.kept, other.kept), max(self.row, other.row), max(self.whole, other.whole)
        )


class _Look:
    """A look at the stripes of a file.

    Args:
        file: the file.
        footer: of it.
        path: of it, for errors.
    """

    def __init__(self, file: Any, footer: Footer, path: str) -> None:
        self._file = file
        self._footer = footer
        self._path = path
        self._left = _MOST_LENGTHS

    def taken(self, stripe: Stripe, wanted: list[int]) -> _Taken:
        """Return what some types of a stripe take.

        Raises:
            CorruptionError: the stripe makes no sense.
        """
        said = read_stripe_footer(self._file, self._footer, stripe, self._path)
        try:
            return self._taken(stripe, said, wanted)
        except ValueError as error:
            raise CorruptionError(self._path, stripe.offset, "a stripe", error) from None

    def _taken(self, stripe: Stripe, said: StripeFooter, wanted: list[int]) -> _Taken:
        types = self._footer.types
        taken = _Taken()
        # Values of the types that others are part of, and whether a row may have several.
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
        """Return a stream that is not compressed; nothing if there is none."""
        offset, nbytes = said.streams.get(which, (0, 0))
        stored = bytes(self._file.read_at(nbytes, offset))
        plain = self._footer.compression.plain(stored, self._left)
        self._left -= len(plain)
        return plain
