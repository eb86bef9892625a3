"""What every base file that we write has to be, checked row by row and byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group.bloom import BloomFilter, bloom_bits
from lookupstore.hudi.keys.key_generator import partition_paths, record_keys
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.timeline import TimelineFolder


def check_files(path: Path, times: set[str] | None = None) -> int:
    """Check the base files that some instants wrote; None: all. Return how many there are."""
    table = HudiTable.open(path)
    folder = TimelineFolder(table.location, table.options.timeline, table.options.version)
    commits = {
        one.time: parse_commit(folder.read(one), one.time)
        for one in table.timeline()
        if one.is_completed and one.is_write
    }
    stats = {
        stat.path: stat
        for commit in commits.values()
        for many in (commit.stats or {}).values()
        for stat in many
    }
    is_cleaned = any(one.action == "clean" for one in table.timeline())
    checked = 0
    for group in table.file_groups():
        for file in group.slices:
            if times is not None and file.time not in times:
                continue
            checked += 1
            stat = stats.pop(file.path)
            check_file(path, file.path, table)
            stored = pq.read_table(path / file.path, partitioning=None)
            assert stat.total_write_bytes == stat.file_size_in_bytes == file.bytes
            assert stat.num_writes == stored.num_rows
            assert (stat.file_id, stat.partition_path) == (group.id.file_id, group.id.partition)
            before = [one for one in group.slices if one.time < file.time]
            if is_cleaned and stat.prev_commit not in {one.time for one in before}:
                # What came before it is gone, and a savepoint may have kept what came before that.
                assert not before or before[-1].time < str(stat.prev_commit) < file.time
            else:
                assert stat.prev_commit == (before[-1].time if before else "null")
                if table.options.version != 6:
                    assert stat.prev_base_file == (before[-1].name if before else None)
            new = sum(one == file.time for one in stored[META_COLUMNS[0]].to_pylist())
            said = (stat.num_inserts or 0) + (stat.num_update_writes or 0)
            if commits[file.time].operation == "CLUSTER":
                # They are new to the file, and no others than they were.
                assert (new, said) == (0, stored.num_rows)
            else:
                assert new == said
            marked = path / group.id.partition / ".hoodie_partition_metadata"
            depth = len(group.id.partition.split("/")) if group.id.partition else 0
            assert f"partitionDepth={depth}" in marked.read_text().splitlines()
    return checked


def check_file(path: Path, name: str, table: HudiTable) -> None:
    """Check meta columns, types and footer of one file."""
    options = table.options
    file = pq.ParquetFile(path / name)
    rows = file.read()
    assert rows.schema.names[:5] == list(META_COLUMNS)
    assert all(field.nullable and field.metadata is None for field in rows.schema)
    assert [rows.schema.field(one).type for one in META_COLUMNS] == [pa.string()] * 5
    meta = rows.select(list(META_COLUMNS)).to_pylist()
    instant = name.removesuffix(".parquet").rpartition("_")[2]
    task = name.rpartition("/")[2].split("_")[1].split("-")[0]
    places = []
    for place, row in enumerate(meta):
        time, number, _, partition, stored_name = row.values()
        assert stored_name == name.rpartition("/")[2]
        assert partition == name.rpartition("/")[0]
        assert number.startswith(f"{time}_")
        if time == instant:
            assert number == f"{instant}_{task}_{place}"
        places.append(number)
    assert len(set(places)) == len(places)
    if rows.num_rows:
        keys = rows[META_COLUMNS[2]]
        named = True if options.key_generator == "COMPLEX" else None
        assert keys.to_pylist() == record_keys(rows, options.record_key, named=named).to_pylist()
        paths = partition_paths(
            rows,
            options.partition_by,
            hive_style=options.hive_style,
            url_encode=options.url_encode,
        )
        assert paths.to_pylist() == rows[META_COLUMNS[3]].to_pylist()
    footer = file.metadata.metadata
    assert b"ARROW:schema" not in footer
    assert footer[b"writer.model.name"] == b"avro"
    avro = json.loads(footer[b"parquet.avro.schema"])
    assert [one["name"] for one in avro["fields"]] == rows.schema.names
    assert avro["name"] == options.record_name
    bloom = BloomFilter.from_footer(footer, name)
    assert bloom is not None
    # Sized to the rows, with room for an eighth, of which some may have come since.
    least = max(1, rows.num_rows)
    assert (bloom.kind, bloom.rows, bloom.bits) == (
        "DYNAMIC_V0",
        1,
        bloom_bits(bloom.row_keys, 1e-9),
    )
    assert least <= bloom.row_keys <= least + least // 8
    assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
    texts = rows[META_COLUMNS[2]].to_pylist()
    if not texts:
        assert b"hoodie_min_record_key" not in footer
        assert b"hoodie_max_record_key" not in footer
        return
    assert bloom.last_keys == rows.num_rows
    assert bloom.test(rows[META_COLUMNS[2]]).all()
    if not any(character >= "\ue000" for text in texts for character in text):
        assert footer[b"hoodie_min_record_key"].decode() == min(texts)
        assert footer[b"hoodie_max_record_key"].decode() == max(texts)
