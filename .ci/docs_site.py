"""What mkdocs does with our pages: links that leave the documents, and examples in docstrings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# A relative link, and its anchor.
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.+)*", flags=re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page whose links to code, benches and folders are those of the repository."""
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


class Examples(griffe.Extension):
    """An extension of griffe that marks the examples of a docstring as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put fences around what begins with `>>>`."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", obj.docstring.value
            )
