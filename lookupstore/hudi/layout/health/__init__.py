"""What queries read, before anything is rewritten.

`known_bounds` are statistics, or else footers, `spread` how rows lie between them, `layout_health`
the shares of files read, `picture` files as boxes.
"""
