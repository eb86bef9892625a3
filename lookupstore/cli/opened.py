"""What a command opens: a store, or one sorted file; and what that says of itself."""

from __future__ import annotations

import os

import click

from lookupstore.cli.output import size_text, write_fields, write_json
from lookupstore.sst import Info, Reader
from lookupstore.sst.dump import text
from lookupstore.storage.home import expanded
from lookupstore.storage.uris import shown_uri
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store


def open_store_or_file(path: str, order: str, version: int | None) -> LookupStore | Reader:
    """Open a store, or a sorted file in an order."""
    kind = kind_of(path)
    if kind is PathKind.HUDI_TABLE:
        shown = shown_uri(path)
        raise click.UsageError(f"{shown} is a Hudi table; see 'lookupstore hudi info {shown}'")
    if kind is PathKind.COLUMNAR_FILES:
        raise click.UsageError(
            f"{shown_uri(path)} names columnar files; 'lookupstore get --key' looks up in them, "
            "'lookupstore build' makes a store of them"
        )
    if kind is PathKind.STORE and (os.path.isdir(expanded(path)) or "://" in path):
        return open_store(path, version=version)
    only_stores(version=version)
    return Reader(path, order=order)


def only_stores(**given: object) -> None:
    """Refuse options that are for stores only."""
    _refuse("stores, not files", given)


def only_files(**given: object) -> None:
    """Refuse options that are for files only."""
    _refuse("files, not stores (for bytes in a store's key, type 0x and hex digits)", given)


def _refuse(of: str, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name} is for {of}")


def write_info(opened: LookupStore | Reader, output: str, source_bytes: int | None = None) -> None:
    """Print what a store or file says of itself, and the size of the source that it was built from.

    Args:
        opened: the store or file.
        output: `table` or `json`.
        source_bytes: of the source; None: nobody knows.
    """
    found = opened.info()
    if output == "json":
        size = {} if source_bytes is None else {"source_bytes": source_bytes}
        write_json({**found.to_json(), **size})
        return
    fields: dict[str, object] = {}
    for name, value in found.to_json().items():
        if isinstance(value, dict):
            known = {key: one for key, one in value.items() if one is not None}
            fields[name] = ", ".join(f"{key}: {one}" for key, one in known.items())
        elif isinstance(value, list):  # the fields of a schema
            fields[name] = ", ".join(f"{one['name']}: {one['type']}" for one in value)
        elif value is not None:
            fields[name] = value
    if isinstance(found, Info):
        for name, key in (("min_key", found.min_key), ("max_key", found.max_key)):
            if key is not None:
                fields[name] = text(key, found.order)
    if source_bytes is not None and not isinstance(found, Info):
        fields["size"] = f"{size_text(found.bytes)}, from {size_text(source_bytes)} of source files"
    shown = {name: value for name, value in fields.items() if name != "path" and value != ""}
    write_fields(found.path, shown)
