"""Limit the size of values and rows of CSV and JSON lines."""

from __future__ import annotations

from dataclasses import dataclass

from lookupstore.errors import FormatError
from lookupstore.quantities import size_text

#: Maximum number of open brackets in JSON: code that visits values recursively needs stack for
#: each.
MOST_DEPTH = 256
#: Default maximum size of one text value in bytes.
MOST_TEXT = 64 << 20
#: Smallest value allowed for the maximum size of a text, in bytes.
LEAST_TEXT = 64
# Maximum size of one row in bytes, and maximum of Arrow's parsers.
_MOST_ROW = 1 << 30
_ARROWS_MOST = 2**31 - 2
# Maximum number of bytes of one row for each byte of a compressed file. A row of any file may be as
# long as a text.
_ROW_PER_BYTE = 100


@dataclass(frozen=True)
class TextLimits:
    """The largest sizes of a value and a row of text in a file.

    Attributes:
        text: Largest size of one value in bytes, as it is in the file, with quotes and escapes.
        compressed: Size of the file in bytes, if it is compressed. None: It is not compressed.

    >>> TextLimits().row, TextLimits(compressed=1_000_000).row
    (1073741824, 100000000)
    """

    text: int = MOST_TEXT
    compressed: int | None = None

    @property
    def row(self) -> int:
        """Return the largest size of one row, in bytes."""
        most = min(max(_MOST_ROW, self.text), _ARROWS_MOST)
        if self.compressed is None:
            return most
        return min(most, max(self.text, _ROW_PER_BYTE * self.compressed))

    def text_error(self, where: str) -> FormatError:
        """Return the error for a value that is too long.

        Args:
            where: Names of file, row and, if it is known, column.
        """
        return FormatError(
            f"{where} has a text of more than {size_text(self.text)}; if this is intended, raise "
            "max_text=, or read the file yourself, and pass its rows"
        )

    def row_error(self, where: str) -> FormatError:
        """Return the error for a row that is too long.

        Args:
            where: Names of file and row.
        """
        said = f"{where} has more than {size_text(self.row)}"
        if self.compressed is None:
            return FormatError(f"{said}; read the file yourself, and pass its rows")
        return FormatError(
            f"{said}, in a compressed file of {size_text(self.compressed)}; if this is intended, "
            "decompress the file, and give that"
        )


#: Limits of a file with unknown properties.
BY_DEFAULT = TextLimits()


def depth_error(where: str) -> FormatError:
    """Return the error for a row of JSON that is nested too deeply.

    Args:
        where: Names of file and row.
    """
    return FormatError(
        f"{where} nests more than {MOST_DEPTH} brackets; write values that are nested deeper as "
        "text"
    )
