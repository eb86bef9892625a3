"""Columns to rows as Apache Paimon's RowCompactedSerializer writes them, and back.

Call `CompactedRows` in `rows` to encode and decode rows. `schema` maps Arrow types to Paimon's
types, `_codec` handles buffers, and ``csrc/ls_compacted.h`` handles the bytes.
"""
