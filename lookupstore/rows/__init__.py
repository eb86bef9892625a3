"""Pack typed columns as the bytes of rows, and unpack them.

`RowSchema` in `schema` packs and reads rows. `layout` contains a codec for each type, including
nested ones, and `_codec` the loops in C.
"""
