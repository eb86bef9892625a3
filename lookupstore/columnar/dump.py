"""The layout of a Parquet or ORC file: every region in file order, read even if damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lookupstore.errors import CorruptionError, LookupStoreError, printable
from lookupstore.orc.arrow_file import orc_schema
from lookupstore.orc.footer import read_footer as read_orc_footer
from lookupstore.parquet.footer import read_footer as read_parquet_footer
from lookupstore.quantities import counted, number_text
from lookupstore.source.reading import read_file
from lookupstore.source.search import format_at, format_of
from lookupstore.sst.dump_lines import aligned, wrong
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.read_errors import READ_ERRORS

_WHAT = {"parquet": "a Parquet file", "orc": "an ORC file"}
# Maximum length of the text of a bound.
_MOST_SHOWN = 24


@dataclass
class ColumnarRegion:
    """A contiguous range of bytes of a file.

    Attributes:
        kind: Kind of the region: ``magic``, ``column chunk``, ``stripe``, ``footer``, or ``other``
            for bytes that the footer does not describe, such as indexes of pages and filters.
        offset: Offset of the first byte in the file.
        size: Size in bytes.
        group: Number of the row group or stripe. None: the region is neither a column chunk nor a
            stripe.
        column: Top-level column of a column chunk.
        leaf: Name of the Parquet column of a chunk. For a nested column, it is followed by the
            names below it.
        codec: Codec of the pages of a column chunk, or ``unknown``. None: the pages are not
            compressed, or the region is not a column chunk.
        plain_size: Size of a column chunk before compression, in bytes.
        values: Number of values of a column chunk, including nulls, or of rows of a stripe.
        nulls: Number of nulls of a column chunk. None: the file does not record it.
        least: Least value of a column chunk, as a text. None: the file does not record all of it.
        greatest: Greatest value of a column chunk, as a text. None: the file does not record all of
            it.
        errors: Errors found in the region, as texts. Empty: there are none.
    """

    kind: str
    offset: int
    size: int
    group: int | None = None
    column: str | None = None
    leaf: str | None = None
    codec: str | None = None
    plain_size: int | None = None
    values: int | None = None
    nulls: int | None = None
    least: str | None = None
    greatest: str | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the kind, and the number of a stripe, or the row group and column of a chunk."""
        if self.group is None:
            return self.kind
        if self.leaf is None:
            return f"{self.kind} {self.group}"
        return f"row group {self.group}, {self.leaf}"

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain JSON values, without unknown ones."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {**known, "errors": list(self.errors)}


