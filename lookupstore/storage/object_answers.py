"""The meaning of answers of object stores: no such bucket, no access; and what to do then."""

from __future__ import annotations

import re

import pyarrow as pa
from pyarrow import fs

# What holds all files of a file system, by the name of its type.
_HOLDERS = {"s3": "bucket", "gcs": "bucket", "abfs": "container"}
_CHECK = "check its name, and the storage option endpoint_url"
# Parts of messages of pyarrow, and what they mean.
_MEANINGS = {
    r"PermanentRedirect|; the region '[^']*' is wrong|the bucket is located in": (
        "the bucket is in another region: set AWS_DEFAULT_REGION, or the storage option region"
    ),
    r"AWS Error NO_SUCH_BUCKET": f"there is no such bucket: {_CHECK}",
    r"AWS Error (INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID)": (
        "the server does not accept the credentials: check the key, the secret and the region"
    ),
    r"AWS Error (ACCESS_DENIED|UNKNOWN \(HTTP status 403\))": (
        "access is denied: check the credentials, and whether they may read this bucket"
    ),
}


def missing_at(filesystem: fs.FileSystem, path: str, kind: str = "file or folder") -> str:
    """Return what is missing, at a path with nothing at it, and the remedy if it is a bucket.

    Args:
        filesystem: File system of the path.
        path: Path with nothing at it.
        kind: Words for what was looked for.

    >>> missing_at(fs.LocalFileSystem(), "/data/users")
    'no such file or folder'
    """
    holder = _HOLDERS.get(filesystem.type_name.removeprefix("py::"))
    name = path.partition("/")[0]
    if holder is not None and name:
        try:
            found = filesystem.get_file_info(name).type
        except (OSError, pa.ArrowException):  # whoever may read a file may not look at its bucket
            found = fs.FileType.Unknown
        if found is fs.FileType.NotFound:
            return f"no such {holder} {name!r}; {_CHECK}"
    return f"no such {kind}"


def meaning_of(message: str) -> str | None:
    """Return what a message of an object store means, with the remedy. None: it is not known.

    >>> meaning_of("When listing in bucket 'b': AWS Error NO_SUCH_BUCKET during ListObjectsV2")
    'there is no such bucket: check its name, and the storage option endpoint_url'
    """
    return next((said for part, said in _MEANINGS.items() if re.search(part, message)), None)
