"""What mkdocs does with our pages: links, what a search finds first, and examples in docstrings.

It refuses pages with a list that does not render, and guides that are too long.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# A relative link, and its anchor.
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
# Code is neither a list nor counted.
_CODE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"([-*]|\d+\.) ")
_GUIDES = ("start/", "how-to/", "explain/")
_MOST_WORDS = 1400
# People look things up in other pages. One lists all options of Hudi.
_MOST_WORDS_OF_OTHERS = 3000
_LIST = "reference/hudi-options.md"
# How much more a search values a page: tasks come before what explains them.
_BOOSTS = {"start/": 4, "how-to/": 4, "contributing/": 0.1, "decisions/": 0.1}
_TABLE = re.compile(r"<table>.*?</table>", flags=re.DOTALL)
# The first cell of a row, and the names in it.
_FIRST_CELL = re.compile(r"<tr>\s*<td>.*?</td>")
_NAME = re.compile(r"<code>([\w.]+)</code>(?!</a>)")
_CELL = re.compile(r"<td[^>]*>.*?</td>", flags=re.DOTALL)
_LONG_CODE = re.compile(r"<code>([^<]{15,})</code>")
# Where a name may go on in the next line.
_BREAK = re.compile(r"(?<=[_.(/])(?=\w)|(?<=[a-z])(?=[A-Z])")
_MODULE = re.compile(r"# `([\w.]+)`")
_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.+)*", flags=re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page whose links to code, benches and folders are those of the repository."""
    check_page(page.file.src_uri, markdown)
    for start, boost in _BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    folder = (DOCS / page.file.src_uri).parent

    def checked(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if not target.exists():
            raise FileNotFoundError(f"docs/{page.file.src_uri}: {link[1]}: no such file")
        if target.is_relative_to(DOCS) and target.is_file():
            return link[0]
        path = target.relative_to(ROOT).as_posix()
        return f"]({config.repo_url}/blob/main/{path}{link[2] or ''})"

    return _LINK.sub(checked, markdown)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Return a page whose tables fit a phone, and link names of its module to their headings."""
    module = _MODULE.match(page.markdown or "")
    return break_names(link_names(content, module[1]) if module else content)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Return a page that does not ask GitHub about the repository."""
    return output.replace(' data-md-component="source"', "")


def link_names(content: str, module: str) -> str:
    """Return HTML with links from names in the first cells of tables to headings of a module.

    Names of a table are those of the module, or of the class that has the most of them.
    """
    anchors = set(re.findall(rf' id="({re.escape(module)}\.[\w.]+)"', content))
    owners = [module, *sorted({anchor.rpartition(".")[0] for anchor in anchors} - {module})]

    def with_links(table: re.Match[str]) -> str:
        names = _NAME.findall("".join(_FIRST_CELL.findall(table[0])))
        owner = max(owners, key=lambda one: sum(f"{one}.{name}" in anchors for name in names))

        def linked(name: re.Match[str]) -> str:
            anchor = f"{owner}.{name[1]}"
            return f'<a href="#{anchor}">{name[0]}</a>' if anchor in anchors else name[0]

        return _FIRST_CELL.sub(lambda cell: _NAME.sub(linked, cell[0]), table[0])

    return _TABLE.sub(with_links, content)


def break_names(content: str) -> str:
    """Return HTML in which long code in tables may be broken, between the words of a name only."""

    def broken(code: re.Match[str]) -> str:
        return f"<code>{_BREAK.sub('<wbr>', code[1])}</code>"

    return _CELL.sub(lambda cell: _LONG_CODE.sub(broken, cell[0]), content)


def check_page(name: str, markdown: str) -> None:
    """Check that the lists of a page render, and that it is not too long.

    Args:
        name: Path of the page below `docs`.
        markdown: Text of the page.

    Raises:
        ValueError: If a list does not follow a blank line, or the page has too many words.
    """
    text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), markdown)
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _ITEM.match(line) and before.strip() and not _ITEM.match(before) and before[0] != " ":
            raise ValueError(f"docs/{name}:{number}: a list needs a blank line before it")
        before = line
    words = sum(any(letter.isalnum() for letter in word) for word in text.split())
    if name.startswith(_GUIDES) and words > _MOST_WORDS:
        raise ValueError(f"docs/{name}: {words} words; split it: a guide may have {_MOST_WORDS}")
    if words > _MOST_WORDS_OF_OTHERS and name != _LIST:
        raise ValueError(
            f"docs/{name}: {words} words; split it: a page may have {_MOST_WORDS_OF_OTHERS}"
        )


class Examples(griffe.Extension):
    """An extension of griffe that marks the examples of a docstring as code.

    It leaves out what Cython adds to classes.
    """

    def on_members(self, *, obj: griffe.Object, **_: Any) -> None:
        """Remove the members that Cython adds."""
        for name in ("__doc__", "__new__", "__pyx_vtable__"):
            obj.members.pop(name, None)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put fences around what begins with `>>>`."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", obj.docstring.value
            )