@dataclass(frozen=True)
class ColumnarLayout:
    """The regions of a Parquet or ORC file.

    Attributes:
        path: Path of the file as shown to people.
        format: Format of the file: ``parquet`` or ``orc``.
        size: Size of the file in bytes.
        rows: Number of rows. None: the footer cannot be read.
        writer: Name or version of the program that wrote the file, from the footer.
        columns: Name and type of each column.
        regions: Regions in file order, which together cover every byte.
    """

    path: str
    format: str
    size: int
    rows: int | None
    writer: str
    columns: tuple[str, ...]
    regions: tuple[ColumnarRegion, ...]

    @property
    def ok(self) -> bool:
        """Return whether no region has an error."""
        return not any(region.errors for region in self.regions)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain JSON values."""
        return {
            "path": self.path,
            "format": self.format,
            "size": self.size,
            "rows": self.rows,
            "writer": self.writer,
            "ok": self.ok,
            "columns": list(self.columns),
            "regions": [region.to_json() for region in self.regions],
        }


def columnar_layout(address: FileAddress) -> ColumnarLayout:
    """Return the layout of a Parquet or ORC file, after reading all of it.

    Errors are reported for each column in a row group of Parquet, and for the first stripe of ORC
    in which a column cannot be read. If the footer cannot be read, nothing else is known.

    Raises:
        ValueError: If the file is neither Parquet nor ORC, by its name or its first bytes.
        OSError: If the file cannot be read at all.

    >>> import tempfile
    >>> from pyarrow import fs
    >>> path = f"{tempfile.mkdtemp()}/users.parquet"
    >>> pq.write_table(pa.table({"id": [2, 1]}), path)
    >>> found = columnar_layout(FileAddress.on(fs.LocalFileSystem(), path))
    >>> [(one.name, one.least, one.greatest) for one in found.regions][1]
    ('row group 0, id', '1', '2')
    """
    file_format = format_at(address.filesystem, address.path) or format_of(address.path)
    with address.reading(_WHAT[file_format]):
        file = address.open()
    with file:
        size = int(file.size())
        look = _parquet if file_format == "parquet" else _orc
        try:
            with address.reading(_WHAT[file_format]):
                rows, writer, columns, known = look(file, address.shown)
        except (*READ_ERRORS, LookupStoreError) as error:
            lost = ColumnarRegion("other", 0, size, errors=[_said(error)])
            return ColumnarLayout(address.shown, file_format, size, None, "", (), (lost,))
        regions = _covered(known, size)
        for _, top in columns:
            _check(file, file_format, top, address, regions)
        names = tuple(name for name, _ in columns)
        return ColumnarLayout(address.shown, file_format, size, rows, writer, names, regions)


def columnar_text(layout: ColumnarLayout) -> str:
    """Return a layout as aligned text; every line about an error starts with ``!``."""
    bad = sum(len(region.errors) for region in layout.regions)
    state = "ok" if layout.ok else f"{bad} error{'s'[: bad != 1]}"
    rows = "" if layout.rows is None else f", {counted(layout.rows, 'row')}"
    kind = {"parquet": "Parquet", "orc": "ORC"}[layout.format]
    table: list[tuple[str, ...]] = [
        ("offset", "size", "region", "codec", "plain", "values", "nulls", "bounds")
    ]
    table += [_cells(region) for region in layout.regions]
    lines = aligned(table, right=(0, 1, 4, 5, 6))
    out = [f"{kind} file of {counted(layout.size, 'byte')}{rows}: {state}", "", lines[0]]
    for line, region in zip(lines[1:], layout.regions, strict=True):
        out.append(line)
        out += wrong(f"{region.name} at offset {region.offset}", region.errors)
    if layout.columns:
        out += ["", "columns", *(f"  {printable(one)}" for one in layout.columns)]
    if layout.writer:
        out += ["", f"written by {printable(layout.writer)}"]
    return "\n".join(out) + "\n"


_Looked = tuple[int, str, list[tuple[str, str]], list[ColumnarRegion]]


def _parquet(file: pa.NativeFile, shown: str) -> _Looked:
    footer = read_parquet_footer(file, shown)
    metadata = pq.ParquetFile(file).metadata
    columns = _columns(metadata.schema.to_arrow_schema())
    size = int(file.size())
    end = int.from_bytes(file.read_at(4, size - 8), "little") + 8
    regions = [ColumnarRegion("magic", 0, 4), ColumnarRegion("footer", size - end, end)]
    for number, group in enumerate(footer.groups):
        for i, chunk in enumerate(group.columns):
            bounds = metadata.row_group(number).column(i).statistics
            # If bounds are truncated, Arrow would read past their end.
            is_whole = chunk.has_bounds_of(footer.leaves[i].width)
            has_bounds = bounds is not None and is_whole and bounds.has_min_max
            regions.append(
                ColumnarRegion(
                    "column chunk",
                    chunk.offset,
                    chunk.nbytes,
                    number,
                    chunk.path[0],
                    ".".join(chunk.path),
                    chunk.codec if chunk.has_known_codec else "unknown",
                    chunk.plain_bytes,
                    chunk.rows,
                    chunk.bounds.nulls,
                    _bound_text(bounds, "min") if has_bounds else None,
                    _bound_text(bounds, "max") if has_bounds else None,
                )
            )
    return metadata.num_rows, footer.created_by, columns, regions


def _orc(file: pa.NativeFile, shown: str) -> _Looked:
    footer = read_orc_footer(file, shown)
    read = orc.ORCFile(file)
    columns = _columns(orc_schema(file))
    regions = [ColumnarRegion("magic", 0, 3)]
    for number, stripe in enumerate(footer.stripes):
        nbytes = stripe.streams_bytes + stripe.footer_bytes
        regions.append(ColumnarRegion("stripe", stripe.offset, nbytes, number, values=stripe.rows))
    end = max(region.offset + region.size for region in regions)
    regions.append(ColumnarRegion("footer", end, int(file.size()) - end))
    return footer.rows, f"version {read.file_version}", columns, regions


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return name and type of each column as text, and its name."""
    return [(f"{one.name}: {one.type}", one.name) for one in schema]


