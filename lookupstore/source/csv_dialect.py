"""How a text is written: separator, quotes, nulls and so on of CSV, and the zone of times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

#: Usual character before the fraction of a number.
POINT = "."


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
        decimal: Character before the fraction of a number, in ASCII. If it is not a point, a text
            with a point is not a number.
        zone: Time zone of times that name none, such as `Europe/Berlin`. It counts in columns whose
            type has a zone, also of JSON lines, and in those of CSV whose type is inferred. None:
            such times are refused in columns whose type has a zone.
        formats: Names of columns of dates or timestamps that are not written in ISO 8601, each with
            its format in the directives of `datetime.strptime`; also for JSON lines.

    Raises:
        ValueError: If a character cannot have its role, or there is no such time zone.

    >>> CsvDialect(separator=";").quote
    '"'
    """

    separator: str | None = None
    quote: str | None = '"'
    nulls: tuple[str, ...] = ("",)
    names: tuple[str, ...] | None = None
    decimal: str = POINT
    zone: str | None = None
    formats: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for name, value in (
            ("separator", self.separator),
            ("quote", self.quote),
            ("decimal", None if self.decimal == POINT else self.decimal),
        ):
            if value is None:
                continue
            if not is_character(value):
                raise ValueError(f"{name} is {value!r}; give one character of ASCII")
            if value in roles:
                raise ValueError(
                    f"{roles[value]} and {name} are both {value!r}; give two characters"
                )
            roles[value] = name
        if self.decimal.isalnum() or self.decimal in "+- ":
            raise ValueError(f"decimal is {self.decimal!r}; give a point or a comma")
        if self.zone is not None:
            try:
                pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), self.zone)
            except pa.ArrowInvalid:
                raise ValueError(
                    f"zone is {self.zone!r}; give UTC or a name such as Europe/Berlin"
                ) from None

    def format_of(self, column: str) -> str | None:
        """Return the format of the dates or timestamps of a column. None: ISO 8601."""
        return dict(self.formats).get(column)

    @property
    def is_usual_csv(self) -> bool:
        """Return whether a text of another format, such as JSON lines, may be read with this."""
        return replace(self, zone=None, formats=()) == USUAL


def is_character(value: str) -> bool:
    """Return whether a text is one printable character of ASCII, or a tab.

    >>> is_character(";"), is_character("::")
    (True, False)
    """
    return len(value) == 1 and (" " <= value <= "~" or value == "\t")


#: Dialect of files about which nothing is said.
USUAL = CsvDialect()
