"""The rows of a write, until they are written to files.

`in_memory` has rows in memory, and `spilled` those that do not fit: `parts` reads them in parts,
`combined` keeps one row of each key, and `packing` converts rows to bytes. `sorted` and `in_layout`
sort the rows of a bulk insert, and `key_texts` checks keys. `staged` has rows from other processes,
and `stored` has stored rows whose places are known.
"""
