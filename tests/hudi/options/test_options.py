"""Properties: Java's text, what it means for a table, and what is refused."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi.oracle import other
from support.hudi.small_tables import SmallTable

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.options import (
    check_writable,
    checksum,
    new_options,
    parse_options,
    read_options,
)
from lookupstore.hudi.properties import parse_properties, print_properties
from lookupstore.storage.location import Location

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT, TEXT))
def test_properties_come_back(pairs: dict[str, str]) -> None:
    assert parse_properties(print_properties(pairs, ["hello"]), "") == pairs


@given(st.binary(max_size=60))
def test_any_bytes_are_properties_or_an_error(content: bytes) -> None:
    try:
        pairs = parse_properties(content, "t")
    except CorruptionError:
        return
    assert parse_properties(print_properties(pairs), "") == pairs


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        (b"a=b", {"a": "b"}),
        (b"  a  =  b  \n", {"a": "b  "}),
        (b"a:b\r\nc d\re\\ f=g", {"a": "b", "c": "d", "e f": "g"}),
        (b"#x\n!y\n\n   # z\na=#1", {"a": "#1"}),
        (b"a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a=1\\", {"a": "1"}),
        (b"a=\\u540D\\t\\q\\=", {"a": "名\tq="}),
        (b"a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a\\=b==c", {"a=b": "=c"}),
        (b"a", {"a": ""}),
        (b"a=1\na=2", {"a": "2"}),
        (b"", {}),
    ],
)
def test_javas_rules(content: bytes, pairs: dict[str, str]) -> None:
    assert parse_properties(content, "") == pairs


def test_text_is_written_as_java_does() -> None:
    pairs = {"a b": "  x=y:z#!\\ ", "k": "é\U0001f600\n"}
    assert print_properties(pairs) == (
        b"a\\ b=\\ \\ x\\=y\\:z\\#\\!\\\\ \nk=\\u00E9\\uD83D\\uDE00\\n\n"
    )


@pytest.mark.parametrize("content", [b"a=\\u12", b"a=\\uD83D", b"\\uXXXX=1"])
def test_damaged_escapes(content: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        parse_properties(b"first=1\n" + content, "t")
    assert (caught.value.path, caught.value.offset) == ("t", 8)


# ---- what Apache Hudi wrote ---------------------------------------------------------------------


def test_real_properties_come_back(real_tables: Path) -> None:
    """Nothing of a table's properties is lost when they are written again."""
    for path in sorted(real_tables.glob("*/.hoodie/hoodie.properties")):
        pairs = parse_properties(path.read_bytes(), str(path))
        again = read_options(Location(path.parent.parent)).to_properties()
        # An empty value says what its absence says.
        assert again == {key: value for key, value in pairs.items() if value}


def test_real_options(real_tables: Path) -> None:
    complexkey = read_options(Location(real_tables / "v6_complexkeygen_hivestyle"))
    assert (complexkey.version, complexkey.key_generator) == (6, "COMPLEX")
    assert complexkey.record_key == ("id", "name")
    assert complexkey.partition_by == ("byteField", "shortField")
    assert complexkey.ordering == ("longField",)
    assert complexkey.hive_style
    assert not complexkey.url_encode
    assert complexkey.timezone is None
    simple = read_options(Location(real_tables / "v9_txns_simple_nometa"))
    assert (simple.version, simple.key_generator) == (9, "SIMPLE")
    assert (simple.ordering, simple.merge_mode) == (("txn_ts",), "EVENT_TIME_ORDERING")
    assert simple.metadata_partitions == ()
    check_writable(simple, "t")
    listed = read_options(Location(real_tables / "v9_txns_nonpart_meta"))
    with pytest.raises(FormatError, match=r"hoodie\.table\.metadata\.partitions is 'column_stats,"):
        check_writable(listed, "t")


def test_a_new_table_has_the_properties_of_a_real_one(real_tables: Path) -> None:
    for name, version in (("v6_complexkeygen_hivestyle", 6), ("v9_txns_simple_nometa", 9)):
        real = read_options(Location(real_tables / name))
        ours = new_options(
            name=real.name,
            database=real.database,
            record_key=real.record_key,
            partition_by=real.partition_by,
            ordering=real.ordering[0],
            hive_style=True,
            version=version,
        ).to_properties()
        # Ours say what Hudi leaves to its defaults: the zone, and in version 6 the merge rule.
        added = {"hoodie.table.timeline.timezone": "UTC"}
        if version == 6:
            payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
            added["hoodie.compaction.payload.class"] = payload
        theirs = real.to_properties()
        del theirs["hoodie.table.create.schema"]
        assert ours == theirs | added


