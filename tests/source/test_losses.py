"""The list of what sources may lose: each line is tried here, or by a test that is named.

Spark's lines that need a session are tried in `tests/spark/test_losses.py`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.orc_files import LONG, STRUCT, Kind, OrcFile, message

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.errors import FormatError
from lookupstore.source.losses import EXACT, LOSSES, NOTED, REFUSED
from lookupstore.source.opening import open_source

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "sources"

# Lines that other tests show, by their files and names.
SHOWN = """
JSON lines: fields that a row lacks, and other rows have | hudi/write/test_missing_columns.py::test_lines_of_json_that_lack_a_field_keep_no_value
every source: text that is not UTF-8 | arrow/test_texts.py::test_the_error_names_column_row_and_remedy
Parquet: INT96 timestamps | source/test_foreign_files.py::test_int96_is_an_instant_in_microseconds
Parquet: nanoseconds in INT96 | source/test_foreign_files.py::test_int96_with_nanoseconds_is_refused_by_row
Parquet: Spark's old calendar: dates before 1582-10-15, times before 1900 | source/test_foreign_files.py::test_days_of_sparks_old_calendar
Parquet: UUID and JSON | source/test_foreign_files.py::test_uuid_and_json_of_duckdb
Parquet: groups without fields | source/test_foreign_files.py::test_groups_of_nothing_are_left_out
Parquet: unknown fields of the footer | source/test_foreign_files.py::test_the_extension_of_databricks_footers_is_passed_over
Parquet: keys behind a Bloom filter that contradicts the footer | source/test_foreign_files.py::test_a_bloom_filter_that_contradicts_its_footer_hides_no_key
Parquet: encrypted files and columns | source/test_foreign_files.py::test_encrypted_files_are_unsupported
Parquet: null arrays as DuckDB writes them | source/test_foreign_files.py::test_what_arrow_does_not_read_is_not_damaged
ORC: timestamps before 1677 and after 2262 | source/test_foreign_files.py::test_far_timestamps_of_orc_are_refused_by_row_and_column
ORC: Java's old calendar: dates before 1582-10-15 | orc/test_calendars.py::test_days_that_spark_writes_are_refused_by_row_and_column
ORC: timestamps written in another time zone | source/test_foreign_files.py::test_seconds_of_java_near_1970_are_those_of_its_clock
ORC: encodings that are not known | source/test_foreign_files.py::test_an_unknown_encoding_is_none_as_protobuf_has_it
ORC: files compressed with LZO or Brotli | orc/test_claims.py::test_lzo_is_refused_by_name
Parquet, ORC: two columns of one name | source/test_foreign_files.py::test_two_columns_of_one_name_that_nobody_asks_for
Parquet, ORC: files below 1 MiB with hundreds of MiB of rows | parquet/test_claims.py::test_what_does_not_fit_is_an_error
Parquet, ORC: Spark's intervals | spark/test_losses.py::test_intervals_are_integers_in_files
Arrow IPC: Feather of version 1 | source/test_streams.py::test_what_is_refused
CSV: codes such as 02134, +49, 0x1f and 12E3 | source/test_streams.py::test_what_text_becomes
CSV: integers beyond int64 | source/test_streams.py::test_what_text_becomes
CSV: later values of another type | source/test_streams.py::test_a_later_value_of_another_type_is_an_error
CSV: quotes inside a field, such as 5" pipe | source/test_csv_rows.py::test_inch_marks_and_quoted_line_breaks_in_pieces
CSV: rows with more or fewer fields than names | source/test_csv_rows.py::test_errors_name_the_row_of_the_file
CSV: quotes not closed at the end of a field | source/test_csv_rows.py::test_errors_name_the_row_of_the_file
CSV: fields separated by semicolons or vertical bars | source/test_streams.py::test_what_is_refused
CSV: two columns without a name, as below a title | source/test_streams.py::test_what_is_refused
JSON lines: integers beyond int64 | source/test_json_rows.py::test_integers_are_exact
JSON lines: integers that float64 cannot represent, next to floats | source/test_json_rows.py::test_random_integers_are_exact_or_refused
JSON lines: texts and numbers in one column | source/test_json_rows.py::test_texts_and_numbers_in_one_column
JSON lines: arrays, or one array of all rows | source/test_streams.py::test_what_is_refused
JSON lines: times | source/test_streams.py::test_times_in_json_are_texts
every source: more than 100 levels of lists, structs and maps | source/test_text_limits.py::test_what_no_store_can_hold_names_file_and_column
JSON lines: rows that nest more than 256 brackets | source/test_text_limits.py::test_the_row_that_nests_too_deeply_is_named
CSV, JSON lines: values of more than 64 MiB | source/test_text_limits.py::test_a_bomb_takes_little_memory
CSV, JSON lines: rows of more than 1 GiB | source/test_text_limits.py::test_the_limits_by_default
compressed CSV, JSON lines: rows above 64 MiB and 100 times the size of the file | source/test_text_limits.py::test_a_row_in_few_compressed_bytes
CSV, JSON lines: text in Latin-1 or UTF-16 | source/test_csv_rows.py::test_text_that_is_not_read
pandas: integers beyond 64 bits | arrow/test_frames.py::test_errors_of_pandas_columns_name_them
pandas: objects of several types | arrow/test_frames.py::test_errors_of_pandas_columns_name_them
pandas, dict: other objects beside dates or times | arrow/test_objects.py::test_other_objects_beside_dates_and_times_are_refused
polars: Int128, UInt128, Object | arrow/test_frames.py::test_what_arrow_does_not_have_is_refused_by_name
DuckDB relation: BIT, TIMETZ, UHUGEINT, BIGNUM, VARIANT | arrow/test_relations.py::test_types_that_arrow_does_not_have
DuckDB relation: HUGEINT, UUID, JSON | arrow/test_relations.py::test_other_types_are_exact
DuckDB relation: numbers of 39 digits in HUGEINT, the time 24:00 | arrow/test_relations.py::test_values_that_arrow_does_not_have
folders: files next to `name=value` folders, `Day=` next to `day=` | source/test_folders.py::test_every_reader_refuses_the_same
folders: files that are neither Parquet nor ORC | source/test_folders.py::test_every_reader_refuses_the_same
folders: values that the type in the first file cannot hold | source/test_errors.py::test_the_file_and_column_of_another_type_are_named
Delta: a path into a table | source/test_tables_as_sources.py::test_a_part_of_a_delta_table_is_refused_with_its_rows
Delta: an empty text in a partition column | tables/test_delta.py::test_an_empty_text_of_a_partition_is_null
Delta: reader features other than those above | tables/test_delta.py::test_what_is_not_supported_is_named
Delta: columns of type VARIANT | tables/test_delta.py::test_what_is_not_supported_is_named
Delta: partition columns of type binary | tables/test_delta.py::test_what_is_not_supported_is_named
Delta: files outside the table, as in shallow clones | tables/test_delta.py::test_what_is_not_supported_is_named
Delta: deletion vectors that deltalake does not return | tables/test_delta.py::test_what_is_not_supported_is_named
Delta: a file system with other options than S3 | tables/test_delta.py::test_a_table_in_a_file_system_that_deltalake_may_not_open_is_refused
Delta, Iceberg: deleted rows; columns that were renamed, added or widened | tables/test_iceberg.py::test_every_snapshot_of_a_random_history_is_what_pyiceberg_reads
Delta, Iceberg, Paimon: `on_duplicate="first"` or `"last"` | source/test_tables_as_sources.py::test_a_delta_table_with_deletion_vectors_lacks_the_deleted_rows
Iceberg: Avro files | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: encrypted files | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: compressed deletion vectors, or compressed footers of their files | tables/test_puffin.py::test_what_is_compressed_is_refused_by_name
Iceberg: equality deletes on a nested or dropped column | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: files without field ids, if the table has no name mapping | tables/test_iceberg.py::test_columns_of_files_without_field_ids_are_found_by_the_name_mapping
Iceberg: scans with a limit | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: filters on a struct field | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: pyiceberg before 0.12 | tables/test_iceberg.py::test_what_is_not_supported_is_named
Iceberg: a file system other than S3, by its path | tables/test_iceberg.py::test_a_table_in_a_file_system_that_pyiceberg_may_not_open_is_refused
tables, sets of paths: an upsert of a key with several rows that differ | source/test_tables_as_sources.py::test_repeated_keys_of_rows_without_order_are_not_decided_by_chance
Iceberg: a path into a table, or to one of a catalog | source/test_tables_as_sources.py::test_an_iceberg_table_is_refused_with_its_rows
Hudi: a path inside a table, or a table in a list with other paths | source/test_tables_as_sources.py::test_a_part_of_a_hudi_table_is_refused
Hudi: custom merge rules, partial updates or CDC blocks in log files | hudi/log/test_merge_on_read.py::test_blocks_that_are_not_read_are_refused_by_name
Paimon: a path into a table | source/test_tables_as_sources.py::test_a_part_of_a_paimon_table_is_refused
Paimon: replaced and deleted rows; columns that were renamed, added or widened | tables/test_paimon.py::test_every_snapshot_of_a_random_history_is_merged
Paimon: rows that `partial-update` and `aggregation` make of several | tables/test_paimon_engines.py::test_every_snapshot_of_a_random_history_has_the_rows_of_the_rules
Paimon: a branch by its name in a catalog, such as `users$branch_b` | tables/test_paimon_branches.py::test_the_name_of_a_branch_in_a_catalog_is_refused_with_its_folder
Paimon: a table of pypaimon with other options than [these](#tables-of-pypaimon) | tables/test_pypaimon_tables.py::test_options_that_are_not_known_are_refused_by_name
Paimon: a table of pypaimon in a REST catalog | tables/test_pypaimon_tables.py::test_file_systems_and_catalogs_of_pypaimon_are_refused
Paimon: a table of pypaimon in a file system that pyarrow does not have | tables/test_pypaimon_tables.py::test_file_systems_and_catalogs_of_pypaimon_are_refused
Paimon: a tag by its file | tables/test_paimon_branches.py::test_a_tag_keeps_its_snapshot
Paimon: aggregate functions that are not listed above | tables/test_paimon_engines.py::test_what_is_not_merged_is_refused_by_name
Paimon: deletes that no option handles, or that a function cannot retract | tables/test_paimon_engines.py::test_deletions_that_nothing_says_how_to_merge_are_refused
Paimon: sums and products that overflow the type of the column | tables/test_paimon_engines.py::test_a_number_that_its_type_does_not_hold_is_an_error
Paimon: empty or blank texts that `listagg` merges | tables/test_paimon_engines.py::test_empty_texts_are_not_listed
Paimon: two rows of one key in a file that is merged with others | tables/test_paimon_engines.py::test_a_file_must_have_its_keys_in_order_and_once
Paimon: options that change which rows are read, such as `record-level.expire-time` | tables/test_paimon.py::test_options_that_change_what_is_read_are_refused_by_name
Paimon: postponed buckets (`bucket` = -2) | tables/test_paimon.py::test_options_that_change_what_is_read_are_refused_by_name
Paimon: columns of type VARIANT, BLOB or VECTOR | tables/test_paimon.py::test_types_that_are_not_read_are_refused_by_name
Paimon: timestamps finer than microseconds | tables/test_paimon.py::test_types_that_are_not_read_are_refused_by_name
Paimon: type changes other than widening | tables/test_paimon.py::test_types_become_wider_or_are_refused
Paimon: a key or sequence of floats | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: partition columns of timestamps, decimals, floats or bytes | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: files outside its folder (external paths) | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: files with some of the columns (data evolution) | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: Avro files | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: CHAR, TIME and timestamps with a time zone in ORC files | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: deleted rows with the merge engine `first-row` | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: deletion vectors that `deletion-vectors.enabled` turns off | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: two rows with one key and one sequence number | tables/test_paimon.py::test_files_that_are_not_read_are_refused_by_name
Paimon: newer versions of metadata files | tables/test_paimon.py::test_newer_versions_of_the_format_are_refused
Paimon: deletion vectors or `first-row`: rows not yet compacted | tables/test_paimon.py::test_a_first_row_is_what_was_compacted
sink of a Spark stream: a path to a sink or into one | source/test_tables_as_sources.py::test_the_sink_of_a_stream_is_refused
Spark: text of a collation, as a key or a stored column | spark/join/test_files.py::test_text_of_a_collation_is_no_key
Spark: the collation of an argument of `register_lookup` | spark/test_losses.py::test_a_function_compares_collated_text_as_bytes
Spark: VARIANT, intervals of years or of the calendar | spark/test_losses.py::test_types_that_spark_does_not_give_to_arrow
Spark: ORC timestamps, where the zone of the JVM is not UTC | spark/build/test_build.py::test_times_of_orc_are_those_of_its_clock
Spark: stored times finer than a microsecond | spark/join/test_join.py::test_parts_of_microseconds_are_an_error
upsert: values that the type of the store cannot hold | store/test_change_shapes.py::test_a_value_that_does_not_fit_is_named_with_its_row
upsert: columns of another kind, such as text for numbers | store/test_change_shapes.py::test_a_type_of_another_meaning_is_refused
upsert: columns that the store lacks | store/test_change_shapes.py::test_a_column_that_the_store_lacks_is_an_error
"""  # noqa: E501


def rows(source: Any) -> list[dict[str, Any]]:
    opened = open_source(source)
    batches = opened.batches(opened.schema.names)
    return pa.Table.from_batches(batches, opened.schema).to_pylist()


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def files(folder: Path, **tables: dict[str, Any]) -> Path:
    """Write Parquet files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def metadata(_: Path) -> None:
    table = pa.table({"id": [1]}).replace_schema_metadata({"by": "me"})
    assert open_source(table).schema.metadata is None


def layouts(folder: Path) -> None:
    arrays = {
        "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays([1], [5]),
    }
    for kind, array in arrays.items():
        with pytest.raises(TypeError, match=f"the column 'v' is .*{kind}"):
            lookupstore.build({"id": [1], "v": array}, folder / kind, key="id")


def interval(folder: Path) -> None:
    path = folder / "f.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, INTERVAL '1 month 2 days 3 ms' AS v) TO '{path}'")
    wanted = b"".join(number.to_bytes(4, "little") for number in (1, 2, 3))
    assert rows(path) == [{"id": 1, "v": wanted}]


