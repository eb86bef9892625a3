"""Complete names of columns and of characters in the shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

# Characters that a shell may take for its own, and the comma between names. Each shell has its own
# way to quote them, so names that have one are left to the user.
_NEEDS_QUOTES = re.compile(r"[^\w@%+=:./-]")


class ColumnNames(click.types.StringParamType):
    """A list of column names with commas between them.

    Args:
        arguments: Arguments of the command whose columns they are. The first that is given counts.
        values: Whether to leave out the columns of the key, which the command refuses.
    """

    def __init__(self, *arguments: str, values: bool = False) -> None:
        self._arguments = arguments
        self._values = values

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names without quotes that complete the last one, if they are cheap to know."""
        path = self._path(ctx)
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        names, key = ((), ()) if path is None else _columns_of(path, ctx.params)
        taken += key if self._values else ()
        return [
            CompletionItem(before + comma + name)
            for name in names
            if name.startswith(last) and name not in taken and not _NEEDS_QUOTES.search(name)
        ]

    def _path(self, ctx: click.Context) -> str | None:
        """Return the first path that is given for one of the arguments."""
        return _given_path(ctx, self._arguments)


def _given_path(ctx: click.Context, arguments: Sequence[str]) -> str | None:
    """Return the first path that is given for one of some arguments."""
    for value in map(ctx.params.get, arguments):
        if value:
            path: str = value[0] if isinstance(value, tuple) else value
            return path
    # An option without its value ends parsing before words become arguments.
    order = [one.name for one in ctx.command.params if isinstance(one, click.Argument)]
    for name in arguments:
        if name in order and order.index(name) < len(ctx.args):
            return ctx.args[order.index(name)]
    return None


#: Columns of the sources of a command, or of the store that it reads.
COLUMNS = ColumnNames("sources", "source", "table", "paths", "path")
#: The same without the columns of the key.
VALUE_COLUMNS = ColumnNames("sources", "source", "table", "paths", "path", values=True)
#: Columns of the facts of a join.
FACT_COLUMNS = ColumnNames("facts")
#: Columns of the file that a new table is made like.
LIKE_COLUMNS = ColumnNames("like")


def versions_of_store(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Complete an option with the numbers of the versions of a local store, the newest first."""
    from lookupstore.store.version_files import list_names, located

    path = _given_path(ctx, ("store", "path", "paths"))
    if path is None or "://" in path:
        return []
    try:
        numbers = [str(one.number) for one in list_names(located(path))]
    except Exception:  # a shell shows no errors of completion: there is nothing to complete
        return []
    return [number for number in reversed(numbers) if number.startswith(begun)]


def offering(*words: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes an option with words, none of which needs quotes."""
    return lambda _, __, begun: [word for word in words if word.startswith(begun)]


def _columns_of(path: str, options: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns of a local store, file or table, and those of its key.

    Args:
        path: Path of the store, file or table.
        options: Options of the command, which may describe CSV, and name the key.
    """
    from lookupstore.cli.options import names_of
    from lookupstore.cli.sources import dialect_of
    from lookupstore.source.opening import open_source
    from lookupstore.store.path_kind import PathKind, kind_of
    from lookupstore.store.store import open as open_store

    if path == "-" or "://" in path:
        return (), ()
    try:
        kind = kind_of(path)
        if kind is PathKind.STORE:
            with open_store(path) as store:
                return store.schema.names, store.key
        key = names_of(options.get("key") or "")
        if kind is PathKind.HUDI_TABLE and not key:
            from lookupstore.hudi import HudiTable

            key = list(HudiTable.open(path).options.record_key)
        notation = {name: options[name] for name in ("delimiter", "quote", "names")
                    if options.get(name) is not None}  # fmt: skip
        return open_source(path, dialect=dialect_of(**notation)).schema.names, key
    except Exception:  # a shell shows no errors of completion: there is nothing to complete
        return (), ()
