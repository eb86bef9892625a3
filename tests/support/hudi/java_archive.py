"""Archives of timelines as Java writes and reads them, by hand: nothing here is of ours."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Files = Mapping[str, Mapping[str, bytes]]
#: What is known of an archived instant: its action, completion time and result.
Known = dict[str, tuple[str, str | None, Any]]

MAGIC = b"#HUDI#"
TEXT = {"type": "string", "avro.java.string": "String"}
# As of Hudi 0.9: fields that came later are missing, and so are those that no test looks at.
ENTRY: Any = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (
            ("hoodieCommitMetadata", {"type": "record", "name": "HoodieCommitMetadata", "fields": [
                {"name": "extraMetadata", "type": ["null", {"type": "map", "values": TEXT}]},
                {"name": "operationType", "type": ["null", TEXT]}]}),
            ("hoodieRollbackMetadata", None),
            ("commitTime", TEXT),
            ("actionType", TEXT),
            ("actionState", TEXT),
        )
    ],
}  # fmt: skip


def _entry_schema(rollback: Any) -> Any:
    schema = json.loads(json.dumps(ENTRY))
    schema["fields"][1]["type"] = ["null", rollback]
    return schema


def add_log(path: Path, gone: Files) -> None:
    """Add instants to the archive of a table of version 6: an entry for each file."""
    rollback: Any = {"type": "record", "name": "HoodieRollbackMetadata", "fields": [
        {"name": "startRollbackTime", "type": TEXT}]}  # fmt: skip
    entries = []
    for time, files in gone.items():
        for name, content in files.items():
            state = name.rpartition(".")[2].upper()
            state = state if state in ("REQUESTED", "INFLIGHT") else "COMPLETED"
            parts = name.split(".")
            action = "commit" if parts[1] == "inflight" else parts[1]
            entry = {"commitTime": time, "actionType": action, "actionState": state}
            if state == "COMPLETED" and action in ("commit", "replacecommit"):
                # What replaced groups is a commit like others here: nobody asks which.
                said = json.loads(content)
                entry["hoodieCommitMetadata"] = {
                    name: said[name] for name in ("extraMetadata", "operationType")
                }
            elif state == "COMPLETED" and action == "rollback":
                reader = fastavro.reader(io.BytesIO(content))
                rollback = reader.writer_schema
                (entry["hoodieRollbackMetadata"],) = list(reader)
            entries.append(entry)
    schema = _entry_schema(rollback)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    content = struct.pack(">ii", 3, len(entries))
    for entry in entries:
        into = io.BytesIO()
        fastavro.schemaless_writer(into, parsed, entry)
        content += struct.pack(">i", len(into.getvalue())) + into.getvalue()
    text = json.dumps(schema).encode()
    body = struct.pack(">iiiii", 1, 3, 1, 2, len(text)) + text
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    block = MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)
    folder = path / ".hoodie" / "archived"
    folder.mkdir(exist_ok=True)
    number = 1 + len(list(folder.glob(".commits_.archive.*")))
    (folder / f".commits_.archive.{number}_1-0-1").write_bytes(block)


def add_history(path: Path, gone: Files) -> None:
    """Add instants to the archive of a table of version 8 or 9: a row for each."""
    folder = path / ".hoodie" / "timeline" / "history"
    rows = []
    for time, files in gone.items():
        (name,) = (one for one in files if "_" in one)
        both, _, action = name.partition(".")
        rows.append((time, both.partition("_")[2], action, files[name], None, 1))
    names = ("instantTime", "completionTime", "action", "metadata", "plan", "version")
    kinds = (pa.string(), pa.string(), pa.string(), pa.binary(), pa.binary(), pa.int32())
    columns = [pa.array(list(one), kind) for one, kind in zip(zip(*rows, strict=True), kinds,
                                                              strict=True)]  # fmt: skip
    name = f"{rows[0][0]}_{rows[-1][0]}_0.parquet"
    pq.write_table(pa.table(columns, names), folder / name)
    versions = [int(one.name.partition("_")[2]) for one in folder.glob("manifest_*")]
    last = max(versions, default=0)
    listed = json.loads((folder / f"manifest_{last}").read_text())["files"] if last else []
    listed.append({"fileName": name, "fileLen": (folder / name).stat().st_size})
    (folder / f"manifest_{last + 1}").write_text(json.dumps({"files": listed}))
    (folder / "_version_").write_text(str(last + 1))


def blocks(content: bytes) -> Iterator[tuple[int, dict[int, bytes], bytes]]:
    """Yield kind, headers and content of the blocks of a log file."""
    at = 0
    while at < len(content):
        assert content[at : at + 6] == MAGIC
        (size,) = struct.unpack_from(">q", content, at + 6)
        end = at + 14 + size
        version, kind, count = struct.unpack_from(">iii", content, at + 14)
        assert version == 1
        headers, at = {}, at + 26
        for _ in range(count):
            header, length = struct.unpack_from(">ii", content, at)
            headers[header] = content[at + 8 : at + 8 + length]
            at += 8 + length
        (length,) = struct.unpack_from(">q", content, at)
        inner = content[at + 8 : at + 8 + length]
        footers, back = struct.unpack_from(">iq", content, at + 8 + length)
        assert (footers, back, at + 8 + length + 12) == (0, size + 6, end)
        yield kind, headers, inner
        at = end


def records(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the Avro records of a log file."""
    for kind, headers, inner in blocks(content):
        assert kind == 3
        schema = fastavro.parse_schema(json.loads(headers[2]))
        _, count = struct.unpack_from(">ii", inner)
        at = 8
        for _ in range(count):
            (size,) = struct.unpack_from(">i", inner, at)
            stream = io.BytesIO(inner[at + 4 : at + 4 + size])
            record: Any = fastavro.schemaless_reader(stream, schema, None)
            assert stream.tell() == size
            yield record
            at += 4 + size
        assert at == len(inner)


