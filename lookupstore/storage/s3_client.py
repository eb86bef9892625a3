"""obstore clients for S3, with the settings of a pyarrow file system.

pyarrow asks for the size of an object before it reads any of it, and has at most 25 requests at the
same time. obstore is used where this would make a caller wait, and where a put has a condition.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

from lookupstore.errors import CorruptionError
from lookupstore.extras import is_there
from lookupstore.storage.small_files import check_small, whole

# Names of obstore's options by the names that pyarrow has for them.
_CREDENTIALS = {
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
    "region": "region",
}
#: Options of pyarrow that obstore's clients lack here.
_OTHERS = ("role_arn", "tls_ca_file_path")
# Longest time of a request in seconds, if its file system has no limit of its own.
_LONGEST = 30.0
# Bytes of an object to receive at a time.
_PIECE = 2 << 20


def options_of(filesystem: fs.FileSystem) -> dict[str, Any]:
    """Return the options of a file system of S3, with those that it found out itself."""
    options: dict[str, Any] = filesystem.__reduce__()[1][0]  # as pyarrow pickles it
    # That of the environment variable AWS_ENDPOINT_URL is a URL.
    scheme, separator, host = (options.get("endpoint_override") or "").partition("://")
    if separator:
        return {**options, "scheme": scheme, "endpoint_override": host.rstrip("/")}
    return options


def bucket_client(options: Mapping[str, Any], bucket: str, **limits: str) -> Any:
    """Return a client of a bucket, which repeats no request.

    Args:
        options: Options of the file system.
        bucket: Name of the bucket.
        limits: Time limits, by the names of obstore's client options.
    """
    import obstore.store

    client_options: Any = {"allow_http": allows_http(options), **limits}
    return obstore.store.S3Store(
        bucket,
        client_options=client_options,
        retry_config={"max_retries": 0},
        **object_store_options(options),
    )


def object_store_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a file system of pyarrow by the names of object_store.

    obstore and deltalake have these names.

    >>> object_store_options({"region": "eu-west-1", "scheme": "https"})
    {'region': 'eu-west-1'}
    """
    given = {theirs: options[ours] for ours, theirs in _CREDENTIALS.items() if options.get(ours)}
    if options.get("endpoint_override"):
        scheme = options.get("scheme") or "https"
        given["endpoint"] = f"{scheme}://{options['endpoint_override']}"
        given["virtual_hosted_style_request"] = bool(options.get("force_virtual_addressing"))
    if options.get("anonymous"):
        given["skip_signature"] = True
    return given


def allows_http(options: Mapping[str, Any]) -> bool:
    """Return whether a file system of pyarrow connects without encryption.

    >>> allows_http({"scheme": "http"})
    True
    """
    return (options.get("scheme") or "https") == "http"


class S3Reads:
    """Reads of objects by one request each; threads may share it.

    A read that fails is repeated with pyarrow's client, which has the options of the user. If no
    read has ever succeeded here, this client lacks something, and is not used any more.

    Args:
        options: Options of the file system.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._buckets: dict[str, Any] = {}
        self._has_answered = False
        #: Whether to read parts of objects with this client.
        self.is_usable: bool = True

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """Return bytes of an object, as many as it has in the range, and its size.

        Args:
            path: Bucket and key of the object.
            offset: Offset of the first byte.
            size: Number of bytes to read.

        Raises:
            OSError: There was no answer, or an invalid one.
        """
        try:
            answer = self._get(path, {"range": (offset, offset + size)})
        except OSError:
            self.is_usable = self._has_answered
            raise
        self._has_answered = True
        return answer

    def read_whole(self, path: str, most: int, shown: str) -> bytes:
        """Return all bytes of a small object.

        Args:
            path: Bucket and key of the object.
            most: Largest size that the object may have, in bytes.
            shown: URI of the object, for errors.

        Raises:
            OSError: There was no answer.
            CorruptionError: The object has more bytes.
        """
        with _told():
            return whole_object(self._got(path, {}), most, shown)

    def _get(self, path: str, options: Any) -> tuple[bytes, int]:
        with _told():
            found = self._got(path, options)
            return bytes(found.bytes()), int(found.meta["size"])

    def _got(self, path: str, options: Any) -> Any:
        """Return obstore's answer, with only its head received yet."""
        import obstore

        bucket, _, key = path.partition("/")
        client = self._buckets.get(bucket)
        if client is None:
            client = self._buckets[bucket] = bucket_client(self._options, bucket, **self._limits())
        return obstore.get(client, key, options=options)

    def _limits(self) -> dict[str, str]:
        limits = {}
        for ours, theirs in (("request_timeout", "timeout"), ("connect_timeout",) * 2):
            seconds = self._options.get(ours) or 0
            limits[theirs] = f"{int(1000 * (seconds if seconds > 0 else _LONGEST))}ms"
        return limits


def whole_object(found: Any, most: int, shown: str) -> bytes:
    """Return the bytes of an object in an answer of obstore, as they arrive.

    Args:
        found: Answer of obstore.
        most: Largest size that the object may have, in bytes.
        shown: URI of the object, for errors.

    Raises:
        CorruptionError: The object has more bytes, whatever its headers say.
    """
    check_small(shown, most, int(found.meta["size"]))
    pieces = iter(found.stream(min_chunk_size=_PIECE))
    return whole(lambda _: next(pieces, b""), shown, most)


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of obstore into an OSError, since some of its kinds are not."""
    try:
        yield
    except CorruptionError:
        raise
    except Exception as error:
        raise OSError(str(error).partition("\n")[0]) from None


def reads_of(filesystem: Any) -> S3Reads | None:
    """Return a reader of objects by one request each, or None if only pyarrow can read them.

    There is one if obstore is installed and supports all options of the file system: credentials
    that were given or are in the environment. A child of fork has none if its parent has obstore:
    the threads that wait for the answers to its requests do not exist in the child.
    """
    if _is_of_child or not isinstance(filesystem, fs.S3FileSystem) or not is_there("s3"):
        return None
    options = options_of(filesystem)
    proxy = options.get("proxy_options") or {}
    if any(options.get(name) for name in _OTHERS) or proxy.get("host"):
        return None
    if not options.get("endpoint_override") and _names_in_environment("AWS_ENDPOINT_URL"):
        return None
    if not options.get("anonymous") and not options.get("access_key"):
        known = {ours: os.environ.get(f"AWS_{theirs.upper()}") for ours, theirs in _KEYS}
        if not known["access_key"] or not known["secret_key"]:
            return None
        options = {**options, **known}
    with _lock:
        reads = _known.setdefault(repr(sorted(options.items(), key=str)), S3Reads(options))
    return reads if reads.is_usable else None


_KEYS = [each for each in _CREDENTIALS.items() if each[0] != "region"]


def _names_in_environment(start: str) -> bool:
    return any(name.startswith(start) for name in os.environ)


_known: dict[str, S3Reads] = {}
_lock = threading.Lock()
_is_of_child = False


def _after_fork() -> None:
    global _lock, _is_of_child
    _lock = threading.Lock()
    _is_of_child = _is_of_child or "obstore" in sys.modules
    _known.clear()


os.register_at_fork(after_in_child=_after_fork)