def summary(folder: Path) -> None:
    table = pa.table({"id": [1]})
    found: list[pq.FileMetaData] = []
    pq.write_table(table, folder / "a.parquet", metadata_collector=found)
    found[0].set_file_path("a.parquet")
    pq.write_metadata(table.schema, folder / "_metadata", found)
    assert rows(folder) == [{"id": 1}]
    with pytest.raises(FormatError, match=r"a summary of other Parquet files.*give those files"):
        rows(folder / "_metadata")


def encrypted_orc(folder: Path) -> None:
    path = folder / "f.orc"
    orc.write_table(pa.table({"id": [1]}), path)
    assert rows(path) == [{"id": 1}]
    types = [Kind(STRUCT, [1], ["id"]), Kind(LONG)]
    encryption = message([(3, message([(1, 1)]))])
    path.write_bytes(OrcFile(types, [], footer=[(10, encryption)]).to_bytes())
    with pytest.raises(FormatError, match=r"'id' is encrypted; choose other columns"):
        rows(path)


def unknown_orc(folder: Path) -> None:
    path = folder / "f.orc"
    path.write_bytes(OrcFile([Kind(STRUCT, [1], ["id"]), Kind(19)], []).to_bytes())
    with pytest.raises(FormatError, match="a type of ORC that is not known"):
        rows(path)


