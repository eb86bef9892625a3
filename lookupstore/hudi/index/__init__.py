"""Who has this key: the base files and rows of record keys.

`tagging` asks an index for the places of keys, `row_tags` of rows. `interface` is what an index is
(`KeyIndex`), `names` finds one by its name: one of ours, or a class of the caller.
`wanted_keys` and `key_check` compare keys with files, `funnel` counts what each step left over.
"""
