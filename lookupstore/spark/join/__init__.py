"""Joining a DataFrame with stores, in Spark's Python workers.

`join` contains `lookup_join` and `lookup_joins`. A `request` becomes a `plan`, and plans that can
be combined become one `trip`, an expression of Spark. `worker` answers batches of keys with the
files that `task` keeps open in the process. `freshness` chooses the version that answers, `metrics`
adds up counts, and `explain` describes a join without running it.
"""
