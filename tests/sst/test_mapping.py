"""A sorted file as a mapping of bytes to bytes; the model is a dict."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lookupstore.sst import Reader, Writer


@pytest.fixture(params=["native", "paimon"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, seed: int
) -> Iterator[tuple[Reader, dict[bytes, bytes]]]:
    rng = random.Random(seed)
    model = {rng.randbytes(rng.randrange(1, 9)): rng.randbytes(rng.randrange(9)) for _ in range(99)}
    model = dict(sorted(model.items()))
    with Writer(tmp_path / "file.sst", dialect=request.param, block_size=64) as writer:
        writer.put_many(list(model), list(model.values()))
    with Reader(tmp_path / "file.sst") as reader:
        yield reader, model


def test_all_of_it(opened: tuple[Reader, dict[bytes, bytes]]) -> None:
    reader, model = opened
    assert isinstance(reader, Mapping)
    assert dict(reader) == dict(reader.items()) == model
    assert list(reader) == list(reader.keys()) == list(model)
    assert list(reader.values()) == list(model.values())
    assert len(reader) == len(reader.items()) == len(reader.values()) == len(model)
    for key, value in model.items():
        assert reader[key] == value
        assert (key, value) in reader.items()
    key, value = next(iter(model.items()))
    assert value in reader.values()
    assert b"no value is so long" not in reader.values()
    assert (key, b"no value is so long") not in reader.items()
    assert reader.keys() & {key, b"no key is so long"} == {key}
    with pytest.raises(KeyError) as missing:
        reader[b"no key is so long"]
    assert missing.value.args == (b"no key is so long",)


def test_a_range_of_it(opened: tuple[Reader, dict[bytes, bytes]]) -> None:
    reader, model = opened
    keys = list(model)
    some = reader.items(start=keys[10], stop=keys[30])
    assert len(some) == 20
    assert list(some) == list(some) == list(model.items())[10:30]
    assert (keys[10], model[keys[10]]) in some
    assert (keys[30], model[keys[30]]) not in some


def test_it_is_itself_and_not_its_contents(opened: tuple[Reader, dict[bytes, bytes]]) -> None:
    """A mapping compares by reading all of both, and has no hash."""
    reader, model = opened
    with Reader(reader.path) as other:
        assert len({reader, other, reader}) == 2
        assert reader != other
        assert reader != model
