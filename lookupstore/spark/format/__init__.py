"""`spark.read.format("lookupstore")` and `df.write.format("lookupstore")`.

`source` scans stores, with filters that become ranges of keys (`filters`). `sink` writes one, by
`options`.
"""
