"""Storage of files: local disks, object stores, and the failures on the way there.

`location` defines what every place does: list, read, write a new file in one step, delete. `local`
and `object_store` implement it, and no caller asks which of them it has. `file_address` is the
address of a columnar file, and `file_identity` tells a file from others of the same path. `trees`
lists folders below folders, and `lock_file` is a file that one owner holds. `inside` is the only
way from a name in a file to a path, and `regular_file` opens nothing else. `uris` knows the secret
parts of a URI; `conditional_puts` and `azure_credentials` provide what some object stores need.
`output` writes a local file that shows only when it is complete, and `naming` makes and recognizes
its name until then. `remote_file` reads ranges of an object, `small_files` reads whole files of a
bounded size. `read_errors` gives the meaning of Arrow's errors, `json_text` reads JSON of other
programs, `descriptors` keeps open files within the limit of the process, and `home` expands `~`.
"""
