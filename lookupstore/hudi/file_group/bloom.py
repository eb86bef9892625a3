"""Bloom filters of base files: read that of a footer, test many keys, make a new one.

A footer contains a filter as base64 of bytes in the layout of ``csrc/ls_hadoop_bloom.h``. Two kinds
exist: SIMPLE, one row of bits, and DYNAMIC_V0, which adds a row whenever the last row has the
number of keys for which it was sized.

Source: org.apache.hudi.common.bloom (SimpleBloomFilter, HoodieDynamicBoundedBloomFilter,
BloomFilterUtils), ported from org.apache.hadoop.util.bloom.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pybase64

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group._bloom import MOST_BITS, MOST_HASHES, BloomMaker, StoredBloom

Kind = Literal["SIMPLE", "DYNAMIC_V0"]
KINDS: tuple[Kind, ...] = ("SIMPLE", "DYNAMIC_V0")

FILTER_KEY = b"org.apache.hudi.bloomfilter"
OLD_FILTER_KEY = b"com.uber.hoodie.bloomfilter"
KIND_KEY = b"hoodie_bloom_filter_type_code"

# Defaults of writers in Java: sizes in keys, and rate of false positives.
DEFAULT_ENTRIES = 60_000
DEFAULT_MOST_ENTRIES = 100_000
DEFAULT_ERROR_RATE = 1e-9


def bloom_bits(entries: int, error_rate: float) -> int:
    """Return the bits of a row for a number of keys and a rate of false positives.

    Raises:
        ValueError: If `entries` or `error_rate` is out of range, or Java cannot count the bits.

    >>> bloom_bits(60_000, 1e-9)
    2587966
    """
    if entries < 1:
        raise ValueError(f"entries is {entries}; a filter is sized for at least one key")
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate is {error_rate}; give a number between 0 and 1")
    bits = math.ceil(entries * (-math.log(error_rate) / (math.log(2) * math.log(2))))
    if bits > MOST_BITS:
        raise ValueError(
            f"{entries} keys at error_rate={error_rate} take {bits} bits, more than {MOST_BITS}"
        )
    return bits


def bloom_hashes(bits: int, entries: int) -> int:
    """Return the number of positions of a key in a row of some size.

    >>> bloom_hashes(2587966, 60_000)
    30
    """
    return math.ceil(math.log(2) * bits / entries)


def entries_with_room(entries: int, error_rate: float) -> int:
    """Return the number of keys to size a row for, so that an eighth may be added.

    >>> entries_with_room(80, 1e-9)
    90
    """
    most = math.floor(MOST_BITS / bloom_bits(1, error_rate))
    return max(entries, min(entries + entries // 8, most))


class BloomFilter:
    """One stored filter.

    Args:
        data: Stored bytes, not in base64.
        kind: Kind of the filter that the footer names: SIMPLE or DYNAMIC_V0.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the bytes are not a filter of that kind.
        FormatError: If there is no such kind.

    >>> made = BloomFilter.of(pa.array(["k1", "k2"]), kind="SIMPLE")
    >>> made.test(pa.array(["k2", "k3"])).tolist()
    [True, False]
    >>> made.bits, made.hashes, made.rows
    (87, 31, 1)
    """

    def __init__(self, data: bytes, kind: str = "SIMPLE", path: str = "<bloom filter>") -> None:
        if kind not in KINDS:
            raise FormatError(f"{path}: unknown kind of bloom filter: {kind!r}")
        self.kind: Kind = "SIMPLE" if kind == "SIMPLE" else "DYNAMIC_V0"
        self._stored = StoredBloom(data, kind == "DYNAMIC_V0", path)

    @classmethod
    def from_text(
        cls, text: str | bytes, kind: str = "SIMPLE", path: str = "<bloom filter>"
    ) -> BloomFilter:
        """Read the base64 text of a footer.

        Raises:
            CorruptionError: If the text is not base64, or its bytes are not a filter of that kind.
            FormatError: If there is no such kind.

        >>> BloomFilter.from_text("/////wAAAAEBAAAACAE=").bits
        8
        """
        try:
            data = pybase64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptionError(path, 0, "base64 of a bloom filter", str(error)) from error
        return cls(data, kind, path)

    @classmethod
    def from_footer(
        cls, metadata: Mapping[bytes, bytes] | None, path: str = "<bloom filter>"
    ) -> BloomFilter | None:
        """Read the filter in a Parquet footer's key/value metadata. None: it has none.

        Raises:
            CorruptionError: If the entry is not a filter.
            FormatError: If the filter is of an unknown kind.

        >>> made = BloomFilter.of(pa.array(["k1"]))
        >>> BloomFilter.from_footer(made.footer()).to_bytes() == made.to_bytes()
        True
        """
        metadata = metadata or {}
        text = metadata.get(FILTER_KEY, metadata.get(OLD_FILTER_KEY))
        if text is None:
            return None
        kind = metadata.get(KIND_KEY, b"SIMPLE").decode("utf-8", "replace")
        return cls.from_text(text, kind, path)

    @classmethod
    def of(
        cls,
        keys: pa.Array | pa.ChunkedArray,
        *,
        error_rate: float = DEFAULT_ERROR_RATE,
        kind: Kind = "DYNAMIC_V0",
    ) -> BloomFilter:
        """Make a filter of exactly these keys: one row, sized for their number.

        Args:
            keys: Keys, string or binary, none of them null or empty.
            error_rate: Rate of false positives.
            kind: Kind of the filter.

        Raises:
            ValueError: If a key is null or empty, or the filter would be too large.

        >>> BloomFilter.of(pa.array(["k1", "k2", "k3"])).test(pa.array(["k3"])).tolist()
        [True]
        """
        builder = BloomBuilder(max(1, len(keys)), error_rate=error_rate, kind=kind)
        builder.add(keys)
        return builder.finish()

    @property
    def bits(self) -> int:
        """Return the size of a row in bits."""
        return self._stored.bits

    @property
    def hashes(self) -> int:
        """Return the number of positions of a key."""
        return self._stored.hashes

    @property
    def hash(self) -> Literal["murmur", "jenkins"]:
        """Return the name of the hash with which positions are computed."""
        return "jenkins" if self._stored.jenkins else "murmur"

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._stored.rows

    @property
    def row_keys(self) -> int | None:
        """Return the number of keys after which a row is added; None for SIMPLE."""
        return self._stored.row_keys or None

    @property
    def last_keys(self) -> int | None:
        """Return the recorded number of keys in the last row; None for SIMPLE."""
        return self._stored.last_keys if self._stored.dynamic else None

    @property
    def nbytes(self) -> int:
        """Return the size of the stored bytes."""
        return len(self._stored.data)

    def test(self, keys: pa.Array | pa.ChunkedArray | BinaryColumn) -> npt.NDArray[np.bool_]:
        """Return whether each key may be in the file.

        Args:
            keys: Keys: string, large_string, binary, large_binary or a view of these; or a
                `BinaryColumn`, which is made once for many filters.

        Returns:
            A boolean array: False where the key is certainly absent.

        Raises:
            ValueError: If a key is null or empty.

        >>> BloomFilter.of(pa.array(["k1"])).test(pa.array(["k0", "k1"])).tolist()
        [False, True]
        """
        return self._stored.test(_column(keys))

    def select(
        self, keys: pa.Array | pa.ChunkedArray | BinaryColumn, rows: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.uint32]:
        """Return the given rows whose keys may be in the file.

        The keys are not copied: of a thousand files, each tests its candidates in one array.

        Args:
            keys: Keys: string, large_string, binary, large_binary or a view of these; or a
                `BinaryColumn`, which is made once for many filters.
            rows: Rows of `keys`, in any order.

        Raises:
            IndexError: If `keys` does not have one of the rows.
            ValueError: If a key of the rows is null or empty.

        >>> keys = pa.array(["k0", "k1", "k2"])
        >>> BloomFilter.of(keys[1:]).select(keys, np.array([2, 0], np.uint32)).tolist()
        [2]
        """
        return self._stored.select(_column(keys), rows)

    def to_bytes(self) -> bytes:
        """Return the stored bytes.

        >>> BloomFilter.of(pa.array(["a"]), kind="SIMPLE", error_rate=0.1).to_bytes().hex(" ")
        'ff ff ff ff 00 00 00 04 01 00 00 00 05 1c'
        """
        return self._stored.data

    def to_text(self) -> str:
        """Return the stored bytes in base64, as in a footer.

        >>> BloomFilter.from_text("/////wAAAAEBAAAACAE=").to_text()
        '/////wAAAAEBAAAACAE='
        """
        return pybase64.b64encode(self._stored.data).decode("ascii")

    def footer(self) -> dict[bytes, bytes]:
        """Return the entries of a Parquet footer's metadata that contain this filter.

        >>> sorted(BloomFilter.of(pa.array(["k1"])).footer())
        [b'hoodie_bloom_filter_type_code', b'org.apache.hudi.bloomfilter']
        """
        entries = {FILTER_KEY: self.to_text().encode("ascii")}
        if self.kind != "SIMPLE":  # Java names no kind for a SIMPLE filter
            entries[KIND_KEY] = self.kind.encode("ascii")
        return entries

    def __reduce__(self) -> tuple[type[BloomFilter], tuple[bytes, Kind]]:
        return BloomFilter, (self._stored.data, self.kind)

    def __repr__(self) -> str:
        return f"BloomFilter({self.kind}, {self.rows} x {self.bits} bits, {self.hashes} hashes)"


class BloomBuilder:
    """A filter that grows with batches of keys, by Java's rules.

    Args:
        entries: Number of keys that a row is sized for.
        error_rate: Rate of false positives of a row with that many keys.
        most_entries: Number of keys from which on a DYNAMIC_V0 filter adds no row. Later keys are
            added to the rows in turn, and false positives increase.
        kind: Kind of the filter. SIMPLE has one row for any number of keys.

    Raises:
        ValueError: If a number is out of range, or the filter would be too large.

    >>> builder = BloomBuilder(2, most_entries=4)
    >>> builder.add(pa.array(["k1", "k2"]))
    >>> builder.add(pa.array(["k3"]))
    >>> builder.finish()
    BloomFilter(DYNAMIC_V0, 2 x 87 bits, 31 hashes)
    """

    def __init__(
        self,
        entries: int = DEFAULT_ENTRIES,
        *,
        error_rate: float = DEFAULT_ERROR_RATE,
        most_entries: int = DEFAULT_MOST_ENTRIES,
        kind: Kind = "DYNAMIC_V0",
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; give SIMPLE or DYNAMIC_V0")
        bits = bloom_bits(entries, error_rate)
        hashes = bloom_hashes(bits, entries)
        if hashes > MOST_HASHES:
            raise ValueError(f"error_rate={error_rate} takes {hashes} hashes per key")
        self._kind: Kind = kind
        if kind == "SIMPLE":
            self._maker = BloomMaker(bits, hashes)
        else:
            # Java adds a row as long as `rows * entries < most_entries`.
            self._maker = BloomMaker(bits, hashes, entries, max(1, -(-most_entries // entries)))

    @classmethod
    def continuing(cls, bloom: BloomFilter) -> BloomBuilder:
        """Return a builder that begins with the keys of another filter.

        No row is added to the filter.

        Raises:
            ValueError: If the other filter has several rows.

        >>> builder = BloomBuilder.continuing(BloomFilter.of(pa.array(["k1"])))
        >>> builder.add(pa.array(["k2"]))
        >>> made = builder.finish()
        >>> made.test(pa.array(["k1", "k2", "k3"])).tolist(), made.last_keys
        ([True, True, False], 2)
        """
        builder = cls.__new__(cls)
        builder._kind = bloom.kind
        builder._maker = BloomMaker.continuing(bloom._stored)
        return builder

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add keys.

        Raises:
            ValueError: If a key is null or empty. None of the keys is added.

        >>> BloomBuilder(10).add(pa.array(["k1", None]))
        Traceback (most recent call last):
        ValueError: keys[1] is null; a record key is a string
        """
        self._maker.add(BinaryColumn(keys))

    def finish(self) -> BloomFilter:
        """Return the filter of all keys so far.

        >>> BloomBuilder(10).finish().test(pa.array(["k1"])).tolist()
        [False]
        """
        return BloomFilter(self._maker.finish(), self._kind)


def _column(keys: pa.Array | pa.ChunkedArray | BinaryColumn) -> BinaryColumn:
    return keys if isinstance(keys, BinaryColumn) else BinaryColumn(keys)
