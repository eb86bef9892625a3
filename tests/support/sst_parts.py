"""Valid sorted files in parts, each of which can be changed under right checksums."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from lookupstore.sst._load import BlockLoad
from lookupstore.sst.codec import Compressor
from lookupstore.sst.format import (
    NATIVE,
    TRAILER_SIZE,
    Footer,
    pack_footer,
    pack_trailer,
    unpack_handle,
)
from lookupstore.sst.stored import StoredFile
from support.sst_files import varint

INTERESTING = [0, 1, 2, 4, 5, 0x7F, 0x80, 0xFE, 0xFF]
NUMBERS = [0, 1, 5, 127, 128, 1 << 14, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Change a few bytes: flips, small numbers, varints, fixed integers, pieces moved."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        if rng.random() < 0.3:  # the tail of a block says how to read it
            at = max(0, len(out) - rng.randrange(1, 12))
        kind = rng.randrange(7)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice(INTERESTING)
        elif kind == 2:
            number = varint(rng.choice(NUMBERS))
            out[at : at + rng.choice([0, 1, len(number)])] = number
        elif kind == 3 and at + 4 <= len(out):
            struct.pack_into("<I", out, at, rng.choice(NUMBERS) & 0xFFFFFFFF)
        elif kind == 4:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 5:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randrange(12)]
        else:
            out[at:at] = rng.randbytes(rng.randrange(5))
    return bytes(out)


class Taken:
    """A valid file in parts: plain blocks, index, filter, properties; `made` puts them together."""

    def __init__(self, path: Path) -> None:
        file = StoredFile(str(path))
        self.dialect = file.dialect
        index = file.block(file.footer.index, "index", "bytes")
        handles = index.handles(file.footer.index[0], TRAILER_SIZE)
        self.blocks = [file.data_block(handle, 0, "bytes").data for handle in handles]
        handle = file.footer.dictionary
        self.dictionary = None if handle is None else bytes(file.payload(handle, "dictionary")[1])
        self.index = [index.record(i) for i in range(len(index))]
        bits = file.footer.filter
        self.filter = bits and bytes(file.read(*bits, "filter"))
        self.entries = file.footer.filter_entries
        handle = file.footer.properties
        self.properties = None if handle is None else file.block(handle, "", "bytes").data

    def made(self, rng: random.Random, codec: str) -> bytes:
        """Mutate one part and encode all, with handles as they then are (or mutated, too)."""
        target = rng.choice(["block", "block", "payload", "index", "handle", "filter", "properties",
                             "footer"])  # fmt: skip
        victim = rng.randrange(len(self.blocks))
        java = self.dialect is not NATIVE
        compressor = Compressor(codec, None, java=java, dictionary=self.dictionary)
        index_compressor = Compressor(codec, None, java=java)
        out = bytearray()

        def payload_of(compressor: Compressor, block: bytes) -> tuple[int, bytes]:
            packed = compressor.packed(BlockLoad([block]), self.dialect)
            return packed.codecs[0], bytes(packed.written[: packed.sizes[0]])

        def put(number: int, payload: bytes) -> tuple[int, int]:
            handle = len(out), len(payload)
            out.extend(payload + pack_trailer(self.dialect, number, payload))
            return handle

        index = bytearray()
        starts = []
        for i, plain in enumerate(self.blocks):
            data = mutated(plain, rng) if (target, victim) == ("block", i) else plain
            number, payload = payload_of(compressor, data)
            if (target, victim) == ("payload", i):
                payload = mutated(payload, rng)
                number = rng.choice([number, number, 0, 1, 2, 3, 9])
            offset, size = put(number, payload)
            key = self.index[i][0]
            value = varint(offset) + varint(size)
            assert unpack_handle(value) == (offset, size)
            if (target, victim) == ("handle", i):
                value = mutated(value, rng)
            starts.append(len(index))
            index += varint(len(key)) + key + varint(len(value)) + value
        dictionary_handle = None
        if self.dictionary is not None:
            changes = rng.random() < 0.1
            stored = mutated(self.dictionary, rng) if changes else self.dictionary
            dictionary_handle = put(0, stored)
        index += struct.pack(f"<{len(starts)}I", *starts) + struct.pack("<IB", len(starts), 1)
        filter_handle = None
        if self.filter:
            bits = mutated(self.filter, rng) if target == "filter" else self.filter
            if self.dialect is NATIVE:
                filter_handle = put(0, bits)
            else:
                filter_handle = len(out), len(bits)
                out.extend(bits)
        stored = mutated(bytes(index), rng) if target == "index" else bytes(index)
        index_handle = put(*payload_of(index_compressor, stored))
        properties_handle = None
        if self.properties is not None:
            plain = self.properties
            properties_handle = put(0, mutated(plain, rng) if target == "properties" else plain)
        entries = self.entries
        if target == "footer":
            wild = rng.choice([-1, 0, 1, 7, len(out), 1 << 30, (1 << 31) - 1])
            which = rng.randrange(4)
            if which == 0:
                index_handle = wild, index_handle[1]
            elif which == 1:
                index_handle = index_handle[0], wild
            elif which == 2 and filter_handle:
                filter_handle = wild, filter_handle[1]
            else:
                entries = wild
        footer = Footer(
            index_handle, filter_handle, entries, properties_handle, dictionary=dictionary_handle
        )
        return bytes(out) + pack_footer(self.dialect, footer)