def _covered(known: Sequence[ColumnarRegion], size: int) -> tuple[ColumnarRegion, ...]:
    """Return regions in file order, including regions for the bytes in between."""
    return tuple(_with_others(sorted(known, key=lambda one: (one.offset, one.size)), size))


def _with_others(known: Sequence[ColumnarRegion], size: int) -> Iterator[ColumnarRegion]:
    at = 0
    for region in known:
        if region.offset > at:
            yield ColumnarRegion("other", at, region.offset - at)
        yield region
        at = max(at, region.offset + region.size)
    if at < size:
        yield ColumnarRegion("other", at, size - at)


def _check(
    file: pa.NativeFile,
    file_format: str,
    column: str,
    address: FileAddress,
    regions: Sequence[ColumnarRegion],
) -> None:
    """Read a column, and add errors to the regions in which reading fails."""
    error, rows = _failure(file, file_format, column, address)
    if error is None:
        return
    if file_format == "orc":
        stripes = [one for one in regions if one.kind == "stripe"]
        for stripe in stripes:
            rows -= stripe.values or 0
            if rows < 0 or stripe is stripes[-1]:
                stripe.errors.append(f"{column}: {_said(error)}")
                return
        return
    chunks = [one for one in regions if one.column == column]
    failures = [
        (number, _failure(file, file_format, column, address, number)[0])
        for number in sorted({one.group for one in chunks if one.group is not None})
    ]
    if not any(failed for _, failed in failures):  # a chunk ends too late
        failures = [(chunks[0].group or 0, error)] if chunks else []
    for number, failed in failures:
        if failed is not None:
            _mark(chunks, number, failed, column)


def _mark(chunks: Sequence[ColumnarRegion], group: int, error: Exception, column: str) -> None:
    """Add an error to the chunk of a column in which a row group cannot be read."""
    # Pages of all row groups are checked before one is read: the error may be that of another
    # chunk.
    at = error.offset if isinstance(error, CorruptionError) else -1
    found = [one for one in chunks if one.offset <= at < one.offset + one.size]
    own = [one for one in chunks if one.group == group]
    region, said = (found or own)[0], _said(error)
    if not found and len(own) > 1:
        said = f"here, or in another chunk of {column}: {said}"
    if said not in region.errors:
        region.errors.append(said)


def _failure(
    file: pa.NativeFile,
    file_format: str,
    column: str,
    address: FileAddress,
    group: int | None = None,
) -> tuple[Exception | None, int]:
    """Return the error of reading a column, in one row group or all, and the rows before it."""
    rows = 0
    try:
        with address.reading(_WHAT[file_format]):
            groups = None if group is None else [group]
            for batch in read_file(file, file_format, [column], address.shown, groups=groups):
                rows += batch.num_rows
    except (*READ_ERRORS, LookupStoreError) as error:
        return error, rows
    return None, rows


def _said(error: Exception) -> str:
    if isinstance(error, CorruptionError):
        return f"expected {error.expected}, found {error.found}"
    return str(error).partition("\n")[0]


def _bound_text(bounds: pq.Statistics, name: str) -> str:
    try:
        return _text(getattr(bounds, name))
    except UnicodeDecodeError:  # the values can be read nevertheless
        return _text(getattr(bounds, f"{name}_raw"))


def _text(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _cells(region: ColumnarRegion) -> tuple[str, ...]:
    numbers = (region.plain_size, region.values, region.nulls)
    return (
        str(region.offset),
        number_text(region.size),
        region.name,
        region.codec or "",
        *("" if one is None else number_text(one) for one in numbers),
        "" if region.least is None else f"{region.least} .. {region.greatest}",
    )
