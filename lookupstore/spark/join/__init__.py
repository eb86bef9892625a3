"""Joining a DataFrame with stores, in Spark's Python workers.

`join` is `lookup_join` and `lookup_joins`: a `request` becomes a `plan`, and plans that can go
together one `trip`, an expression of Spark. `worker` answers batches of keys, with what `task`
keeps open in the process. `freshness` says which version answers, `metrics` what was counted, and
`explain` what a join would do.
"""