def ntz_of_spark(_: Path) -> None:
    with ColumnarFiles(GOLDEN / "old-days-of-spark.orc", key="id", columns=["n"]) as opened:
        assert opened.lookup([1]).to_pylist() == [{"n": dt.datetime(1800, 1, 1)}]


def csv_fractions(folder: Path) -> None:
    path = written(folder / "f.csv", b"v\n0.1234567890123456789\n")
    assert rows(path) == [{"v": 0.1234567890123456789}]


def csv_offsets(folder: Path) -> None:
    path = written(folder / "f.csv", b"v\n2020-01-01T00:00:00+01:00\n")
    assert rows(path) == [{"v": dt.datetime(2019, 12, 31, 23, tzinfo=dt.timezone.utc)}]


def csv_lines(folder: Path) -> None:
    assert rows(written(folder / "f.csv", b"v\n1\n\n2\n")) == [{"v": 1}, {"v": 2}]


def json_fractions(folder: Path) -> None:
    path = written(folder / "f.jsonl", b'{"v": 0.1234567890123456789}\n')
    assert rows(path) == [{"v": 0.1234567890123456789}]


def json_fields(folder: Path) -> None:
    first = b'{"id": 1}\n' * 200_000
    path = written(folder / "f.jsonl", first + b'{"id": 1, "v": 2}\n')
    with pytest.raises(ValueError, match=r"row 200001, column 'v'.*explicit_schema"):
        rows(path)


