"""The layout of a sorted file as text.

Counts and sizes have separators of thousands; offsets, which users copy into other tools, have
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lookupstore.errors import printable
from lookupstore.quantities import counted, number_text
from lookupstore.sst.layout import FileLayout, Region, text


def dump_text(layout: FileLayout) -> str:
    """Return a layout as aligned text; every line about something wrong starts with ``!``.

    Example:
        >>> from lookupstore.sst import Writer
        >>> from lookupstore.sst.dump import layout
        >>> with Writer("one.sst", dialect="paimon", bloom_fpp=0) as writer:
        ...     writer.put(b"k", b"v")
        >>> print(dump_text(layout("one.sst")).splitlines()[0])
        paimon file of 65 bytes, key order bytes: ok
    """
    bad = sum(len(region.errors) for region in layout.regions)
    state = "ok" if layout.ok else f"{bad} error{'s'[: bad != 1]}"
    lines = [
        f"{layout.dialect} file of {counted(layout.size, 'byte')}, "
        f"key order {layout.order}: {state}",
        "",
        *_regions(layout),
    ]
    for region in layout.regions:
        if region.fields:
            lines += ["", region.name, *_fields(region)]
    if layout.index:
        lines += ["", "index entries", *_index(layout)]
    for region in layout.regions:
        if region.contents and region.kind == "data block":
            lines += ["", region.name, *_contents(layout, region)]
    return "\n".join(lines) + "\n"


def _regions(layout: FileLayout) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("offset", "size", "region", "codec", "plain", "records", "checksum", "keys")
    ]
    rows += [_region(layout, region) for region in layout.regions]
    lines = aligned(rows, right=(0, 1, 4, 5))
    out = lines[:1]
    for line, region in zip(lines[1:], layout.regions, strict=True):
        out.append(line)
        out += wrong(f"{region.name} at offset {region.offset}", region.errors)
    return out


def _region(layout: FileLayout, region: Region) -> tuple[str, ...]:
    checksum = region.checksum
    keys = ""
    if region.kind == "data block" and region.first_key is not None:
        first, last = (
            text(key or b"", layout.order) for key in (region.first_key, region.last_key)
        )
        keys = f"{first} .. {last}"
    return (
        str(region.offset),
        number_text(region.size),
        region.name,
        region.codec or "",
        "" if region.plain_size is None else number_text(region.plain_size),
        "" if region.records is None else number_text(region.records),
        "none" if checksum is None
        else f"{checksum.name} {checksum.stored:08x} {'ok' if checksum.ok else 'WRONG'}",
        keys,
    )  # fmt: skip


def _fields(region: Region) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for name, value in region.fields.items():
        if isinstance(value, list):  # the fields of a schema
            rows += [(name if i == 0 else "", one) for i, one in enumerate(value)]
            if not value:
                rows.append((name, "no fields"))
        elif name in ("magic", "checksum"):
            rows.append((name, f"{value:#010x}"))
        elif isinstance(value, int) and not name.endswith("offset"):
            rows.append((name, number_text(value)))
        else:
            rows.append((name, str(value)))
    return aligned(rows, indent="  ")


def _index(layout: FileLayout) -> list[str]:
    rows = [("block", "offset", "size", "last key")]
    rows += [
        (
            str(number),
            str(entry.offset),
            number_text(entry.size),
            text(entry.last_key, layout.order),
        )
        for number, entry in enumerate(layout.index)
    ]
    return aligned(rows, right=(0, 1, 2), indent="  ")


def _contents(layout: FileLayout, region: Region) -> list[str]:
    rows = [("record", "at", "key", "value")]
    rows += [
        (str(number), str(one.offset), text(one.key, layout.order), text(one.value))
        for number, one in enumerate(region.contents)
    ]
    return aligned(rows, right=(0, 1), indent="  ")


def wrong(where: str, errors: Iterable[str]) -> list[str]:
    """Return a line for each error at a position of a file."""
    return [printable(f"! {where}: {error}") for error in errors]


def aligned(
    rows: Sequence[tuple[str, ...]], right: Sequence[int] = (), indent: str = ""
) -> list[str]:
    """Return the cells of each row in columns of equal width, right-aligned if in `right`.

    Cells contain text from the file, so characters that a terminal would interpret are escaped.
    """
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent
        + "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
