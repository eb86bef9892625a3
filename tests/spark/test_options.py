"""Options that are JSON: what Python's parser does not take is an error that names the option."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lookupstore.keys.schema import KeySchema
from lookupstore.spark.format.source import _key_values
from lookupstore.spark.options import given_location, given_names


@pytest.mark.parametrize("text", ["[" * 100_000, f"[{'1' * 5000}]"], ids=["deep", "long"])
def test_json_that_python_does_not_parse(text: str) -> None:
    with pytest.raises(ValueError, match=r"^key is .*which is not a JSON list: ") as raised:
        given_names({"key": text}, "key")
    assert len(str(raised.value)) < 500
    with pytest.raises(ValueError, match=r"^storage_options is no JSON object"):
        given_location({"path": "s3://bucket/store", "storage_options": text}, "load() a path")
    with pytest.raises(ValueError, match=r"^start is .*, which is not JSON "):
        _key_values(KeySchema(pa.schema([("id", pa.int64())])), "start", text)
