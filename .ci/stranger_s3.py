"""A store at S3, with the extra `s3` alone: built, not put over another, replaced and read."""

import os

import pyarrow as pa
from pyarrow import fs

import lookupstore

server = os.environ["AWS_ENDPOINT_URL"]
fs.S3FileSystem(endpoint_override=server, allow_bucket_creation=True).create_dir("bucket")
users = pa.table({"id": [2, 1], "name": ["Ada", "Ann"]})
with lookupstore.build(users, "s3://bucket/users", key="id") as store:
    assert store.get(1) == {"name": "Ann"}
try:
    lookupstore.build(users, "s3://bucket/users", key="id")
except FileExistsError as error:
    print(error)
else:
    raise AssertionError("a store was put over another")
newer = pa.table({"id": [1], "name": ["Zoe"]})
lookupstore.build(newer, "s3://bucket/users", key="id", overwrite=True).close()
with lookupstore.open("s3://bucket/users") as store:
    assert store.lookup([1, 2])["name"].to_pylist() == ["Zoe", None]
print("a store at S3 was built, replaced and read")
