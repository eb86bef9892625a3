"""What a command opens: a store, or one sorted file; and what that says of itself."""

from __future__ import annotations

import os

import click

import lookupstore
from lookupstore.cli.output import write_fields, write_json
from lookupstore.sst import Info, Reader
from lookupstore.sst.dump import text


def open_store_or_file(
    path: str, order: str, version: int | None
) -> lookupstore.LookupStore | Reader:
    """Open a store, or a sorted file in an order."""
    if os.path.isdir(path) or "://" in path:
        return lookupstore.open(path, version=version)
    only_stores(version=version)
    return Reader(path, order=order)


def only_stores(**given: object) -> None:
    """Refuse options that a file has not."""
    _refuse("a store, not of a file", given)


def only_files(**given: object) -> None:
    """Refuse options that a store has not."""
    _refuse("a file, not of a store (where bytes in a key are typed as 0x and hex digits)", given)


def _refuse(of: str, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name} is an option of {of}")


def write_info(opened: lookupstore.LookupStore | Reader, output: str) -> None:
    """Print what a store or file says of itself."""
    found = opened.info if isinstance(opened, Reader) else opened.info()
    if output == "json":
        write_json(found.to_json())
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
    shown = {name: value for name, value in fields.items() if name != "path" and value != ""}
    write_fields(found.path, shown)
