"""Groups of commands that are imported when they run, so that commands start fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem

from lookupstore.interrupts import quiet_interrupts

# Notations of options that select rows or columns. A second one replaces the first, but people mean
# both; other options, such as those of a wrapper script, are overridden on purpose.
_SELECTING = {"A,B", "A", "COLUMN", "SQL", "KEY", "TEXT", "FILE|-", "PATH"}


class LazyGroup(click.Group):
    """A group that imports a command only when it runs.

    Args:
        lazy: Module and help line of each command, by the name of the command. The module has the
            command under its name with underscores.
        instead: What to use instead of a command that does not exist, by its name.
    """

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, tuple[str, str]] | None = None,
        instead: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.lazy: dict[str, tuple[str, str]] = dict(lazy or {})
        self.instead: dict[str, str] = dict(instead or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command.

        Raises:
            ImportError: If the command needs an extra that is not installed. The error names it.
        """
        if cmd_name not in self.lazy:
            return None
        with quiet_interrupts():
            module = importlib.import_module(self.lazy[cmd_name][0])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command and its arguments; for a wrong name, suggest the closest one."""
        name = args[0]
        if ctx.resilient_parsing:
            try:
                return super().resolve_command(ctx, args)
            except ImportError:  # a shell shows no errors of completion
                return None, None, args
        if name not in self.lazy and name[:1] != "-":
            close = get_close_matches(name, self.lazy, n=1)
            suggested = f" Did you mean {close[0]!r}?" if close else ""
            spelled = name.replace("_", "-")
            if spelled in self.instead:
                suggested = f" Use {self.instead[spelled]}"
            raise click.UsageError(f"No such command {name!r}.{suggested}", ctx)
        found = super().resolve_command(ctx, args)
        if found[1] is not None and not isinstance(found[1], click.Group):
            _check_repeats(found[1], ctx, found[2])
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any, or an option of the group."""
        names = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        commands = [CompletionItem(name, help=self.lazy[name][1]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name][1]) for name in self.list_commands(ctx)])


def _check_repeats(command: click.Command, parent: click.Context, args: list[str]) -> None:
    """Check that no option that selects rows or columns, and takes one value, is given twice.

    Raises:
        click.UsageError: If one is.
    """
    ctx = command.context_class(command, parent, info_name=command.name)
    try:
        given = command.make_parser(ctx).parse_args(list(args))[2]
    except click.UsageError:  # click says it when it parses them to run the command
        return
    once = [one for one in given if isinstance(one, click.Option) and not one.multiple]
    for option in once:
        if option.metavar in _SELECTING and once.count(option) > 1:
            name = option.opts[-1]
            how = ", with AND between the conditions" if option.metavar == "SQL" else ""
            raise click.UsageError(
                f"{name} is given twice; give it once: {name} {option.metavar}{how}", ctx
            )
