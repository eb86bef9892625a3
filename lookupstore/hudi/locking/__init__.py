"""Locks of tables, owners of pending instants, and whether an owner is alive.

`lock` holds the lock of a table, `places` are the files of the lock, and `owner` identifies a
writer. `lookupstore.storage.lock_file` is one such file. `heartbeat` shows other writers that a
writer is alive, and `renewal` renews both in the background.
"""