def test_the_checksum_is_hudis() -> None:
    assert checksum("v9_txns_cow_simple_nometa", "default") == 2616127535


# ---- new tables ---------------------------------------------------------------------------------

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "region": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "amount": pa.decimal128(15, 2),
        "tags": pa.list_(pa.string()),
        "where": pa.struct({"lat": pa.float64(), "names": pa.map_(pa.string(), pa.int64())}),
    }
)


@pytest.mark.parametrize("partition_by", [None, [], ["region"], ["region", "id"]])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_hudi_rs_opens_a_new_table(
    tmp_path: Path, version: int, partition_by: list[str] | None
) -> None:
    table = HudiTable.create(
        tmp_path / "new",
        SCHEMA,
        record_key=["id"],
        partition_by=partition_by,
        ordering="ts",
        version=version,
        hive_style=True,
        url_encode=True,
    )
    theirs = other(tmp_path / "new")
    assert theirs.table_name == "new"
    assert theirs.timezone.lower() == "utc"
    assert theirs.read() == []
    columns = list(table.schema)[5:]
    assert [(one.name, str(one.type)) for one in columns] == [
        (one.name, str(one.type)) for one in theirs.get_schema()
    ]
    assert table.scan().num_rows == 0
    assert table.incremental().num_rows == 0
    assert table.file_groups() == []
    assert table.timeline() == []
    opened = HudiTable.open(tmp_path / "new").options
    assert opened == table.options
    assert opened.partition_by == tuple(partition_by or ())
    assert opened.merge_mode == "EVENT_TIME_ORDERING"
    check_writable(opened, "t")


def test_commit_time_ordering(tmp_path: Path) -> None:
    for version in (6, 8, 9):
        folder = tmp_path / str(version)
        table = HudiTable.create(folder, SCHEMA, record_key=["id"], version=version)
        assert table.options.merge_mode == "COMMIT_TIME_ORDERING"
        assert HudiTable.open(folder).options == table.options
        pairs = table.options.to_properties()
        payload = pairs.get("hoodie.compaction.payload.class", "Latest")
        assert "Latest" in payload


def test_a_table_is_not_made_twice(tmp_path: Path) -> None:
    HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    with pytest.raises(FileExistsError):
        HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(FileExistsError, match="not empty"):
        HudiTable.create(tmp_path / "other", SCHEMA, record_key=["id"])
    with pytest.raises(FileExistsError, match="not empty"):
        HudiTable.create(tmp_path / "other" / "file", SCHEMA, record_key=["id"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"version": 7}, ValueError, "version is 7; give 6, 8 or 9"),
        ({"record_key": []}, ValueError, "record_key is empty"),
        ({"record_key": ["idd"]}, KeyError, "record_key: no column 'idd'"),
        (
            {"record_key": "idd"},
            KeyError,
            r"no column 'idd' in the schema; did you mean 'id'\? It has",
        ),
        ({"record_key": "zz"}, KeyError, "record_key: no column 'zz' in the schema; it has '"),
        ({"partition_by": ["amount"]}, TypeError, "partition_by: the column 'amount' is decimal"),
        (
            {"record_key": "ts"},
            TypeError,
            r"'ts' is timestamp.*, such as by \.dt\.strftime\('%Y-%m-%d %H:%M:%S\.%f'\)$",
        ),
        ({"partition_by": "ts"}, TypeError, r"'ts' is timest.*\.dt\.strftime\('%Y-%m-%d'\)$"),
        ({"ordering": "tags"}, TypeError, "ordering: the column 'tags' is list"),
        ({"partition_by": ["x"]}, KeyError, "partition_by: "),
        ({"partition_by": ["region", "region"]}, ValueError, "give each column once"),
        ({"ordering": "x"}, KeyError, "ordering: "),
        ({"ordering": ["ts", "id"]}, ValueError, r"\['ts', 'id'\] are several columns; give one"),
        (
            {"merge_mode": "EVENT_TIME_ORDERING"},
            ValueError,
            "needs an ordering column; give ordering=",
        ),
        ({"merge_mode": "LATEST"}, ValueError, "merge_mode is 'LATEST'"),
    ],
)
def test_arguments_of_a_new_table(
    tmp_path: Path, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    given = {"record_key": ["id"]} | arguments
    with pytest.raises(error, match=message):
        HudiTable.create(tmp_path / "t", SCHEMA, **given)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("field", "error", "message"),
    [
        (
            pa.field("x", pa.timestamp("ns")),
            TypeError,
            r"give timestamp\[us\], without nanoseconds",
        ),
        (pa.field("x", pa.timestamp("ns", "UTC")), TypeError, "nanoseconds"),
        (pa.field("x", pa.uint64()), TypeError, "uint64"),
        (pa.field("x", pa.duration("s")), TypeError, "duration"),
        (pa.field("x", pa.null()), TypeError, "null"),
        (pa.field("x", pa.time64("ns")), TypeError, "time64"),
        (pa.field("x", pa.fixed_shape_tensor(pa.int8(), [2])), TypeError, "storage type"),
        (pa.field("x", pa.decimal256(50, 2)), TypeError, "38 digits"),
        (pa.field("x", pa.map_(pa.int32(), pa.int32())), TypeError, "keys are strings"),
        (pa.field("x", pa.struct({"y": pa.timestamp("ns")})), TypeError, "column 'x.y'"),
        (pa.field("x-y", pa.int32()), ValueError, "name that Avro does not allow"),
        (pa.field("id", pa.int32()), ValueError, "2 columns are called 'id'; rename them"),
    ],
)
def test_columns_that_no_table_has(
    tmp_path: Path, field: pa.Field, error: type[Exception], message: str
) -> None:
    with pytest.raises((error, KeyError), match=message):
        HudiTable.create(tmp_path / "t", SCHEMA.append(field), record_key=["id"])


