"""Tables as notebooks show them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return texts as an HTML table, which they cannot break.

    >>> html_table("found", [], [["<b>"]])
    '<table><caption>found</caption><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = f"<thead>{_row('th', heads)}</thead>" if heads else ""
    body = "".join(_row("td", row) for row in rows)
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
