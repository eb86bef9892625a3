"""JSON from files: what nests deeper, is longer, or is text that nobody could write is damage.

What is parsed here can be compared, shown, encoded and written again without an end of the stack.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from lookupstore.errors import CorruptionError

MOST_DEPTH = 64

_BRACKETS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_NO_BRACKETS = bytes(one for one in range(256) if one not in _BRACKETS)
# The quote at its end may be missing, so that no text is looked through twice.
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(content: bytes, path: str, what: str, *, most_bytes: int) -> Any:
    r"""Return what a JSON text says.

    Args:
        content: the text.
        path: of the file, for errors.
        what: it should be, for errors.
        most_bytes: that it may have.

    Raises:
        CorruptionError: it is not JSON, or too large.

    >>> parse_json(b'{"a": [1]}', "a.json", "an object", most_bytes=100)
    {'a': [1]}
    """
    if len(content) > most_bytes:
        raise CorruptionError(path, 0, f"{what} of at most {most_bytes} bytes", len(content))
    if _depth(content) > MOST_DEPTH:
        raise CorruptionError(path, 0, what, f"JSON nested deeper than {MOST_DEPTH}")
    try:
        value = json.loads(content.decode())
        if _SURROGATE.search(content):  # halves of a character, unless they come in pairs
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise CorruptionError(path, error.pos, f"{what}, in JSON", error.msg) from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise CorruptionError(path, error.start, f"{what}, in UTF-8", error.reason) from None
    except ValueError as error:  # a number of more digits than Python takes
        raise CorruptionError(path, 0, what, error) from None
    return value


def _depth(content: bytes) -> int:
    """Return how deep brackets nest; 0 if they are so few that it does not matter."""
    if content.count(b"[") + content.count(b"{") <= MOST_DEPTH:
        return 0
    brackets = _TEXTS.sub(b"", content).translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_BRACKETS.__getitem__, brackets)), default=0)
