"""``lookupstore dump``: files region by region, for any kind of path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import click
from pyarrow import fs

from lookupstore.cli.failures import REPAIR
from lookupstore.cli.opened import check_no_commit
from lookupstore.cli.options import (
    PLACE,
    as_of_option,
    order_option,
    output_option,
    table_version_option,
)
from lookupstore.cli.output import write_json
from lookupstore.cli.terminal import echo
from lookupstore.columnar.dump import ColumnarLayout, columnar_layout, columnar_text
from lookupstore.errors import CorruptionError, FormatError, LookupStoreError
from lookupstore.source.search import FoundTable, find_source
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_objects import commits_at
from lookupstore.source.table_readers import READABLE, table_reader
from lookupstore.sst.dump import FileLayout, cut_layout, dump_text, hexdump, layout, missing_layout
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri
from lookupstore.store.file_checks import missing_file_error
from lookupstore.store.manifest import DataFile
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.version_files import read_newest, read_numbered
from lookupstore.store.version_times import number_at


@click.command()
@click.argument("path", type=PLACE, metavar="STORE_OR_FILE")
@click.option("--records", is_flag=True, help="Also show every record, of sorted files.")
@click.option("--hex", "hexadecimal", is_flag=True,
              help="Show every byte and its meaning instead, of sorted files.")  # fmt: skip
@table_version_option
@as_of_option
@order_option
@output_option("table", "json")
def dump(
    path: str,
    records: bool,
    hexadecimal: bool,
    version: int | None,
    as_of: str | None,
    order: str,
    output: str,
) -> int:
    """Print every region of a sorted or columnar file.

    STORE_OR_FILE may also be several columnar files, a store in a folder, or a
    table: each of its files is printed. Each region is checked, those of
    columnar files by reading them; a damaged file is printed as far as it can
    be read.
    """
    path = expanded(path)
    kind = kind_of(path)
    layouts: Iterator[tuple[str, FileLayout | ColumnarLayout]]
    if kind in (PathKind.COLUMNAR_FILES, PathKind.HUDI_TABLE):
        if records or hexadecimal or order != "bytes":
            raise click.UsageError(
                f"{shown_uri(path)} is of columnar files; leave out --records, --hex and --order"
            )
        if version is None and as_of is None:
            addresses = _addresses(path, kind)
        else:
            addresses = _addresses_at(path, kind, version, as_of)
        layouts = (("", columnar_layout(address)) for address in addresses)
    elif kind is PathKind.STORE and (os.path.isdir(path) or "://" in path):
        number = number_at(Location(path), version, as_of)
        layouts = _of_store(path, number, records=records or hexadecimal)
    else:
        check_no_commit(path, kind, version=version, as_of=as_of)
        layouts = iter([("", _of_file(path, order, records=records or hexadecimal))])
    is_one = kind is PathKind.SORTED_FILE or os.path.isfile(path)
    return _write(layouts, hexdump if hexadecimal else dump_text, output, is_one=is_one)


def _write(
    layouts: Iterator[tuple[str, FileLayout | ColumnarLayout]],
    show: Callable[[FileLayout], str],
    output: str,
    *,
    is_one: bool,
) -> int:
    """Print layouts, each as soon as it is read; return the exit code."""
    status, said = 0, list[dict[str, Any]]()
    for i, (title, found) in enumerate(layouts):
        if output == "json":
            said.append(found.to_json())
        else:
            heading = [] if is_one else [""] * (i > 0) + [f"{found.path}{title and ': '}{title}"]
            shown = columnar_text(found) if isinstance(found, ColumnarLayout) else show(found)
            for line in (*heading, *shown.rstrip("\n").split("\n")):
                echo(line, color="red" if line.lstrip().startswith("!") else None)
        if not found.ok:
            where = next(region for region in found.regions if region.errors)
            echo(
                f"Error: {found.path}: damaged, first at offset {where.offset} ({where.name}) "
                f"(see {REPAIR})",
                err=True,
            )
            status = 1
    if output == "json":
        write_json(said[0] if is_one else said)
    return status


def _of_store(path: str, version: int | None, *, records: bool) -> Iterator[tuple[str, FileLayout]]:
    """Yield the description and the layout of each data file of a store, by bucket."""
    location = Location(path)
    if not location.in_place:
        raise click.UsageError(
            f"{location.uri} is not on this machine; copy it first: lookupstore publish "
            f"{location.uri} FOLDER"
        )
    manifest = read_newest(location) if version is None else read_numbered(location, version)
    bases = {file.name for file in manifest.files}
    for bucket, files in sorted(manifest.layers().items()):
        for file in files:
            kind = "base" if file.name in bases else "run"
            try:
                size = os.path.getsize(location.show(file.name))
            except FileNotFoundError:
                error = missing_file_error(location, manifest, file)
                if not isinstance(error, CorruptionError):  # the version is gone
                    raise error from None
                yield f"{kind} of bucket {bucket}", missing_layout(location.show(file.name))
                continue
            # A folder in the place of the file is an error of its own.
            if size == file.bytes or os.path.isdir(location.show(file.name)):
                found = layout(location.show(file.name), records=records)
            else:
                found = cut_layout(location.show(file.name), size, file.bytes)
            yield f"{kind} of bucket {bucket}", found


def _of_file(path: str, order: str, *, records: bool) -> FileLayout:
    """Return the layout of one sorted file, which may be a cut file of a store."""
    try:
        return layout(path, order, records=records)
    except FormatError:
        folder, name = os.path.split(os.path.abspath(path))
        store, data = os.path.split(folder)
        size = os.path.getsize(path)
        for file in _current_files(store):
            if file.name == f"{data}/{name}" and file.bytes != size:
                return cut_layout(path, size, file.bytes)
        raise


def _current_files(folder: str) -> tuple[DataFile, ...]:
    """Return the data files of the store in a folder; () if there is no readable store."""
    try:
        return read_newest(Location(folder)).data_files
    except (LookupStoreError, OSError):
        return ()


def _addresses_at(
    path: str, kind: PathKind, version: int | None, as_of: str | None
) -> Iterator[FileAddress]:
    """Yield the addresses of the data files of a table at one of its commits."""
    if kind is PathKind.HUDI_TABLE and version is None:
        from lookupstore.hudi import HudiTable

        table = HudiTable.open(path, query_type="read_optimized")
        for group in table.file_groups(as_of):
            yield FileAddress.on(*table.location.resolve(group.current.path))
        return
    commits = commits_at(path, version=version, as_of=as_of)
    for data in commits.snapshot(commits.opened).files:
        yield data.address


def _addresses(path: str, kind: PathKind) -> Iterator[FileAddress]:
    """Yield the addresses of the columnar files of a path, or of the data files of a table."""
    if kind is PathKind.HUDI_TABLE:
        for file in table_reader(TableFormat.HUDI).table_files(path)[1]:
            yield file.address
        return
    if os.path.isfile(path):  # also a file of a table, which is not a source by itself
        yield FileAddress.on(fs.LocalFileSystem(), path)
        return
    found = find_source([path], tables=READABLE)
    if isinstance(found, FoundTable):
        for data in table_reader(found.format).table_snapshot(found.path).files:
            yield data.address
        return
    for one in found:
        for name in one.files:
            yield FileAddress.on(one.filesystem, name)
