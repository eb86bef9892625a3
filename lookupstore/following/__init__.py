"""Follow a table: a store gets the rows of its newest snapshot.

- `follow`: the verb, and the store that it returns
- `follower`: what to do: nothing, apply the differences between two snapshots, or build again
- `targets`: the newest moment of a table, and the plan of its rows in the store
- `versions`: a store as the table
- `changes`: the differences between two snapshots, sorted by bucket and key
- `records`: these differences beside the rows of the store, as the records of a run
"""
