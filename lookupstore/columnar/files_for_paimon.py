"""Write the lookup files of Apache Paimon for columnar files that answer lookups here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.followed_files import FollowedFiles
from lookupstore.columnar.paimon_files import plan_paimon_file, write_paimon_file
from lookupstore.compacted.schema import Types, arrow_schema
from lookupstore.errors import FormatError
from lookupstore.progress import Advance
from lookupstore.quantities import Size, bytes_of
from lookupstore.sorting.runs import Keep
from lookupstore.sst.typed import KIND, SEQUENCE
from lookupstore.storage.location import Location, as_location
from lookupstore.store.data_files import FileOptions


class FilesForPaimon(FollowedFiles):
    """Lookups in columnar files, of which Paimon's lookup files can be written."""

    _columns: list[str] | None
    _rows_left: str
    _rule: Keep
    _table: str | None

    def write_paimon_files(
        self,
        folder: str | os.PathLike[str] | Location,
        *,
        types: Types | None = None,
        sequence: str | int = SEQUENCE,
        kind: str | int = KIND,
        compression: str = "zstd",
        level: int | None = None,
        block_size: Size = 65536,
        bloom_fpp: float = 0.05,
        overwrite: bool = False,
        threads: int = 1,
        progress: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Write the lookup file of Apache Paimon for each columnar file.

        Its name is ``DATAFILE.BYTES.MODE.v1.lookup``, which Paimon looks for next to the data file.
        `lookupstore.sst.Reader` opens it with the same types. Rows that are not in the order of
        Paimon's keys, nulls first, are sorted within `memory`. Values are whole rows with the key
        columns, or the columns of `columns`. Paimon names the modes `value`, `position`,
        ``position-and-value`` (for `value_and_position`) and ``empty`` (for `presence`).

        Args:
            folder: Folder or URI for the files. A missing folder is created.
            types: Types of the columns of the table, as an Arrow schema or as the fields in a
                schema file of Paimon. A key column ``_KEY_x`` has the type of ``x``. Default: the
                types and the order of the columns in the files.
            sequence: Column of the sequence numbers, or one number for all rows.
            kind: Column of the row kinds (0 +I, 1 -U, 2 +U, 3 -D), or one kind for all rows.
            compression: Codec of the blocks; see `lookupstore.sst.Writer`. Default: zstd, as in
                Paimon.
            level: Level of the compression. Default: that of the codec; for zstd 1, as in Paimon.
            block_size: Size of a block before compression, in bytes or as a text.
            bloom_fpp: False positive rate of the filter; 0 writes no filter.
            overwrite: Whether to replace files that were made of the same columnar files.
            threads: Number of files to make at the same time, each with `memory` for its rows.
            progress: Whether to show a progress bar. Default: on a terminal or in a notebook.
            storage_options: Options of the URI of the folder, such as credentials; see
                `lookupstore.Location`.

        Returns:
            Names of the files in the folder, in the order of the paths of the columnar files.

        Raises:
            KeyError: If a file, or `types`, lacks a column.
            TypeError: If the type of a column does not exist in rows of Paimon.
            ValueError: If a type cannot hold a value, a null is where none may be, a key is
                repeated under the rule `error`, or two columnar files have the same name.
            FileExistsError: If a file exists, and `overwrite` is false.
            StaleStoreError: If a columnar file was written again, or is gone.
            CorruptionError: If a columnar file is damaged.
            FormatError: If the source is a Delta or Iceberg table, or has a filter.

        Source: LookupLevels and RemoteLookupFileManager of Apache Paimon.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
        >>> from lookupstore.columnar import ColumnarFiles
        >>> from lookupstore.sst import Reader
        >>> folder = tempfile.mkdtemp()
        >>> rows = {"id": [2, 1], "name": ["b", "a"], "_SEQUENCE_NUMBER": [5, 9]}
        >>> pq.write_table(pa.table(rows), f"{folder}/data-1.parquet")
        >>> with ColumnarFiles(f"{folder}/data-1.parquet", key="id") as files:
        ...     (name,) = files.write_paimon_files(folder, kind=0)
        >>> keys = pa.schema([("_KEY_id", pa.int64())])
        >>> values = pa.schema([("id", pa.int64()), ("name", pa.string())])
        >>> Reader(f"{folder}/{name}", key_types=keys, value_types=values).get(2)
        {'id': 2, 'name': 'b', '_SEQUENCE_NUMBER': 5, '_VALUE_KIND': 0}
        """
        if self._rows_left:
            those = (
                "with where=, which leaves out rows; open the files without it"
                if self._table is None
                else f"for data files of a {self._table}"
            )
            raise FormatError(f"{self.path}: Paimon's lookup files cannot be written {those}")
        for argument, given, most in (("sequence", sequence, (1 << 63) - 1), ("kind", kind, 3)):
            if not isinstance(given, str) and not 0 <= given <= most:
                raise ValueError(
                    f"{argument} is {given}; give a column, or a number from 0 to {most}"
                )
        schema = None if types is None else arrow_schema(types)
        plans = {
            lookup: plan_paimon_file(
                lookup.plan.source, self.key, self._columns, schema, self.mode, sequence, kind,
                self._rule,
            )
            for lookup in self._lookups
        }  # fmt: skip
        bases = [os.path.basename(plan.source.path) for plan in plans.values()]
        for base, count in Counter(bases).items():
            if count > 1:
                raise ValueError(
                    f"source: {count} files are called {base}; write those of each "
                    "folder into a folder of their own"
                )
        location = as_location(folder, storage_options)
        options = FileOptions(compression, level, bytes_of(block_size, "block_size"), bloom_fpp)
        location.make_folder("")
        written: dict[FileLookup, str] = {}

        def one(lookup: FileLookup, _: Advance) -> None:
            plan = plans[lookup]
            written[lookup] = write_paimon_file(plan, location, options, self._memory, overwrite)

        self._each(one, threads, progress, "Writing Paimon's lookup files")
        return [written[lookup] for lookup in self._lookups]
