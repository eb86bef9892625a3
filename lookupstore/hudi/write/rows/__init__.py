"""Rows on their way into files, where they are and in which order.

`in_memory` are those of this process; `spilled` those for which it has no memory: `parts` is how
they come, one of each key stays as `combined` says, and `packing` makes bytes of them. `sorted`
orders those of a bulk insert; `staged` are those that other processes have for the one that writes,
and `stored` those of the table that a write deletes where they are.
"""
