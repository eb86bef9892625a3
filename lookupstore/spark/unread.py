"""Files that Spark cannot read: an error with the file, instead of a trace of a hundred lines."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException

from lookupstore.errors import FormatError, LookupStoreError
from lookupstore.source.reading import check_file
from lookupstore.source.search import format_at
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.read_errors import READ_ERRORS
from lookupstore.storage.uris import shown_uri

#: Exceptions of Spark, in Python or from its JVM.
SPARK_ERRORS = (PySparkException, Py4JError)

_FILE = re.compile(
    r"\[(?:FAILED_READ_FILE\.)?(?P<kind>\w+)\] (?:Encountered error while reading file|Could not "
    r"read footer for file:?) (?P<uri>.+?)\.(?:\s+(?P<why>.*?))?(?:\s*SQLSTATE.*)?$",
    re.MULTILINE,
)
_CAUSE = re.compile(r"^Caused by: (?P<cause>.*)$", re.MULTILINE)
_OTHER_TYPE = "PARQUET_COLUMN_DATA_TYPE_MISMATCH"


@contextmanager
def naming_files() -> Iterator[None]:
    """Add the name of the file to errors of files that Spark cannot read.

    Raises:
        CorruptionError: If a file is damaged.
        FormatError: If a column of a file has another type than in the other files.
        OSError: If a file could not be read.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        match = _FILE.search(str(error))
        if match is None:
            raise
        raise _unread_error(match, str(error)) from None


def _unread_error(match: re.Match[str], text: str) -> Exception:
    uri = match["uri"]
    local = urlsplit(uri).scheme in ("", "file")
    path = unquote(urlsplit(uri).path) if local else shown_uri(uri)
    if match["kind"] == _OTHER_TYPE:
        return FormatError(f"{path}: {match['why']}; give files whose types agree")
    address = FileAddress.on(fs.LocalFileSystem(), path)
    kind = format_at(address.filesystem, path) if local and os.path.isfile(path) else None
    if kind is not None:
        # Spark has the same error for damage and for a failing disk; reading the file again shows
        # which.
        try:
            with address.reading(f"a {kind} file"), address.open() as file:
                check_file(file, kind, path)
        except (*READ_ERRORS, LookupStoreError) as error:
            return error
    causes = [found["cause"] for found in _CAUSE.finditer(text)]
    return OSError(errno.EIO, f"Spark could not read it: {(causes or [match['why']])[-1]}", path)
