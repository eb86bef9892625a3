"""Joining a DataFrame with a store, in Spark's Python workers.

`join` is `lookup_join`: it makes a `plan` and an expression of Spark. `worker` answers batches of
keys, with what `task` keeps open in the process. `freshness` says which version answers, `metrics`
what was counted, and `explain` what a join would do.
"""
