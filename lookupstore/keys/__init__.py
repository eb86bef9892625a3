"""Typed columns to keys that are bytes in the same order, and back.

`schema` is the door: `KeySchema` encodes and decodes columns. `fields` has a class for each type of
key, `values` for Python values, `casts` brings columns of other types to those of the store, and
`arguments` understands what callers give as keys. `_codec` does it in C, row by row.
"""