# ---- refusals -----------------------------------------------------------------------------------


def changed(**changes: str | None) -> bytes:
    """Return the properties of a table, with some changed; `__` stands for a dot."""
    pairs = new_options(name="t", record_key=["id"], ordering="ts").to_properties()
    for name, value in changes.items():
        pairs.pop(name.replace("__", "."), None)
        if value is not None:
            pairs[name.replace("__", ".")] = value
    return print_properties(pairs)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("hoodie__table__version", "5", "6, 8, 9 or 10"),
        ("hoodie__table__version", "7", "6, 8, 9 or 10"),
        ("hoodie__table__version", "11", "6, 8, 9 or 10"),
        ("hoodie__table__version", "6", "1 in a table of version 6"),
        ("hoodie__timeline__layout__version", "1", "2 in a table of version 9"),
        ("hoodie__table__type", "COPY_ON_READ", "COPY_ON_WRITE or MERGE_ON_READ"),
        ("hoodie__table__base__file__format", "ORC", "PARQUET"),
        ("hoodie__table__format", "iceberg", "native"),
        ("hoodie__table__storage__layout", "lsm_tree", "default"),
        ("hoodie__bootstrap__base__path", "/old", "bootstrap"),
        ("hoodie__datasource__write__drop__partition__columns", "true", "false"),
    ],
)
def test_tables_that_are_not_read(name: str, value: str, known: str) -> None:
    with pytest.raises(FormatError, match=known) as caught:
        parse_options(changed(**{name: value}), "t.properties")
    wanted = "hoodie.timeline.layout.version" if (name, value) == (
        "hoodie__table__version", "6",
    ) else name.replace("__", ".")  # fmt: skip
    assert wanted in str(caught.value)
    assert "t.properties" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie__table__type", "MERGE_ON_READ"),
        ("hoodie__populate__meta__fields", "false"),
        ("hoodie__table__version", "10"),
        ("hoodie__table__metadata__partitions", "files"),
        ("hoodie__table__metadata__partitions__inflight", "files"),
        ("hoodie__table__keygenerator__type", "TIMESTAMP_AVRO"),
        ("hoodie__table__keygenerator__type", "USER_PROVIDED"),
        ("hoodie__record__merge__mode", "CUSTOM"),
        ("hoodie__table__ordering__fields", "a,b"),
        ("hoodie__table__recordkey__fields", None),
    ],
)
def test_tables_that_are_read_but_not_written(name: str, value: str | None) -> None:
    options = parse_options(changed(**{name: value}), "t.properties")
    with pytest.raises(FormatError) as caught:
        check_writable(options, "t")
    assert name.replace("__", ".").removesuffix(".inflight") in str(caught.value)


