"""What is known of the columns of each file, and the files that it leaves out.

`file_statistics` is what one file has (`verification`: and its rows), `table_statistics` a version
of all, `versions` where these are, `keeping` how writes keep them current, `usable` what readers
get of them. `column_bounds` answers
for many files at once, `skipping` has the files that a filter leaves, and `guarantees` the same for
Arrow's datasets.
"""
