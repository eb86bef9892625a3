"""Where files are: local disks, object stores, and what may happen on the way there.

`location` says what every place does: list, read, write a new file in one step, delete. `local`
and `object_store` do it; nobody above asks which of them it is. `file_address` is a columnar file
somewhere, and `file_identity` tells it from another one of its path. `trees` looks below folders,
`lock_file` is a file that one owner has.
`inside` is the only way from a name that a file holds to a path, `regular_file` opens nothing else.
`uris` knows which parts of a URI are secrets, `conditional_puts` and `azure_credentials` what some
object stores need. `output` writes a local file that shows only when it is complete, `naming` makes
and knows its name until then, `remote_file` reads ranges of an object, `small_files` whole files of
a bounded size. `read_errors` says what Arrow's errors mean, `json_text` reads JSON of others,
`descriptors` keeps open files within the limit of the process, and `home` expands `~`.
"""
