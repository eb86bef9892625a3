"""A writer in Java whose clock is that of another zone: its next commit shows after one from here.

It is played by `JavaTable`, which names instants by that clock, and dates files by the real one.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.oracle import other_scan
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.options import TIMEZONE
from lookupstore.hudi.timeline.instant_times import print_time
from lookupstore.hudi.timeline.timeline import Instant, TimelineFolder, Zone

SIX = timedelta(hours=-6)


def utc() -> datetime:
    return datetime.now(timezone.utc)


def one(key: int, value: str) -> pa.Table:
    return pa.table({"id": pa.array([key], pa.int32()), "value": [value]})


class JavaTable(SmallTable):
    """A table of a writer whose clock is ahead of UTC by an offset."""

    def __init__(
        self, path: Path, version: int, offset: timedelta, *, says: str | None = None
    ) -> None:
        super().__init__(path, version)
        self.offset = offset
        file = path / ".hoodie" / Path(TIMEZONE.split(".")[0] + ".properties")
        lines = file.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(TIMEZONE)]
        kept += [f"{TIMEZONE}={says}"] if says is not None else []
        # Without the comments: Java's would say the zone.
        self.properties = file
        file.write_text("".join(f"{line}\n" for line in kept if not line.startswith("#")))

    def commit_then(self, value: str, ago: float = 0, key: int = 1) -> Instant:
        """Commit a row to its only file group, so many minutes ago."""
        moment = utc() - timedelta(minutes=ago)
        folder = TimelineFolder(
            self.table.location,
            self.table.options.timeline,
            self.version,
            clock=lambda: moment + self.offset,
        )
        time = print_time(moment + self.offset)
        before = [group.current for group in HudiTable.open(self.path).file_groups()]
        file_id = before[0].group.file_id if before else "a-0"
        instant = folder.start(folder.request_at(time, "commit"))
        for name in self.path.glob(f".hoodie/**/{time}*"):
            os.utime(name, (moment.timestamp(),) * 2)
        self.folder = folder
        return self.finish(instant, [self.write(time, file_id, [row(key, value)])])


def theirs(path: Path) -> list[dict[str, Any]]:
    """Return the rows that hudi-rs reads."""
    rows = other_scan(path)
    assert rows is not None
    return rows.select(["id", "value"]).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [SIX, timedelta(hours=5, minutes=30)])
def test_updates_of_another_zone_show_after_ours(
    tmp_path: Path, version: int, offset: timedelta
) -> None:
    java = JavaTable(tmp_path / "t", version, offset)
    java.commit_then("first", 10)
    last = java.commit_then("second", 5)
    table = HudiTable.open(java.path)
    assert table.upsert(one(1, "ours"), dry_run=True).rows_updated == 1
    ours = table.upsert(one(1, "ours")).instant
    assert ours is not None
    assert java.values() == {1: "ours"}
    assert last.time < ours.time <= print_time(utc() + offset)
    after = java.commit_then("third")
    assert after.time > ours.time
    assert java.values() == {1: "third"}
    assert theirs(java.path) == [row(1, "third")]
    # And so on, in turn.
    table.upsert(one(1, "ours again"))
    java.commit_then("fourth")
    assert java.values() == {1: "fourth"}
    assert theirs(java.path) == [row(1, "fourth")]
    assert table.verify().findings == ()
    assert len(table.clean(retain_commits=1)) == 1
    assert java.values() == {1: "fourth"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_zone_that_cannot_be_told_is_asked_for(tmp_path: Path, version: int) -> None:
    """As of a copy, whose files are all new: the property that settles it is named."""
    java = JavaTable(tmp_path / "t", version, SIX)
    java.commit_then("first", 200)
    java.commit_then("second", 100)
    for file in java.path.rglob("*"):
        os.utime(file)
    table = HudiTable.open(java.path)
    for act in (
        lambda: table.upsert(one(1, "x")),
        lambda: table.upsert(one(1, "x"), dry_run=True),
        lambda: table.clean(retain_commits=1),
        lambda: table.rollback(table.timeline()[-1].time),
    ):
        with pytest.raises(FormatError, match=rf"zone of its instants is unknown.*{TIMEZONE}=UTC"):
            act()
    assert java.values() == {1: "second"}
    # In its JVM's zone, as Java is told it: with the property, all agree on UTC.
    java.properties.write_text(java.properties.read_text() + f"{TIMEZONE}=UTC\n")
    assert table.upsert(one(1, "x")).rows_updated == 1
    assert theirs(java.path) == [row(1, "x")]


@pytest.mark.parametrize("said", ["LOCAL", None])
def test_the_properties_say_the_zone_of_a_copy(tmp_path: Path, said: str | None) -> None:
    java = JavaTable(tmp_path / "t", 9, SIX, says=said)
    last = java.commit_then("first", 200)
    for file in java.path.rglob("*"):
        os.utime(file)
    at = utc() - timedelta(days=100)
    header = f"#Updated at {at:%Y-%m-%dT%H:%M:%S}.5Z\n#{at + SIX:%a %b %d %H:%M:%S} CST {at:%Y}\n"
    java.properties.write_text(header + java.properties.read_text())
    ours = HudiTable.open(java.path).upsert(one(1, "ours")).instant
    assert ours is not None
    # An hour less: it may have been summer.
    assert last.time < ours.time <= print_time(utc() + SIX - timedelta(hours=1))
    java.commit_then("next")
    assert java.values() == {1: "next"}


def test_what_executors_get_knows_the_zone(tmp_path: Path) -> None:
    java = JavaTable(tmp_path / "t", 9, SIX)
    java.commit_then("first", 10)
    java.commit_then("second", 5)
    view = HudiTable.open(java.path).view()
    sent = pickle.loads(pickle.dumps(view))
    assert sent.folder.zone(sent.timeline) == view.folder.zone(view.timeline) == Zone(SIX, SIX)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_that_does_not_go_by_the_property(tmp_path: Path, version: int) -> None:
    java = JavaTable(tmp_path / "t", version, SIX, says="UTC")
    java.commit_then("first", 10)
    java.commit_then("second", 5)
    table = HudiTable.open(java.path)
    with pytest.raises(FormatError, match=r"-Duser\.timezone=UTC"):
        table.upsert(one(1, "ours"))
    text = java.properties.read_text()
    java.properties.write_text(text.replace("=UTC", "=LOCAL"))
    assert table.upsert(one(1, "ours"), dry_run=True).rows_updated == 1
    java.properties.write_text(text)
    java.offset = timedelta()
    java.commit_then("third")
    table.upsert(one(1, "ours"))
    java.commit_then("fourth")
    assert theirs(java.path) == [row(1, "fourth")]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_follows_an_instant_that_is_ahead(tmp_path: Path, version: int) -> None:
    java = JavaTable(tmp_path / "t", version, timedelta(), says="UTC")
    java.commit_then("first", 1)
    soon = java.commit_then("soon", -0.05)
    table = HudiTable.open(java.path)
    ours = table.upsert(one(1, "ours")).instant
    assert ours is not None
    assert ours.time > soon.position, "clocks may differ by seconds"
    ahead = java.commit_then("ahead", -30)
    before = sorted(java.path.rglob("*"))
    for act in (
        lambda: table.upsert(one(1, "x")),
        lambda: table.upsert(one(1, "x"), dry_run=True),
        lambda: table.bulk_insert(one(2, "x")),
        lambda: table.rollback(ahead.time),
    ):
        with pytest.raises(FormatError, match=rf"{ahead.time}.*its time is ahead of the clock"):
            act()
    assert sorted(java.path.rglob("*")) == before
    assert java.values() == {1: "ahead"}


def test_instants_that_an_older_version_made_in_utc(tmp_path: Path) -> None:
    """They are ahead of a writer at UTC-6: nothing is added until its clock is there."""
    java = JavaTable(tmp_path / "t", 9, SIX)
    java.commit_then("first", 10)
    java.commit_then("second", 5)
    text = java.properties.read_text()
    java.properties.write_text(text + f"{TIMEZONE}=UTC\n")
    table = HudiTable.open(java.path)
    view = table.view()
    with pytest.raises(FormatError, match="user"):
        table.upsert(one(1, "x"))
    # What that version did.
    java.folder = TimelineFolder(table.location, table.options.timeline, 9)
    java.properties.write_text(text)
    instant = java.begin()
    stat = java.write(instant.time, "a-0", [row(1, "old version")])
    java.finish(instant, [stat])
    assert view.location.uri == table.location.uri
    with pytest.raises(FormatError, match=r"zones UTC-06:00 and UTC"):
        table.upsert(one(1, "x"))


def test_real_tables_are_written_in_the_zone_of_their_writers(
    real_table: Callable[[str], Path],
) -> None:
    for name, most in (
        ("v6_nonpartitioned", -5),
        ("v6_complexkeygen_hivestyle", -5),
        ("v8_nonpartitioned", 0),
        ("v9_txns_simple_nometa", -6),
        ("v9_txns_nonpart_meta", -6),
        ("v9_txns_complex_meta", -6),
    ):
        table = HudiTable.open(real_table(name))
        last = table.timeline()[-1].position
        options = WriteOptions(metadata="drop")
        for _ in range(2):
            now = print_time(utc() + timedelta(hours=most))
            instant = table.upsert(table.scan(), options=options).instant
            assert instant is not None
            assert last < instant.time < print_time(utc() + timedelta(hours=most)), name
            assert instant.time > print_time(utc() + timedelta(hours=most - 1.1)), name
            assert most or instant.time >= now, "UTC has no summer"
            last = instant.position