def known(path: Path) -> Known:
    """Return what an archive has, whichever its format is."""
    return _known_of_logs(path) if not (path / ".hoodie" / "timeline").is_dir() else _known(path)


def _known_of_logs(path: Path) -> Known:
    found: Known = {}
    files = sorted((path / ".hoodie" / "archived").glob(".commits_.archive.*"),
                   key=lambda one: int(one.name.split(".")[3].partition("_")[0]))  # fmt: skip
    for file in files:
        for one in records(file.read_bytes()):
            if one["actionState"] == "COMPLETED":
                said = {
                    "commit": "hoodieCommitMetadata",
                    "replacecommit": "hoodieReplaceCommitMetadata",
                    "clean": "hoodieCleanMetadata",
                    "rollback": "hoodieRollbackMetadata",
                }[one["actionType"]]
                found[one["commitTime"]] = (one["actionType"], None, one[said])
    return found


def _known(path: Path) -> Known:
    found: Known = {}
    folder = path / ".hoodie" / "timeline" / "history"
    versions = [int(one.name.partition("_")[2]) for one in folder.glob("manifest_*")]
    if not versions:
        return found
    said = folder / "_version_"
    version = int(said.read_text()) if said.exists() else max(versions)
    for one in json.loads((folder / f"manifest_{version}").read_text())["files"]:
        assert (folder / one["fileName"]).stat().st_size == one["fileLen"]
        least, greatest, _ = one["fileName"].split("_")
        rows = pq.read_table(folder / one["fileName"])
        assert rows.schema.names == [
            "instantTime", "completionTime", "action", "metadata", "plan", "version",
        ]  # fmt: skip
        times = rows["instantTime"].to_pylist()
        assert (min(times), max(times)) == (least, greatest)
        for row in rows.to_pylist():
            (record,) = list(fastavro.reader(io.BytesIO(row["metadata"])))
            found[row["instantTime"]] = (row["action"], row["completionTime"], record)
    return found
