"""Typed columns to the bytes of a row, and back.

`schema` is the door: `RowSchema` packs and reads rows. `layout` has a codec for each type, nested
ones included, and `_codec` the loops in C.
"""
