"""Write `docs/reference/hudi-options.md`: options by Hudi's names, and what each does here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lookupstore.hudi.write.hoodie.beside import fields_said_by
from lookupstore.hudi.write.hoodie.known import AREAS, all_options
from lookupstore.hudi.write.hoodie.option import HudiOption, shown
from lookupstore.hudi.write.kinds import SIZE, ValueKind
from lookupstore.hudi.write.write_choices import WRITE_CHOICES, default_of

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "hudi-options.md"
_HEAD = """# Options by Hudi's names

Options of Apache Hudi 0.14 to 1.1 for copy-on-write tables, and what each does in lookupstore.

| where | how |
|---|---|
| Python | `options=` of `HudiTable.create`, of every write and of `cluster` |
| Spark | `options=` of `upsert`, `hudi_sink` and `cluster_table`; `df.write.options(...)` |
| shell | `--hoodie NAME=VALUE` of `create`, `cluster` and all commands that write rows |
| reads in Spark | `spark.read.options(...)`: [reads](#reads); others are ignored |

- A value that is not listed is an error. If the column "otherwise" is empty, leave the option out.
- An unknown name is an error, and so is an option that contradicts an argument, a flag, another
  option or the table.
- Options "without effect" accept any value. The log names them once, at INFO.
- `.*` stands for all names that begin so and have no line of their own.
- Names and words may be in upper or lower case.
- Hudi's default is that of most of its versions. Services (cleaning, archival, clustering) follow a
  write of lookupstore only if an option asks for them.

<!-- Made by .ci/hudi_options_page.py -->
"""
_OWN = """## By lookupstore's names

These are fields of `WriteOptions` or `WriteOptions(services=TableServices(...))`, and options of
`df.write.format("lookupstore.hudi")`, which takes columns as JSON, too. `--help` of a command of
`lookupstore hudi` lists its flags. Hudi's options that set several of these are under
[services](#services).

| name | values | default | what it does | Hudi's names |
|---|---|---|---|---|
"""
_DONE = """| name | values | Hudi's default | effect | otherwise |
|---|---|---|---|---|
"""
_ONLY = """Options that accept only these values:

| name | value | effect | otherwise |
|---|---|---|---|
"""
_NOTHING = """Without effect:

| name | why |
|---|---|
"""
# Words of `ValueKind` for errors, and those for tables.
_SHORT = {
    "true or false": "boolean",
    "a whole number": "integer",
    "a number": "number",
    "a text": "text",
    "columns with commas between": "columns with commas between",
}


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, _OWN + "\n".join(map(_own_line, WRITE_CHOICES)) + "\n"]
    for title, options in AREAS.items():
        effective = [one for one in options if one.verdict == "done" and one.only is None]
        parts.append(f"## {title}\n\n" + _DONE + "\n".join(map(_line, effective)) + "\n")
        fixed = [_only_line(one) for one in options if one.only is not None]
        parts.append(_ONLY + "\n".join(fixed) + "\n")
        reasons: dict[str, list[str]] = {}
        for one in options:
            if one.verdict == "nothing to do":
                reasons.setdefault(_sentence(one.here), []).extend(one.names)
        lines = [f"| {_names(names)} | {why} |" for why, names in reasons.items()]
        parts.append(_NOTHING + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _own_line(name: str) -> str:
    choice, default = WRITE_CHOICES[name], default_of(name)
    text = str(default).lower() if isinstance(default, bool) else str(default)
    if choice.kind is SIZE and default is not None:
        text = f"{default >> 20}MiB"
    here = choice.help if choice.in_spark else f"{choice.help} Not in `df.write`."
    # Options that set many fields at once are in the tables below.
    theirs = [one.names[0] for one in all_options() if fields_said_by(one) == (name,)]
    theirs += [one.names[0] for one in all_options() if one.field == name and one.part is not None]
    cells = (
        f"`{name}`",
        _kind(choice.kind),
        "" if default in (None, ()) else f"`{text}`",
        here,
        _names(dict.fromkeys(theirs)),
    )
    return f"| {' | '.join(cells)} |"


def _line(option: HudiOption) -> str:
    refused = [f"`{shown(value)}`: {why}" for value, why in option.kind.refused.items()]
    default = f"`{option.default}`" if option.default else ""
    effect, values = _sentence(option.here), _kind(option.kind)
    return f"| {_names(option.names)} | {values} | {default} | {effect} | {'<br>'.join(refused)} |"


def _only_line(option: HudiOption) -> str:
    instead = "" if option.instead == "leave it out" else option.instead
    values = "<br>".join(f"`{shown(one)}`" if one else "no value" for one in option.only or ())
    cells = (_names(option.names), values or "refused", _sentence(option.here), instead)
    return f"| {' | '.join(cells)} |"


def _names(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in names)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _kind(kind: ValueKind) -> str:
    if kind.choices:
        return "<br>".join(f"`{shown(one)}`" for one in kind.choices)
    words, comma, least = kind.words.partition(",")
    return _SHORT.get(words, words) + comma + least


if __name__ == "__main__":
    PAGE.write_text(page())
