"""How much text one value, and one row, of CSV and JSON lines may have."""

from __future__ import annotations

from dataclasses import dataclass

from lookupstore.errors import FormatError
from lookupstore.quantities import size_text

#: Brackets of JSON that may be open at once: what walks over values takes stack for each.
MOST_DEPTH = 256
#: Bytes of one text value.
MOST_TEXT = 64 << 20
#: The least that a text may be limited to.
LEAST_TEXT = 64
# Bytes of one row, and what Arrow's parsers take at the most.
_MOST_ROW = 1 << 30
_ARROWS_MOST = 2**31 - 2
# Bytes of one row that a byte of a compressed file may stand for. Any file may have a row as long
# as a text may be.
_ROW_PER_BYTE = 100


@dataclass(frozen=True)
class TextLimits:
    """How much text of a file may come before a value, or a row, ends.

    Attributes:
        text: bytes of one value, as the file has it: with quotes and escapes.
        compressed: bytes of the file, if it is compressed.

    >>> TextLimits().row, TextLimits(compressed=1_000_000).row
    (1073741824, 100000000)
    """

    text: int = MOST_TEXT
    compressed: int | None = None

    @property
    def row(self) -> int:
        """Return how many bytes one row may have."""
        most = min(max(_MOST_ROW, self.text), _ARROWS_MOST)
        if self.compressed is None:
            return most
        return min(most, max(self.text, _ROW_PER_BYTE * self.compressed))

    def text_error(self, where: str) -> FormatError:
        """Return the error of a value that is too long.

        Args:
            where: file, row and, if it is known, column.
        """
        return FormatError(
            f"{where} has a text of more than {size_text(self.text)}; if this is intended, raise "
            "max_text=, or read the file yourself, and pass its rows"
        )

    def row_error(self, where: str) -> FormatError:
        """Return the error of a row that is too long.

        Args:
            where: file and row.
        """
        said = f"{where} has more than {size_text(self.row)}"
        if self.compressed is None:
            return FormatError(f"{said}; read the file yourself, and pass its rows")
        return FormatError(
            f"{said}, in a compressed file of {size_text(self.compressed)}; if this is intended, "
            "decompress the file, and give that"
        )


#: The limits of a file about which nothing is known.
BY_DEFAULT = TextLimits()


def depth_error(where: str) -> FormatError:
    """Return the error of a row of JSON that is nested too deeply.

    Args:
        where: file and row.
    """
    return FormatError(
        f"{where} nests more than {MOST_DEPTH} brackets; write values that are nested deeper as "
        "text"
    )
