"""Who may complete an instant, and who is alive.

`lock` holds the lock of a table, `owner` says whose it is; `lookupstore.storage.lock_file` is the
file that it is.
`heartbeat` tells others that a writer lives; `renewal` renews both in the background.
"""
