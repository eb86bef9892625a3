"""Valid files, changed at random places, with right checksums, so that decoders meet the changes.

Any answer will do; any exception but CorruptionError and FormatError will not, nor a crash.

LOOKUPSTORE_FUZZ_SECONDS=600 runs longer; LOOKUPSTORE_TEST_SEED=N repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from support.sst_files import CODECS, DIALECTS, fresh, written
from support.sst_parts import Taken

from lookupstore.errors import CorruptionError, FormatError

SECONDS = float(os.environ.get("LOOKUPSTORE_FUZZ_SECONDS", "0.5"))


def use(path: Path, keys: list[bytes]) -> list[str]:
    """Call everything; return what happened, by name of call."""
    happened: list[str] = []
    names_the_file: list[bool] = []

    def call(name: str, work: Any) -> Any:
        try:
            result = work()
        except (CorruptionError, FormatError) as error:
            happened.append(f"{name}: {type(error).__name__}")
            names_the_file.append(str(path) in str(error))
            return None
        happened.append(f"{name}: answered")
        return result

    reader = call("open", lambda: fresh(path))
    if reader is None:
        return happened
    for key in keys[:: max(1, len(keys) // 6)]:
        call("get", lambda key=key: reader.get(key))
    answers = call("lookup", lambda: reader.lookup(keys))
    if answers is not None:
        answers.validate(full=True)
    call("contains", lambda: reader.contains(keys))
    for batch in call("scan", lambda: list(reader.scan())) or []:
        batch.validate(full=True)
    call("reverse", lambda: list(reader.scan(start=keys[1], stop=keys[-2], reverse=True)))
    call("len", lambda: len(reader))
    found = call("verify", lambda: reader.verify())
    if found is not None:  # a file that contradicts itself nowhere
        assert found.num_records == len(list(reader))
        assert all(reader.contains(list(reader)).to_pylist())
    assert all(names_the_file)
    return happened


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_mutated_files(tmp_path: Path, dialect: str, codec: str, seed: int) -> None:
    rng = random.Random(seed)
    records = sorted(
        {
            bytes(rng.choices(b"\0ab\xff", k=rng.randrange(9))): bytes(
                rng.choices(b"xy", k=rng.randrange(60))
            )
            for _ in range(120)
        }.items()
    )
    source = written(
        tmp_path / "valid.sst",
        records,
        dialect=dialect,
        compression=codec,
        block_size=300,
        bloom_fpp=rng.choice([0, 0.1]),
    )
    taken = Taken(source)
    keys = sorted([key for key, _ in records] + [key + b"a" for key, _ in records[::3]])
    path = tmp_path / "mutant.sst"
    seen: dict[str, int] = {}
    end = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < end or rounds < 50:
        path.write_bytes(taken.made(rng, codec))
        for what in set(use(path, keys)):
            seen[what] = seen.get(what, 0) + 1
        rounds += 1
    print(f"{rounds} files, seed {seed}: {seen}")
    # The mutations get through to the decoders: some files open, and some of these fail then.
    assert seen["open: answered"] > rounds // 10
    assert seen["open: CorruptionError"] > 0
    assert seen.get("lookup: CorruptionError", 0) + seen.get("verify: CorruptionError", 0) > 0