def nan(_: Path) -> None:
    column = np.array([np.nan])
    assert rows(pd.DataFrame({"v": column})) == [{"v": None}]
    assert np.isnan(rows({"v": column})[0]["v"])


def index(_: Path) -> None:
    frame = pd.DataFrame({"v": [1]}, index=["a"])
    assert rows(frame) == [{"v": 1}]
    assert rows(frame.rename_axis("i")) == [{"v": 1, "i": "a"}]


def overflow(_: Path) -> None:
    relation = duckdb.sql("SELECT to_microseconds(9223372036854775807) AS v")
    assert rows(relation)[0]["v"].nanoseconds == -1000
    assert rows(relation.select("v::VARCHAR AS v")) == [{"v": "2562047788:00:54.775807"}]


def after_arrow(_: Path) -> None:
    found = rows(duckdb.sql("SELECT '101'::BIT AS v").arrow())
    assert isinstance(found[0]["v"], bytes)


def numbers(folder: Path) -> None:
    files(folder / "t" / "code=007", a={"id": [1]})
    assert rows(folder / "t") == [{"id": 1, "code": 7}]


def names(folder: Path) -> None:
    files(folder / "t" / "code=7", a={"id": [1], "code": ["other"]})
    assert rows(folder / "t") == [{"id": 1, "code": 7}]


