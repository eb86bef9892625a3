"""Convert Arrow arrays to the forms that keys, rows and C need.

`_binary` passes the buffers of Arrow arrays to C, and makes arrays of the buffers that C writes.
`types` finds the plain type inside dictionaries, extensions and views, and restores these. `frames`
converts data frames of pandas and polars to tables.
"""
