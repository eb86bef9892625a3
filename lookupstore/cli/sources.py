"""Rows that a command reads from files or from standard input, and options for files of text."""

from __future__ import annotations

import functools
import glob
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import click
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.cli.completion import offering
from lookupstore.cli.options import Option, names_of
from lookupstore.cli.terminal import echoed_info
from lookupstore.errors import listed, meant
from lookupstore.quantities import bytes_of
from lookupstore.source.csv_dialect import POINT, USUAL, CsvDialect, is_character
from lookupstore.source.opening import open_source
from lookupstore.source.source import Source
from lookupstore.source.text_limits import LEAST_TEXT
from lookupstore.source.time_formats import check_format
from lookupstore.storage.home import expanded
from lookupstore.storage.location import local_folder
from lookupstore.storage.uris import shown_uri

# The logger that says which columns are text because of their notation of numbers.
_CSV_LOGGER = "lookupstore.source.csv_rows"
# Names of types in SQL that Arrow does not have.
_SQL_TYPES = {
    "text": pa.string(), "bigint": pa.int64(), "integer": pa.int32(), "int": pa.int32(),
    "smallint": pa.int16(), "boolean": pa.bool_(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
# Words for characters, which a shell would take for its own.
_CHARACTERS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_DECIMAL = re.compile(r"decimal(128|256)?\(\s*(\d+)\s*,\s*(\d+)\s*\)")
# A timestamp with a zone, as Arrow prints it and `info` does.
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns),\s*tz=([^\]]+)\]", re.IGNORECASE)
# A date or timestamp with the format of its texts.
_FORMATTED = re.compile(r"(date|timestamp|timestamp_ntz)\((.*[%A-Za-z].*)\)", re.IGNORECASE)


@dataclass(frozen=True)
class TextFlags:
    """The options about files of CSV and JSON lines.

    Attributes:
        max_text: Largest size of one value in bytes.
        dialect: Separator, quotes and so on of CSV, and the zone of times.
        types: Types of columns, whose other types would be inferred.
    """

    max_text: int
    dialect: CsvDialect
    types: dict[str, pa.DataType]

    @property
    def is_usual(self) -> bool:
        """Return whether none of the options about columns and fields is given."""
        return not self.types and self.dialect == USUAL

    def source_of(self, given: Sequence[str], known: pa.Schema | None = None) -> Source:
        """Open the given paths, or for `-` the standard input.

        Args:
            given: Paths to open, or `-` or a pipe alone.
            known: Columns of the destination, whose types those of the files will have. None: types
                are inferred.

        Raises:
            UsageError: If `-` or a pipe is one of several paths, or the files do not have what the
                options are about.
        """
        # Types that are not inferred are no surprise.
        with echoed_info(_CSV_LOGGER, self._is_inferred) if known is None else nullcontext():
            source = open_source(rows_of(given), max_text=self.max_text, dialect=self.dialect)
        if source.in_types is None:
            self.check_unused(f"{source.description} has types of its own")
        if self.types:
            source = _typed(source, self.types)
        self.check_zone(source.schema, source.description, known)
        return source

    def _is_inferred(self, record: logging.LogRecord) -> bool:
        """Return whether a record is about a column whose type is not given."""
        return not isinstance(record.args, tuple) or record.args[1] not in self.types

    def check_zone(
        self, schema: pa.Schema, description: str, known: pa.Schema | None = None
    ) -> None:
        """Check that `--zone` is not given for rows without times that have a zone.

        Args:
            schema: Columns of the rows.
            description: Description of their source.
            known: Columns of the destination, whose types those of the rows will have. None: there
                is none.

        Raises:
            UsageError: If it is given.
        """
        if self.dialect.zone is None or any(self._may_have_zone(one, known) for one in schema):
            return
        remedy = "leave it out" + (", or give --types COLUMN=timestamp" if known is None else "")
        raise click.UsageError(
            f"--zone: {description} has no column of times with a time zone; {remedy}"
        )

    def _may_have_zone(self, field: pa.Field, known: pa.Schema | None) -> bool:
        """Return whether a column has times with a zone where its rows go."""
        if known is not None and field.name not in self.types:
            if field.name in known.names:
                return has_zone(known.field(field.name).type)
            if pa.types.is_nested(field.type):  # an event of a changelog may have rows in it
                return True
        return has_zone(field.type)

    def check_unused(self, what: str) -> None:
        """Check that no option is given for something that has columns of its own.

        Args:
            what: Beginning of the error, which says so.

        Raises:
            UsageError: If one is given.
        """
        if not self.is_usual:
            raise click.UsageError(
                f"{what}; --delimiter, --quote, --null, --names, --decimal, --types and --zone are "
                "for CSV, the last two also for JSON lines"
            )

    def check_key(self, source: Source, names: Sequence[str]) -> None:
        """Check that a source of text has key columns: its first line may be a row.

        Args:
            source: Source that `source_of` has opened.
            names: Names of the key columns.

        Raises:
            UsageError: If CSV lacks one of them.
        """
        if source.in_types is None or self.dialect.names is not None:
            return
        known = f"it has [{listed(source.schema.names)}]"
        for name in names:
            if name not in source.schema.names:
                raise click.UsageError(
                    f"--key: {source.description} has no column {name!r}"
                    f"{meant(name, source.schema.names, known)}; if CSV has no line of names, give "
                    "--names"
                )