def lacking(folder: Path) -> None:
    given = files(folder / "t", a={"id": [1], "v": [2]}, b={"id": [3]})
    with pytest.raises(ValueError, match=r"b\.parquet lacks the column 'v'"):
        rows(given)
    with ColumnarFiles(given, key="id") as opened:
        assert opened.lookup([1, 3]).to_pylist() == [{"v": 2}, {"v": None}]
    lookupstore.build(given, folder / "s", key="id", columns=[]).close()


def added(folder: Path) -> None:
    given = files(folder / "t", a={"id": [1]}, b={"id": [3], "v": [2]})
    with pytest.raises(
        ValueError, match=r"b\.parquet has the column 'v', which the first .*columns="
    ):
        lookupstore.build(given, folder / "s", key="id")
    lookupstore.build(given, folder / "s", key="id", columns=[]).close()
    with ColumnarFiles(given, key="id") as opened:
        assert opened.lookup([1, 3]).to_pylist() == [{"v": None}, {"v": 2}]
    with lookupstore.build(
        duckdb.read_parquet(f"{given}/*.parquet", union_by_name=True), folder / "united", key="id"
    ) as united:
        assert [united[1], united[3]] == [{"v": None}, {"v": 2}]


def fields(folder: Path) -> None:
    given = files(folder / "t", a={"v": [{"x": 1, "y": 2}]}, b={"v": [{"x": 1}]})
    with pytest.raises(ValueError, match="the column 'v' is struct<x: int64>, but in the first"):
        rows(given)


TRIED: dict[str, Callable[[Path], None]] = {
    "every source: metadata of the schema": metadata,
    "every source: unions and run-end encoded columns": layouts,
    "Parquet: INTERVAL": interval,
    "Parquet: summary files (`_metadata`)": summary,
    "ORC: encrypted columns": encrypted_orc,
    "ORC: types that are not known": unknown_orc,
    "ORC: Spark's TIMESTAMP_NTZ": ntz_of_spark,
    "CSV: fractions with more digits than a float64": csv_fractions,
    "CSV: offsets of timestamps, such as +01:00": csv_offsets,
    "CSV: empty lines": csv_lines,
    "JSON lines: fractions with more digits than a float64": json_fractions,
    "JSON lines: fields that no row of the first megabyte has": json_fields,
    "pandas: NaN in columns of floats": nan,
    "pandas: an index without a name": index,
    "DuckDB relation: INTERVAL with more than 292 years of microseconds": overflow,
    "DuckDB relation: types in this list, after `.arrow()`": after_arrow,
    "folders: values of `name=value` folders such as 007": numbers,
    "folders: columns of files with the names of folder columns": names,
    "folders: columns that a later file lacks": lacking,
    "folders: columns that the first file lacks": added,
    "folders: structs with other fields than in the first file": fields,
}


@pytest.mark.parametrize("line", TRIED)
def test_a_line_is_so(tmp_path: Path, line: str) -> None:
    TRIED[line](tmp_path)


def test_each_line_has_one_test() -> None:
    shown = dict(one.split(" | ") for one in SHOWN.strip().splitlines())
    assert sorted([*shown, *TRIED]) == sorted(f"{one.source}: {one.what}" for one in LOSSES)
    for test in shown.values():
        path, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE), test
    assert {one.outcome for one in LOSSES} == {EXACT, REFUSED, NOTED}
