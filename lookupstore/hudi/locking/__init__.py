"""Who may complete an instant, and who is alive.

`lock` holds the lock of a table, `places` are the files that it is in, `owner` says whose it is;
`lookupstore.storage.lock_file` is one such file.
`heartbeat` tells others that a writer lives; `renewal` renews both in the background.
"""
