"""Where files are: local disks, object stores, and what may happen on the way there.

`location` is one place with four operations: list, read, write a new file in one step, delete.
`inside` is the only way from a name that a file holds to a path, `regular_file` opens nothing else.
`uris` knows which parts of a URI are secrets, `conditional_puts` and `azure_credentials` what some
object stores need. `output` writes a local file that shows only when it is complete, `remote_file`
reads ranges of an object. `read_errors` says what Arrow's errors mean, `json_text` reads JSON of
others, `descriptors` keeps open files within the limit of the process, and `home` expands `~`.
"""