RULES = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    "hoodie.table.merge.properties": "k=v",
    "hoodie.record.merge.property.hoodie.payload.delete.field": "op",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.compaction.record.merger.strategy": "00000000-0000-0000-0000-000000000000",
    "hoodie.record.merge.somehow": "1",
    "hoodie.table.multiple.base.file.formats.enable": "true",
    "hoodie.table.complex.keygen.encoding": "VALUE_ONLY",
    "hoodie.table.complex.keygenerator.encoding": "FIELD_PREFIXED",
    "hoodie.table.legacy.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload",
    "hoodie.table.of.the.future": "yes",
    "hoodie.datasource.write.slash.separated.date.partitioning": "TRUE",
    "hoodie.datasource.write.somehow": "1",
}
HARMLESS = {
    "hoodie.table.cdc.enabled": "False",
    "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    "hoodie.datasource.write.slash.separated.date.partitioning": "false",
    "hoodie.table.partial.update.mode": "NONE",
    "hoodie.table.log.file.format": "HOODIE_LOG",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "hoodie.table.index.defs.path": ".hoodie/.index_defs/index.json",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.bootstrap.index.enable": "true",
}


def given(row: dict[str, object]) -> pa.Table:
    return pa.table({name: [value] for name, value in row.items()})


def stored(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("name", RULES)
def test_rules_that_are_not_known_refuse_writing_by_name(
    tmp_path: Path, version: int, name: str
) -> None:
    """Nothing of the table changes, it is read as before, and Hudi's other readers agree."""
    small = SmallTable(tmp_path / "t", version)
    small.commit("a-0", [{"id": 1, "value": "one"}])
    table = HudiTable.open(small.path)
    table.upsert(given({"id": 2, "value": "two"}))
    file = small.path / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{name}=")]
    file.write_text("\n".join([*lines, f"{name}={RULES[name]}", ""]))
    before = stored(small.path)
    for write in (
        lambda: table.upsert(given({"id": 1, "value": "x"})),
        lambda: table.upsert(given({"id": 1, "value": "x"}), dry_run=True),
        lambda: table.bulk_insert(given({"id": 3, "value": "x"})),
        lambda: table.delete([1]),
        lambda: table.insert_overwrite_table(given({"id": 1, "value": "x"})),
        lambda: table.clean(retain_commits=1),
    ):
        with pytest.raises(FormatError) as caught:
            write()
        assert f"{name} is {RULES[name]!r}: " in str(caught.value)
        assert "write with Apache Hudi, or delete the property" in str(caught.value)
    assert stored(small.path) == before
    assert small.values() == {1: "one", 2: "two"}
    assert len(pa.Table.from_batches(map(pa.record_batch, other(small.path).read()))) == 2


@pytest.mark.parametrize("version", [6, 8, 9])
def test_properties_that_change_nothing_do_not_refuse(tmp_path: Path, version: int) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], version=version)
    file = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = "".join(f"{name}={value}\n" for name, value in HARMLESS.items())
    file.write_text(file.read_text() + lines)
    assert table.upsert(given({"id": 1}), missing="null").rows_inserted == 1


def test_the_merge_strategy_is_that_of_the_mode() -> None:
    pairs = new_options(name="t", record_key=["id"], ordering="ts", version=8).to_properties()
    check_writable(parse_options(print_properties(pairs), "t"), "t")
    pairs["hoodie.record.merge.strategy.id"] = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
    with pytest.raises(FormatError, match=r"merge\.strategy\.id is 'ce9acb64"):
        check_writable(parse_options(print_properties(pairs), "t"), "t")


