"""An object store in a process of its own: reads of a folder as S3 answers them, late, and counted.

It answers some thousands of requests a second, each a given time after it came, however many wait.
`object_store.Proxy` writes and spoils answers; this one is for counts and times.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from support.object_store import BUCKET, ObjectStore, Request, free_port

_HEADERS = (
    'Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nETag: "0"\r\nAccept-Ranges: bytes\r\n'
    "Content-Type: application/octet-stream\r\n"
)
_NO_KEY = "<Error><Code>NoSuchKey</Code><Message>There is none.</Message></Error>"


@dataclass(frozen=True)
class QuickStore:
    """A server of a folder, each answer of which comes late.

    Attributes:
        store: where it is.
        delay: seconds of each answer.
    """

    store: ObjectStore
    delay: float

    def asked(self) -> list[tuple[Request, float]]:
        """Return what came since the last call, each with the moment at which it came."""
        connection = http.client.HTTPConnection(self.store.address, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/-/asked")
            found = json.loads(connection.getresponse().read())
        return [(Request(number, *each[:-1]), each[-1]) for number, each in enumerate(found)]

    def trips(self, asked: list[tuple[Request, float]]) -> int:
        """Return how many requests came one after the answer of the other, at most."""
        count, answered = 0, 0.0
        for _, came in sorted(asked, key=lambda each: each[1]):
            if came >= answered:
                count, answered = count + 1, came + self.delay
        return count


def is_part(request: Request) -> bool:
    """Return whether a part of an object was asked for."""
    return request.method == "GET" and request.size > 0 and request.path.endswith(".sst")


@contextlib.contextmanager
def quick_store(folder: Path, delay: float) -> Iterator[QuickStore]:
    """Serve the buckets under a folder as long as the block runs."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, __file__, str(folder), address, str(delay)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as server:
        try:
            quick = QuickStore(ObjectStore(folder / BUCKET, address), delay)
            until = time.monotonic() + 20
            while True:
                try:
                    quick.asked()
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > until:
                        raise
                    time.sleep(0.02)
            yield quick
        finally:
            server.kill()


class _Server:
    def __init__(self, folder: str, delay: float) -> None:
        self.folder = folder
        self.delay = delay
        self.log: list[tuple[Any, ...]] = []
        self.files: dict[str, int] = {}

    def ask(self, transport: asyncio.Transport, head: str) -> None:
        """Answer a request when it is time."""
        line, *headers = head.split("\r\n")
        method, path, _ = line.split(" ")
        came = time.monotonic()
        if path == "/-/asked":
            transport.write(_answer("200 OK", json.dumps(self.log).encode()))
            self.log.clear()
            return
        given = dict(header.lower().split(": ", 1) for header in headers)
        parts = urlsplit(path)
        asked = parse_qs(parts.query, keep_blank_values=True)
        start = size = 0
        if "list-type" in asked:
            answer = _answer("200 OK", self.listing(unquote(parts.path).strip("/"), asked))
        else:
            answer, start, size = self.part(
                unquote(parts.path).lstrip("/"), given.get("range", ""), method == "HEAD"
            )
        self.log.append((method, path, start, size, came))
        asyncio.get_running_loop().call_at(
            asyncio.get_running_loop().time() + self.delay, transport.write, answer
        )

    def part(self, key: str, wanted: str, head: bool) -> tuple[bytes, int, int]:
        """Return the answer with a part of an object, where it begins, and its size."""
        file = self.files.get(key)
        path = os.path.join(self.folder, key)
        if file is None and os.path.isfile(path):
            file = self.files[key] = os.open(path, os.O_RDONLY)
        if file is None:
            return _answer("404 Not Found", b"" if head else _NO_KEY.encode()), 0, 0
        total = os.fstat(file).st_size
        if head:
            text = f"HTTP/1.1 200 OK\r\n{_HEADERS}Content-Length: {total}\r\n\r\n"
            return text.encode(), 0, 0
        if not wanted:
            return _answer("200 OK", os.pread(file, total, 0), _HEADERS), 0, 0
        first, last = wanted.removeprefix("bytes=").split("-")
        start, end = int(first), min(int(last) + 1, total)
        if start >= total:
            return _answer("416 Range Not Satisfiable", b""), start, 0
        range_ = f"Content-Range: bytes {start}-{end - 1}/{total}\r\n"
        body = os.pread(file, end - start, start)
        return _answer("206 Partial Content", body, _HEADERS + range_), start, end - start

    def listing(self, bucket: str, asked: dict[str, list[str]]) -> bytes:
        """Return the names of a folder as S3 says them; all below it if no delimiter is given."""
        prefix, after = (asked.get(name, [""])[0] for name in ("prefix", "start-after"))
        top = Path(self.folder, bucket)
        folder = top / prefix
        every = folder.iterdir() if "delimiter" in asked else folder.rglob("*")
        files = sorted(every) if folder.is_dir() else []
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + file.name)}/</Prefix></CommonPrefixes>"
            for file in files
            if file.is_dir() and "delimiter" in asked
        )
        contents = "".join(
            f"<Contents><Key>{escape(file.relative_to(top).as_posix())}</Key>"
            f"<Size>{file.stat().st_size}</Size>"
            '<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>"0"</ETag></Contents>'
            for file in files
            if file.is_file() and file.relative_to(top).as_posix() > after
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(files)}</KeyCount><IsTruncated>false</IsTruncated>"
            f"{contents}{folders}</ListBucketResult>"
        )
        return text.encode()


def _answer(status: str, body: bytes, headers: str = "Content-Type: application/xml\r\n") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self.server = server
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.rest += data
        while b"\r\n\r\n" in self.rest:
            head, _, self.rest = self.rest.partition(b"\r\n\r\n")
            self.server.ask(self.transport, head.decode("latin-1"))


async def _serve(folder: str, address: str, delay: str) -> None:
    host, port = address.split(":")
    server = _Server(folder, float(delay))
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Connection(server), host, int(port), backlog=512)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
