"""JSON from files: text that nests too deeply, is too long or cannot be written is damage.

Values parsed here can be compared, shown, encoded and written again without a stack overflow.
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
# The closing quote may be missing, so that no text is searched twice.
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(
    content: bytes, path: str, what: str, *, most_bytes: int, most_depth: int = MOST_DEPTH
) -> Any:
    """Return the value of a JSON text.

    Args:
        content: JSON text in UTF-8.
        path: Path of the file, for errors.
        what: Description of what was expected, for errors.
        most_bytes: Largest size of the text, in bytes.
        most_depth: Greatest number of brackets that may be open at once.

    Raises:
        CorruptionError: The text is not JSON, is too large, or nests too deeply.

    >>> parse_json(b'{"a": [1]}', "a.json", "an object", most_bytes=100)
    {'a': [1]}
    """
    if len(content) > most_bytes:
        raise CorruptionError(path, 0, f"{what} of at most {most_bytes} bytes", len(content))
    if _depth(content, most_depth) > most_depth:
        raise CorruptionError(path, 0, what, f"JSON nested deeper than {most_depth}")
    try:
        value = json.loads(content.decode())
        if _SURROGATE.search(content):  # halves of a character, unless they come in pairs
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise CorruptionError(path, error.pos, f"{what}, in JSON", error.msg) from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise CorruptionError(path, error.start, f"{what}, in UTF-8", error.reason) from None
    except ValueError as error:  # a number with more digits than Python takes
        raise CorruptionError(path, 0, what, error) from None
    return value


def _depth(content: bytes, most: int) -> int:
    """Return how deep brackets nest; 0 if there are no more than `most`."""
    if content.count(b"[") + content.count(b"{") <= most:
        return 0
    brackets = _TEXTS.sub(b"", content).translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_BRACKETS.__getitem__, brackets)), default=0)
