"""How a CSV file is written: separator, quotes, nulls and names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CsvDialect:
    """The notation of a CSV file.

    Attributes:
        separator: Character between fields, in ASCII. None: a tab if the name of the file says so
            or the first line has more tabs than commas, otherwise a comma.
        quote: Character around fields, in ASCII. None: No character is special.
        nulls: Texts without quotes that mean null.
        names: Names of the columns of a text without a line of names. None: The first line has the
            names.

    Raises:
        ValueError: If a character cannot have its role.

    >>> CsvDialect(separator=";").quote
    '"'
    """

    separator: str | None = None
    quote: str | None = '"'
    nulls: tuple[str, ...] = ("",)
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in (("separator", self.separator), ("quote", self.quote)):
            if value is not None and not is_character(value):
                raise ValueError(f"{name} is {value!r}; give one character of ASCII")
        if self.separator is not None and self.separator == self.quote:
            raise ValueError(f"separator and quote are both {self.quote!r}; give two characters")


def is_character(value: str) -> bool:
    """Return whether a text is one printable character of ASCII, or a tab.

    >>> is_character(";"), is_character("::")
    (True, False)
    """
    return len(value) == 1 and (" " <= value <= "~" or value == "\t")


#: Dialect of files about which nothing is said.
USUAL = CsvDialect()
