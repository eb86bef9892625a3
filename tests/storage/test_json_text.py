"""JSON of files: how deep, how long, and of what characters it may be."""

from __future__ import annotations

import json

import pytest

from lookupstore.errors import CorruptionError
from lookupstore.storage.json_text import MOST_DEPTH, parse_json


def parsed(content: bytes) -> object:
    return parse_json(content, "a.json", "an object", most_bytes=3_000_000)


def nested(depth: int, inside: bytes = b"1") -> bytes:
    return b"[" * depth + inside + b"]" * depth


def test_depth() -> None:
    assert parsed(nested(MOST_DEPTH)) == json.loads(nested(MOST_DEPTH))
    # Brackets in texts are none, whatever they would open or close.
    for text in (b"[" * 500, b"]" * 500, b'\\"' + b"{" * 100, b"\\\\"):
        inside = b'"' + text + b'"'
        assert parsed(nested(MOST_DEPTH, inside)) == json.loads(nested(MOST_DEPTH, inside))
        for wrong in (nested(MOST_DEPTH + 1, inside), b"[" + inside + b"," + nested(MOST_DEPTH)):
            with pytest.raises(CorruptionError, match=r"a\.json: .*nested deeper"):
                parsed(wrong)
    for wrong in (nested(900), nested(1_000_000), b'{"a":' * 100_000):
        with pytest.raises(CorruptionError, match="nested deeper"):
            parsed(wrong)


def test_many_that_are_not_deep() -> None:
    assert len(parsed(b"[" + b",".join([b"[]"] * 1000) + b"]")) == 1000  # type: ignore[arg-type]
    # A text without an end is looked through once.
    for wrong in (b"[" * 65 + b'"' + b'\\"' * 1_000_000, b'["' * 1_000_000):
        with pytest.raises(CorruptionError):
            parsed(wrong)


@pytest.mark.parametrize(
    ("wrong", "offset"),
    [
        (b"", 0),
        (b"{,", 1),
        (b'{"a": "\xff"}', 7),
        (b'{"a": "\\ud800"}', None),
        (b'{"\\uDFFF": 1}', None),
        (b"1" * 5000, 0),
        (b"\xff\xfe{\0}\0", 0),
        (b" " * 3_000_001, 0),
    ],
)
def test_what_is_no_json(wrong: bytes, offset: int | None) -> None:
    with pytest.raises(CorruptionError) as caught:
        parsed(wrong)
    assert caught.value.path == "a.json"
    assert "an object" in caught.value.expected
    assert offset in (None, caught.value.offset)


def test_whole_characters() -> None:
    assert parsed(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"
