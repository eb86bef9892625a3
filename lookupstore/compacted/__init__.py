"""Columns to rows as Apache Paimon's RowCompactedSerializer writes them, and back.

`rows` is the door: `CompactedRows` encodes and decodes. `schema` says which Arrow type is which
type of Paimon's, and `_codec` has the buffers; the bytes are in ``csrc/ls_compacted.h``.
"""
