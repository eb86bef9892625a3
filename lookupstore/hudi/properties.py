"""Java's properties text, in which Hudi keeps a table's options and marks its partitions.

Bytes are Latin-1, and `\\uXXXX` is a UTF-16 unit, as `java.util.Properties` reads and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lookupstore.errors import CorruptionError

#: Of a file; the schema of a table with thousands of columns is in it.
MOST_PROPERTIES_BYTES = 4 << 20
# Of the comments at the head of a file; Java has two.
_MOST_COMMENTS = 1000
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {value: f"\\{name}" for name, value in _ESCAPES.items()} | {
    character: f"\\{character}" for character in "\\=:#!"
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def parse_properties(content: bytes, path: str) -> dict[str, str]:
    """Return the pairs of a properties file; the last one of a repeated key.

    Args:
        content: of the file.
        path: of the file, for errors.

    Raises:
        CorruptionError: an escape is cut short, or is not UTF-16.

    >>> parse_properties(b"# made by hand\\nname = a\\\\:b\\nkeys=x,\\\\\\n  y\\n", "t.properties")
    {'name': 'a:b', 'keys': 'x,y'}
    """
    if len(content) > MOST_PROPERTIES_BYTES:
        raise CorruptionError(
            path, 0, f"properties of at most {MOST_PROPERTIES_BYTES} bytes", len(content)
        )
    pairs = {}
    for offset, line in _logical_lines(content.decode("latin-1")):
        key, value = _split(line)
        pairs[_unescape(key, path, offset)] = _unescape(value, path, offset)
    return pairs


def first_comments(content: bytes) -> tuple[str, ...]:
    """Return the comments that a properties file begins with, without their marks.

    >>> first_comments(b"#Updated at noon\\n#Sat\\na=b\\n#c\\n")
    ('Updated at noon', 'Sat')
    """
    found = []
    for match in _LINE.finditer(content[:_MOST_COMMENTS].decode("latin-1")):
        line = match[0].rstrip("\r\n")
        if not line.startswith(("#", "!")) or not (line.isascii() and line.isprintable()):
            break
        found.append(line[1:])
    return tuple(found)


def print_properties(pairs: Mapping[str, str], comments: Iterable[str] = ()) -> bytes:
    """Return pairs as a properties file, in ASCII, with comments first.

    Raises:
        ValueError: a text is not Unicode: it has half of a surrogate pair.

    >>> print_properties({"name": "a:b"}, ["made by hand"])
    b'#made by hand\\nname=a\\\\:b\\n'
    """
    lines = [f"#{comment}" for comment in comments]
    for key, value in pairs.items():
        spaces = len(value) - len(value.lstrip(" "))
        lines.append(
            _escape(key).replace(" ", "\\ ") + "=" + "\\ " * spaces + _escape(value[spaces:])
        )
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that hold a pair, those joined that a backslash joins, and where they start."""
    held, start = None, 0
    for match in _LINE.finditer(text):
        line = match[0].rstrip("\r\n").lstrip(_BLANK)
        if held is None:
            if not line or line[0] in "#!":
                continue
            held, start = "", match.start()
        held += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield start, held
        held = None
    if held is not None:
        yield start, held


def _split(line: str) -> tuple[str, str]:
    """Cut a line where its key ends: at a blank, `=` or `:` that no backslash stands before."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:at], rest


def _unescape(text: str, path: str, offset: int) -> str:
    if "\\" not in text:
        return text
    parts, at = [], 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\" and at < len(text):
            name = text[at]
            at += 1
            if name == "u":
                digits = text[at : at + 4]
                if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                    raise CorruptionError(path, offset, "four digits after \\u", repr(digits))
                character = chr(int(digits, 16))
                at += 4
            else:
                character = _ESCAPES.get(name, name)
        parts.append(character)
    try:
        # Two escapes may be the halves of one character.
        return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise CorruptionError(path, offset, "whole surrogate pairs", ascii(text)) from error


def _escape(text: str) -> str:
    return "".join(
        _ESCAPED.get(character) or (character if " " <= character <= "~" else _units(character))
        for character in text
    )


def _units(character: str) -> str:
    """Return a character as escapes of its UTF-16 units."""
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
