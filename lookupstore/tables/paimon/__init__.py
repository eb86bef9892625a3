"""Paimon tables: which data files a snapshot has, and which of their rows count.

Paimon's own library, `pypaimon`, needs a pyarrow before 20. Therefore its metadata is read here.

- `planner`: the files of a snapshot, and what is refused
- `commits`: the snapshots, and the newest one up to a time
- `opened`: tables of pypaimon, and the snapshot that their options choose
- `metadata`: snapshots, schemas and manifests
- `avro_file`: the records of a manifest
- `binary_row`: values of partitions and keys in manifests
- `columns`: columns of files that were written with an older schema
- `merge`: rows of a bucket that rows of other files replace
- `engine`, `functions`: how the rows of a key become one, by the options of the table
- `merged_rows`: rows that are made of those of several files
- `row_order`: which row of a key is the newer
- `deletion_vectors`: rows that are deleted by position
"""
