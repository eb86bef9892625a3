"""Typed columns to keys that are bytes in the same order, and back.

`schema` is the door: `KeySchema` encodes and decodes columns. A type of key is one class below that
in `fields`; they are in `numbers`, `times` and `binaries`, and `types` finds one. `casts` brings
columns of other types to those of the store, and `arguments` understands what callers give as keys.
`_codec` does it in C, row by row.
"""
