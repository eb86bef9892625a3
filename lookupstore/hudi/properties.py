"""Read and print Java properties, the format of table options and partition marks.

Bytes are Latin-1, and `\\uXXXX` is a UTF-16 unit, as `java.util.Properties` reads and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lookupstore.errors import CorruptionError

#: Maximum size of a file; the schema of a table with thousands of columns fits.
MOST_PROPERTIES_BYTES = 4 << 20
# Maximum number of comments at the beginning of a file; Java writes two.
_MOST_COMMENTS = 1000
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {value: f"\\{name}" for name, value in _ESCAPES.items()} | {
    character: f"\\{character}" for character in "\\=:#!"
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def parse_properties(content: bytes, path: str) -> dict[str, str]:
    """Return the pairs of a properties file; of a repeated key the last value counts.

    Args:
        content: Content of the file.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If an escape is cut short, or is not UTF-16, or the file is too large.

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
    """Return the comments at the beginning of a properties file, without their marks.

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
        ValueError: If a text contains half of a surrogate pair, and so is not Unicode.

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
    """Yield the lines with pairs, joined at backslashes, and their offsets."""
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
    """Split a line at the first blank, `=` or `:` that is not escaped."""
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
