"""What errors of reading mean, against each kind that Arrow and systems raise."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest

from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.storage.read_errors import reading


def told(error: BaseException, *, local: bool, gone: str | None = None) -> BaseException:
    with (
        pytest.raises(type(error) if not isinstance(error, Exception) else Exception) as raised,
        reading("f.parquet", "a Parquet file", local=local, gone=gone),
    ):
        raise error
    return raised.value


@pytest.mark.parametrize("error", [pa.ArrowInvalid("bad"), OSError("bad page"), IndexError("7")])
def test_bytes_of_a_local_file_that_make_no_sense_are_damage(error: Exception) -> None:
    meant = told(error, local=True)
    assert isinstance(meant, CorruptionError)
    assert meant.path == "f.parquet"


@pytest.mark.parametrize("local", [True, False])
def test_what_arrow_says_of_bytes_is_damage_anywhere(local: bool) -> None:
    assert isinstance(told(pa.ArrowInvalid("bad"), local=local), CorruptionError)


def test_an_object_store_that_fails_is_not_called_damaged() -> None:
    meant = told(OSError("HTTP 503"), local=False)
    assert isinstance(meant, OSError)
    assert meant.errno == errno.EIO
    assert "f.parquet" in str(meant)
    assert "HTTP 503" in str(meant)


@pytest.mark.parametrize("local", [True, False])
def test_what_the_system_says_stays_and_names_the_file(local: bool) -> None:
    meant = told(PermissionError(errno.EACCES, "no"), local=local)
    assert isinstance(meant, PermissionError)
    assert meant.filename == "f.parquet"
    named = PermissionError(errno.EACCES, "no", "g.parquet")
    assert told(named, local=local) is named


def test_a_file_that_is_gone_is_as_the_caller_says() -> None:
    assert isinstance(told(FileNotFoundError(2, "no"), local=True), FileNotFoundError)
    assert isinstance(told(FileNotFoundError(2, "no"), local=True, gone="gone"), StaleStoreError)


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("no room"), pa.ArrowCancelled("stop")])
def test_what_is_of_no_file_stays(error: BaseException) -> None:
    assert told(error, local=True) is error
    assert error.__cause__ is None
