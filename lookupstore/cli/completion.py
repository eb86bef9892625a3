"""Complete the names of columns in the shell, from what the command line names so far."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem


class ColumnNames(click.types.StringParamType):
    """A list of column names with commas between them.

    Args:
        arguments: Arguments of the command whose columns they are. The first that is given counts.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that complete the last one; none if they are not cheap to know."""
        path = self._path(ctx)
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(before + comma + name)
            for name in (() if path is None else _names_of(path))
            if name.startswith(last) and name not in taken
        ]

    def _path(self, ctx: click.Context) -> str | None:
        """Return the first path that is given for one of the arguments."""
        for value in map(ctx.params.get, self._arguments):
            if value:
                path: str = value[0] if isinstance(value, tuple) else value
                return path
        # An option without its value ends parsing before words become arguments.
        order = [one.name for one in ctx.command.params if isinstance(one, click.Argument)]
        for name in self._arguments:
            if name in order and order.index(name) < len(ctx.args):
                return ctx.args[order.index(name)]
        return None


#: Columns of the sources of a command, or of the store that it reads.
COLUMNS = ColumnNames("sources", "source", "path")
#: Columns of the facts of a join.
FACT_COLUMNS = ColumnNames("facts")


def _names_of(path: str) -> Sequence[str]:
    """Return the columns of a local store, file or table."""
    from lookupstore.source.opening import open_source
    from lookupstore.store.path_kind import PathKind, kind_of
    from lookupstore.store.store import open as open_store

    if path == "-" or "://" in path:
        return ()
    try:
        kind = kind_of(path)
        if kind is PathKind.STORE:
            with open_store(path) as store:
                names: list[str] = store.schema.names
                return names
        names = open_source(path).schema.names
        return names
    except Exception:  # a shell shows no errors of completion: there is nothing to complete
        return ()
