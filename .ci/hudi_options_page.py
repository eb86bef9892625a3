"""Write `docs/reference/hudi-options.md`: options by Hudi's names, and what each does here."""

from __future__ import annotations

from pathlib import Path

import click

from lookupstore.cli import main as cli
from lookupstore.hudi.write.hoodie.beside import fields_said_by
from lookupstore.hudi.write.hoodie.known import AREAS, all_options
from lookupstore.hudi.write.hoodie.option import HudiOption, shown
from lookupstore.hudi.write.kinds import SIZE
from lookupstore.hudi.write.write_choices import WRITE_CHOICES, default_of

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "hudi-options.md"
_HEAD = """# Options by Hudi's names

Options of Apache Hudi 0.14 to 1.1 for writers and readers of copy-on-write tables, and what each
does in lookupstore. These take them:

| where | how |
|---|---|
| Python | `options=` of `HudiTable.create`, of every write and of `cluster` |
| Spark | `options=` of `upsert`, `hudi_sink` and `cluster_table`; `df.write.options(...)` |
| shell | `--hoodie NAME=VALUE` of `lookupstore hudi create` and of all commands that write rows |
| reads in Spark | `spark.read.options(...)`: those of [reads](#reads); others are ignored |

| becomes | meaning |
|---|---|
| done | The option does here what it does in Hudi. A value that is not listed is an error. |
| nothing to do | Any value is accepted, and changes nothing. The log says so once, at INFO. |
| refused | Any value is an error. |

- An unknown name is an error, which proposes a known name if one is near.
- An option that contradicts an argument, a flag, another option or the table is an error.
- A name that ends with `.*` stands for all names that begin so and have no line of their own.
- Names and words may be in upper or lower case.
- Hudi's default is what Hudi takes if the option is absent, in most of its versions. Services
  (cleaning, archival, clustering) follow a write of lookupstore only if an option asks for them.

`.ci/hudi_options_page.py` makes this page.
"""
_OWN = """## By lookupstore's names

Each is a field of `WriteOptions`, or of `TableServices` in `WriteOptions(services=)`, an option of
`df.write.format("lookupstore.hudi")` unless the table says otherwise, and a flag of the commands of
`lookupstore hudi` in the last column. The flag of `sort_mode` is `--sort-mode`. `df.write` takes
columns as JSON, too.

| name | values | default | what it does | Hudi's names | commands that write rows |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    lines = [_own_line(name, _commands(name)) for name in WRITE_CHOICES]
    parts = [_HEAD, _OWN + "\n".join(lines) + "\n"]
    for title, options in AREAS.items():
        lines = [
            "| name | becomes | values | Hudi's default | here | instead of another value |",
            "|---|---|---|---|---|---|",
            *map(_line, options),
        ]
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _own_line(name: str, commands: list[str]) -> str:
    choice, default = WRITE_CHOICES[name], default_of(name)
    text = str(default).lower() if isinstance(default, bool) else str(default)
    if choice.kind is SIZE and default is not None:
        text = f"{default >> 20}MiB"
    here = choice.help if choice.in_spark else f"{choice.help} Not in `df.write`."
    theirs = [one.names[0] for one in all_options() if name in fields_said_by(one)]
    cells = (
        f"`{name}`",
        choice.kind.words,
        "" if default in (None, ()) else f"`{text}`",
        here,
        "<br>".join(f"`{one}`" for one in theirs),
        ", ".join(f"`{one}`" for one in commands),
    )
    return f"| {' | '.join(cells)} |"


def _commands(name: str) -> list[str]:
    """Return the commands of `lookupstore hudi` that have the flag of a choice."""
    with click.Context(cli) as context:
        group = cli.get_command(context, "hudi")
        assert isinstance(group, click.Group)
        found = {one: group.get_command(context, one) for one in group.list_commands(context)}
        return [
            one
            for one, command in found.items()
            if command is not None and {name, "hoodie"} <= {each.name for each in command.params}
        ]


def _line(option: HudiOption) -> str:
    names = "<br>".join(
        f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in option.names
    )
    here = f"{option.here[:1].upper()}{option.here[1:].removesuffix('.')}."
    instead = [option.instead] if option.instead else []
    instead += [f"`{shown(value)}`: {why}" for value, why in option.kind.refused.items()]
    default = f"`{option.default}`" if option.default else ""
    cells = (names, option.verdict, _values(option), default, here, "<br>".join(instead))
    return f"| {' | '.join(cells)} |"


def _values(option: HudiOption) -> str:
    if option.only is None:
        return option.kind.words if option.verdict == "done" else ""
    return " or ".join(f"`{shown(one)}`" if one else "no value" for one in option.only)


if __name__ == "__main__":
    PAGE.write_text(page())
