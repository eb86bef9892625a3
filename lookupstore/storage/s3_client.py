"""Clients of obstore's for S3, with what pyarrow's file system was made with.

pyarrow asks for the size of an object before it reads any of it, and has at most 25 requests on
their way. Where that is what one waits for, and where a put has a condition, obstore is asked.
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

# What both call the same.
_CREDENTIALS = {
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
    "region": "region",
}
#: Options of pyarrow's that obstore's clients here do not have.
_OTHERS = ("role_arn", "tls_ca_file_path")
# Seconds for a request whose file system has no limit of its own.
_LONGEST = 30.0
# Bytes of an object that come at once.
_PIECE = 2 << 20


def options_of(filesystem: fs.FileSystem) -> dict[str, Any]:
    """Return what a file system of S3 was made with, and what it found out itself."""
    options: dict[str, Any] = filesystem.__reduce__()[1][0]  # as pyarrow pickles it
    return options


def bucket_client(options: Mapping[str, Any], bucket: str, **limits: str) -> Any:
    """Return a client of a bucket, which repeats no request.

    Args:
        options: of the file system.
        bucket: its name.
        limits: of times, as obstore calls them.
    """
    import obstore.store

    client_options: Any = {"allow_http": (options.get("scheme") or "https") == "http", **limits}
    given = {theirs: options[ours] for ours, theirs in _CREDENTIALS.items() if options.get(ours)}
    if options.get("endpoint_override"):
        scheme = options.get("scheme") or "https"
        given["endpoint"] = f"{scheme}://{options['endpoint_override']}"
        given["virtual_hosted_style_request"] = bool(options.get("force_virtual_addressing"))
    if options.get("anonymous"):
        given["skip_signature"] = True
    return obstore.store.S3Store(
        bucket,
        client_options=client_options,
        retry_config={"max_retries": 0},
        **given,
    )


class S3Reads:
    """Reads of objects, one request each; threads may share it.

    What fails is asked again of pyarrow's client, whose options are the user's. If nothing has
    ever been answered here, this one has missed something, and is not asked any more.

    Args:
        options: of the file system.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._buckets: dict[str, Any] = {}
        self._has_answered = False
        #: Whether to ask here for parts of objects.
        self.is_usable: bool = True

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """Return bytes of an object, as many as it has of those, and its size.

        Args:
            path: bucket and key.
            offset: of the first byte.
            size: how many are wanted.

        Raises:
            OSError: there was no answer, or none that can be believed.
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
            path: bucket and key.
            most: how many bytes it may have.
            shown: URI of the object, for errors.

        Raises:
            OSError: there was no answer.
            CorruptionError: it has more bytes.
        """
        with _told():
            return whole_object(self._got(path, {}), most, shown)

    def _get(self, path: str, options: Any) -> tuple[bytes, int]:
        with _told():
            found = self._got(path, options)
            return bytes(found.bytes()), int(found.meta["size"])

    def _got(self, path: str, options: Any) -> Any:
        """Return obstore's answer, of which only the head is there yet."""
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
    """Return the bytes of an answer of obstore's, as they come.

    Args:
        found: the answer.
        most: how many bytes the object may have.
        shown: URI of it, for errors.

    Raises:
        CorruptionError: it has more bytes, whatever its head says.
    """
    check_small(shown, most, int(found.meta["size"]))
    pieces = iter(found.stream(min_chunk_size=_PIECE))
    return whole(lambda _: next(pieces, b""), shown, most)


@contextmanager
def _told() -> Iterator[None]:
    """Let errors of obstore be an OSError: some of its kinds are none."""
    try:
        yield
    except CorruptionError:
        raise
    except Exception as error:
        raise OSError(str(error).partition("\n")[0]) from None


def reads_of(filesystem: Any) -> S3Reads | None:
    """Return what reads objects of a file system by one request each; None: only pyarrow does.

    It does if obstore is installed and knows all that the file system was made with: credentials
    that were given or are in the environment. A child of fork has none if its parent has obstore:
    what waits for the answers of its requests is threads that the child does not have.
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
