"""Encode typed columns as keys, which are bytes of the same order; decode them.

`KeySchema` in `schema` encodes and decodes columns. Each type of key is a subclass of `KeyField` in
`fields`. These classes are in `numbers`, `times` and `binaries`, and `types` finds one. `casts`
casts columns to the types of the store, and `arguments` reads the keys that callers pass. `_codec`
encodes and decodes in C, row by row.
"""