def test_rules_are_looked_at_before_the_metadata_table_goes(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    file = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    added = "hoodie.table.metadata.partitions=files\nhoodie.table.cdc.enabled=true\n"
    file.write_text(file.read_text() + added)
    for options in (WriteOptions(), WriteOptions(metadata="drop")):
        with pytest.raises(FormatError, match=r"cdc\.enabled is 'true': changes would not"):
            table.upsert(given({"id": 1}), options=options)


@pytest.mark.parametrize(
    "changes",
    [
        {"hoodie__table__name": None},
        {"hoodie__table__name": "another"},
        {"hoodie__table__type": None},
        {"hoodie__table__version": None},
        {"hoodie__table__checksum": "1"},
        {"hoodie__populate__meta__fields": "maybe"},
    ],
)
def test_damaged_properties(changes: dict[str, str | None]) -> None:
    with pytest.raises(CorruptionError) as caught:
        parse_options(changed(**changes), "t.properties")
    assert caught.value.path == "t.properties"


def test_merge_rules_of_old_tables() -> None:
    old = new_options(name="t", record_key=["id"], ordering="ts", version=6).to_properties()
    for payload, mode in (
        ("org.apache.hudi.common.model.OverwriteWithLatestAvroPayload", "COMMIT_TIME_ORDERING"),
        ("org.apache.hudi.common.model.DefaultHoodieRecordPayload", "EVENT_TIME_ORDERING"),
        (None, "EVENT_TIME_ORDERING"),
        ("com.example.Payload", "CUSTOM"),
    ):
        old.pop("hoodie.compaction.payload.class", None)
        if payload is not None:
            old["hoodie.compaction.payload.class"] = payload
        options = parse_options(print_properties(old), "t")
        assert options.merge_mode == mode
        assert options.to_properties() == old
    with pytest.raises(FormatError, match=r"payload\.class is 'com\.example\.Payload'"):
        check_writable(options, "t")


@pytest.mark.parametrize(
    ("keys", "partitions", "generator"),
    [
        ("id", None, "NON_PARTITION"),
        ("id,more", "", "NON_PARTITION"),
        ("id", "day", "SIMPLE"),
        ("id,more", "day", "COMPLEX"),
        ("id", "day,hour", "COMPLEX"),
    ],
)
def test_a_table_that_names_no_key_generator(
    keys: str, partitions: str | None, generator: str
) -> None:
    """Hudi infers it from the fields (`KeyGenUtils.inferKeyGeneratorType`)."""
    pairs = new_options(name="t", record_key=["id"]).to_properties()
    for name in [one for one in pairs if "keygenerator" in one]:
        del pairs[name]
    pairs["hoodie.table.recordkey.fields"] = keys
    pairs.pop("hoodie.table.partition.fields", None)
    if partitions is not None:
        pairs["hoodie.table.partition.fields"] = partitions
    assert parse_options(print_properties(pairs), "t").key_generator == generator


def test_the_backup_is_read_but_not_written(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    file = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    backup = file.with_suffix(".properties.backup")
    file.rename(backup)
    options = HudiTable.open(tmp_path / "t").options
    assert options.from_backup
    assert options.create_schema == table.options.create_schema
    with pytest.raises(FormatError, match="backup"):
        check_writable(options, "t")
    assert table.scan().num_rows == 0  # also by who has it open
    # Written halfway: the backup counts.
    file.write_bytes(backup.read_bytes()[:200])
    assert HudiTable.open(tmp_path / "t").options.from_backup
    backup.unlink()
    with pytest.raises(CorruptionError, match=r"hoodie\.properties"):
        HudiTable.open(tmp_path / "t")
    file.unlink()
    with pytest.raises(FileNotFoundError, match="not a Hudi table"):
        HudiTable.open(tmp_path / "t")


def test_a_table_without_meta_columns_is_read(tmp_path: Path) -> None:
    """Nobody can say when its rows changed."""
    table = SmallTable(tmp_path / "t", 9)
    instant = table.begin()
    stat = table.write(instant.time, "a-0", [{"id": 1, "value": "one"}])
    path = table.path / str(stat.path)
    pq.write_table(pq.read_table(path, columns=["id", "value"]), path)
    table.finish(instant, [stat])
    file = table.path / ".hoodie" / "hoodie.properties"
    file.write_bytes(file.read_bytes() + b"hoodie.populate.meta.fields=false\n")
    opened = HudiTable.open(table.path)
    (row,) = opened.scan().to_pylist()
    assert row == dict.fromkeys(opened.schema.names[:5]) | {"id": 1, "value": "one"}
    with pytest.raises(FormatError, match="no meta columns"):
        opened.incremental()


def test_a_moment_is_written_in_utc(tmp_path: Path) -> None:
    from lookupstore.hudi.options import write_options

    options = new_options(name="t", record_key=["id"])
    moment = datetime(2026, 3, 7, 13, 56, 57, 661999, timezone.utc)
    write_options(Location(tmp_path), options, moment)
    text = (tmp_path / ".hoodie" / "hoodie.properties").read_text()
    assert text.startswith("#Properties saved on 2026-03-07T13:56:57.661Z\n")
