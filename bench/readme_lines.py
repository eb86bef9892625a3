"""What the README tells people to type: the options of its lines, for the bench to use.

The bench measures the README's lines with other data: of a line it replaces the names of files,
store and columns, and leaves all other options as they are there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from support.documents import blocks_of  # noqa: E402

#: What the bench gives in each line before its options: a path, or what a variable holds.
GIVEN: Mapping[str, tuple[type[ast.expr], ...]] = {
    "lookupstore.build": (ast.Constant, ast.Constant),  # Parquet, store
    "session": (),
    "build_store": (ast.Constant, ast.Constant),  # Parquet, store
    "lookup_join": (ast.Name, ast.Constant),  # facts, store
}


def options_of(
    function: str, names: Mapping[str, Any], document: Path = ROOT / "README.md"
) -> dict[str, Any]:
    """Return the options that a document's only line with a function gives it.

    Args:
        function: as the document calls it; one of `GIVEN`.
        names: what options that name columns are here, where the line has them.
        document: that has the line.

    Raises:
        ValueError: the line is not as the bench can run it.

    >>> options_of("lookup_join", {"on": "id", "columns": ["a"]})["on"]
    'id'
    """
    calls = [
        node
        for block in blocks_of(document)
        if block.language == "python"
        for node in ast.walk(ast.parse(block.body))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function
    ]
    if len(calls) != 1:
        raise ValueError(f"{document}: {len(calls)} lines with {function}; the bench runs one")
    (call,) = calls
    if tuple(map(type, call.args)) != GIVEN[function]:
        shown = ast.unparse(call)
        raise ValueError(f"{document}: {shown}: the bench gives {function} something else first")
    options = {}
    for option in call.keywords:
        if option.arg is None:
            raise ValueError(f"{document}: {ast.unparse(call)}: the bench cannot read **options")
        options[option.arg] = ast.literal_eval(option.value)
    return options | {name: value for name, value in names.items() if name in options}