def is_pipe(path: str) -> bool:
    """Return whether a path is a pipe or a device such as /dev/stdin, which is read only once.

    The shell makes a pipe of `<(command)`.
    """
    try:
        mode = os.stat(expanded(path)).st_mode
    except (OSError, ValueError):  # a URI, a glob, or nothing
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def rows_of(given: Sequence[str]) -> BinaryIO | list[str]:
    """Return the file from which `-` or a pipe is read, otherwise the given paths.

    Args:
        given: Paths, or `-` or a pipe alone. The command closes the pipe.

    Raises:
        UsageError: If `-` or a pipe is one of several paths.
    """
    streams = [path for path in given if path == "-" or is_pipe(path)]
    if not streams:
        return list(given)
    if len(given) > 1:
        what = "standard input" if streams[0] == "-" else "a pipe"
        raise click.UsageError(f"{streams[0]} is {what}, and stands alone")
    if streams[0] == "-":
        return sys.stdin.buffer
    return click.get_current_context().with_resource(open(expanded(streams[0]), "rb"))


def text_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about files of text to a command, as its argument `text`."""
    return _with_flags(command, (*_NOTATION, *_VALUES, _MAX_TEXT))


def key_text_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about the notation of CSV to a command that reads keys, as `text`.

    Keys have the types of the place in which they are looked up, and the form in which users type
    them, unless the caller gives the type of a column of the file.
    """
    return _with_flags(command, (*_NOTATION, *_OF_KEYS, _MAX_TEXT))


def _with_flags(
    command: Callable[..., Any], options: Sequence[tuple[str, Option]]
) -> Callable[..., Any]:
    names = [name for name, _ in options]

    @functools.wraps(command)
    def with_flags(**values: Any) -> Any:
        return command(text=_text_flags(**{name: values.pop(name) for name in names}), **values)

    made: Callable[..., Any] = with_flags
    for _, option in reversed(options):
        made = option(made)
    return made


def _text_flags(
    *,
    max_text: str,
    delimiter: str | None,
    quote: str,
    null: tuple[str, ...],
    names: str | None,
    types: dict[str, tuple[pa.DataType, str | None]] | None = None,
    decimal: str = POINT,
    zone: str | None = None,
) -> TextFlags:
    notation = dialect_of(delimiter, quote, names)
    found = types or {}
    formats = tuple((name, form) for name, (_, form) in found.items() if form is not None)
    dialect = replace(notation, nulls=null or ("",), decimal=decimal, zone=zone, formats=formats)
    kinds = {name: kind for name, (kind, _) in found.items()}
    return TextFlags(bytes_of(max_text, "--max-text", least=LEAST_TEXT), dialect, kinds)


