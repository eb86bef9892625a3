"""One sorted file of keys and values: bytes in, bytes out.

    >>> from lookupstore.sst import Reader, Writer
    >>> with Writer("cities.sst") as writer:
    ...     writer.put(b"berlin", b"3.9")
    ...     writer.put(b"paris", b"2.1")
    >>> with Reader("cities.sst") as reader:
    ...     reader.get(b"paris")
    ...     reader.lookup([b"paris", b"rome"]).to_pylist()
    b'2.1'
    [b'2.1', None]

A file is written once, in key order, and never changes. Two dialects share the same blocks:
``native`` (every byte checksummed, the file knows its own schema) and ``paimon`` (the bytes that
Java Paimon writes). ``docs/reference/format.md`` describes both to the byte.

``writer`` and ``reader`` are based on ``format`` (the dialects as data) and ``codec`` (blocks to
payloads). ``stored`` checks every handle and checksum that the reader follows, ``opening`` reads
what a file contains besides its records, ``scans`` the records in key order, and ``verification`` a
whole file. ``typed`` makes columns of the keys and values of Paimon files, for the typed reader and
writer in ``typed_reader`` and ``typed_writer``. ``layers`` combines the files of several buckets,
which then answer lookups like one file.

The extensions do all work on single keys. ``_data_blocks`` reads and prepares blocks in a
``_table``, and ``_making_places`` replaces that table by one with the places of all records.
``_lookup`` finds one key. ``_batch`` finds many in the files of a ``_layer``, with ``_stretch`` for
runs of changes and ``_missing`` for blocks that are not ready. ``_hits`` finds them in files whose
ranges of keys overlap; ``owners`` and ``_owners`` have tables of which of these files has a key.
"""

from lookupstore.sst.format import Info
from lookupstore.sst.reader import Reader
from lookupstore.sst.writer import Writer

__all__ = ["Info", "Reader", "Writer"]
