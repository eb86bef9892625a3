"""Order rows by several columns at once.

`layout.Layout` learns an order from a sample, and gives each row its position. The order is one of
`linear`, `on_curve` and `grid`. `column` has the values and boundaries of one column, `written`
writes values as JSON, and `_curve` is the core in C.
"""
