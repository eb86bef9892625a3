"""Make HTML tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from lookupstore.errors import printable


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return texts as an HTML table, with special characters escaped.

    >>> html_table("found", [], [["<b>"]])
    '<table><caption>found</caption><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    head = f"<thead>{_row('th', heads)}</thead>" if heads else ""
    body = "".join(_row("td", row) for row in rows)
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def html_fields(caption: str, fields: Mapping[str, object]) -> str:
    """Return named values as an HTML table with a row each, without empty values.

    Numbers have groups of three digits. Items of lists and dicts follow each other.

    >>> html_fields("write", {"rows": 1200, "errors": [], "steps": {"read": 0.25}})
    '<table><caption>write</caption><tbody><tr><td>rows</td><td>1,200</td></tr>\
<tr><td>steps</td><td>read: 0.25</td></tr></tbody></table>'
    """
    said = {name: _said(value) for name, value in fields.items() if value not in _NOTHING}
    return html_table(caption, [], said.items())


_NOTHING: tuple[object, ...] = (None, "", (), [], {})


def _said(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_said(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value))
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in cells) + "</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text, but="\n"))