def dialect_of(
    delimiter: str | None = None, quote: str = '"', names: str | None = None
) -> CsvDialect:
    """Return the notation of CSV that options describe, as far as the names of columns need it."""
    return CsvDialect(
        separator=delimiter,
        quote=None if quote == "none" else quote,
        names=None if names is None else tuple(names_of(names)),
    )


def _character(_: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Return a character that was typed, by itself or by its name."""
    found = _CHARACTERS.get(given or "", given)
    if found is not None and found != "none" and not is_character(found):
        words = {"quote": ", tab or none", "decimal": ""}.get(str(param.name), ", or tab")
        raise click.BadParameter(f"{given!r}: give one character of ASCII{words}")
    return found


def _types(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> dict[str, tuple[pa.DataType, str | None]]:
    """Return types that were typed as COLUMN=TYPE, with the formats of dates and timestamps."""
    found: dict[str, tuple[pa.DataType, str | None]] = {}
    # Commas in brackets belong to a type.
    for one in re.split(r",(?![^(]*\)|[^\[]*\])", ",".join(given)) if given else ():
        name, equals, kind = (part.strip() for part in one.partition("="))
        if not (name and equals and kind):
            raise click.BadParameter(f"{one!r}: give COLUMN=TYPE, such as zip=text")
        if name in found:
            raise click.BadParameter(f"the column {name!r} is given twice")
        formatted = _FORMATTED.fullmatch(kind)
        found[name] = (
            (_type_of(kind), None)
            if formatted is None
            else (_type_of(formatted[1]), _format(formatted[2], _type_of(formatted[1])))
        )
    return found


def has_zone(kind: pa.DataType) -> bool:
    """Return whether a type is that of times with a zone, or has such times in it."""
    if pa.types.is_nested(kind):
        return any(has_zone(kind.field(at).type) for at in range(kind.num_fields))
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _format(form: str, kind: pa.DataType) -> str:
    try:
        check_format(form, kind)
    except ValueError as error:
        raise click.BadParameter(f"the format {form!r}: {error}") from None
    return form


def _type_of(kind: str) -> pa.DataType:
    name = kind.lower()
    if name in _SQL_TYPES:
        return _SQL_TYPES[name]
    decimal, zoned = _DECIMAL.fullmatch(name), _ZONED.fullmatch(kind)
    try:
        if decimal is not None:
            make = pa.decimal256 if decimal[1] == "256" else pa.decimal128
            return make(int(decimal[2]), int(decimal[3]))
        if zoned is not None:
            epoch = pa.scalar(0, pa.timestamp(zoned[1].lower()))
            return pc.assume_timezone(epoch, zoned[2].strip()).type  # an unknown zone fails
        return pa.type_for_alias(name)
    except ValueError:
        raise click.BadParameter(
            f"{kind!r} is not a type; give text, int, bigint, float, double, boolean, date, "
            "timestamp (in UTC), timestamp_ntz (without a zone), decimal(P,S), or the name of an "
            "Arrow type"
        ) from None


def _typed(source: Source, types: dict[str, pa.DataType]) -> Source:
    """Return a source whose columns have given types, for any destination."""
    for name in types:
        if name not in source.schema.names:
            raise click.UsageError(
                f"--types: {source.description} has no column {name!r}; it has "
                f"[{listed(source.schema.names)}]"
            )
    in_types = source.in_types
    assert in_types is not None

    def in_others(known: pa.Schema) -> Source:
        others = (field for field in known if field.name not in types)
        return in_types(pa.schema([*others, *types.items()]))

    typed = replace(in_others(pa.schema([])), in_types=in_others)
    every_column = source.every_column
    if every_column is None:
        return typed
    return replace(typed, every_column=lambda: _typed(every_column(), types))


def check_kept(out: str | None, *given: str | None) -> None:
    """Refuse to write to a file that is read, because it would be replaced.

    Args:
        out: Path of the file to write. None: there is none.
        given: Paths that are read: files, folders or globs. None: that path is not given.

    Raises:
        UsageError: If `out` is one of the files that they name.
    """
    if out is None or not os.path.isfile(expanded(out)):
        return
    own = os.path.realpath(expanded(out))
    for path in filter(None, given):
        here = local_folder(expanded(path), None)  # file:// is local, too
        if here is None:
            continue
        real = os.path.realpath(here)
        found = {os.path.realpath(one) for one in glob.glob(here, recursive=True)}
        if own == real or own in found or own.startswith(os.path.join(real, "")):
            raise click.UsageError(
                f"-o {out} is in what is read ({shown_uri(path)}); give another name"
            )


# Options by their names in Python.
_NOTATION: tuple[tuple[str, Option], ...] = (
    ("delimiter", click.option(
        "--delimiter", callback=_character, metavar="CHAR",
        shell_complete=offering("semicolon", "tab", "pipe", "comma"),
        help="Character between the fields of CSV, or its name: tab, comma, semicolon or pipe "
        "(default: a comma, or a tab where the first line has more tabs).")),
    ("quote", click.option(
        "--quote", callback=_character, default='"', show_default=True, metavar="CHAR|none",
        shell_complete=offering("none"),
        help="Character around fields of CSV; none: all quotes are text.")),
    ("null", click.option(
        "--null", multiple=True, metavar="TEXT",
        help="Field of CSV that is null if it has no quotes, such as NA; repeatable. An empty "
        "field is then an empty text, unless you give --null '' too (default: an empty field).")),
    ("names", click.option(
        "--names", metavar="A,B", help="Names of the columns of CSV that has no line of names.")),
)  # fmt: skip
_VALUES: tuple[tuple[str, Option], ...] = (
    ("decimal", click.option(
        "--decimal", callback=_character, default=POINT, show_default=True, metavar="CHAR",
        shell_complete=offering("comma"),
        help="Character before the fraction of a number in CSV, such as ',' in 3,14. With another "
        "than a point, a text with a point is not a number.")),
    ("types", click.option(
        "--types", multiple=True, callback=_types, metavar="COLUMN=TYPE",
        help="Type of a column of CSV or JSON lines, such as zip=text, 'price=decimal(10,2)', or "
        "with a format 'day=date(%d.%m.%Y)' and 'at=timestamp_ntz(%d.%m.%Y %H:%M:%S)'; commas "
        "separate several (default: inferred from the first megabyte).")),
    ("zone", click.option(
        "--zone", metavar="ZONE",
        help="Time zone of times of CSV or JSON lines that name none, such as UTC or Europe/Berlin "
        "(default: an error if the type of the column has a zone, otherwise times without a "
        "zone).")),
)  # fmt: skip
_OF_KEYS: tuple[tuple[str, Option], ...] = (
    ("types", click.option(
        "--types", multiple=True, callback=_types, metavar="COLUMN=TYPE",
        help="Type of a column of CSV that --keys names, such as 'day=date(%d.%m.%Y)' with its "
        "format; commas separate several (default: values are written like keys in a command).")),
    ("zone", click.option(
        "--zone", metavar="ZONE",
        help="Time zone of times that name none in key columns of CSV, such as UTC or "
        "Europe/Berlin (default: an error if the type of the column has a zone).")),
)  # fmt: skip
_MAX_TEXT: tuple[str, Option] = (
    "max_text", click.option(
        "--max-text", default="64MiB", show_default=True, metavar="SIZE",
        help="The most bytes of one value in files of CSV or JSON lines."),
)  # fmt: skip
