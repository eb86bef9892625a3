"""A real S3 server on this machine, and a proxy before it that counts requests and spoils answers.

The server is rclone's; it comes in a wheel, starts in a fraction of a second and answers some
hundreds of requests a second. The proxy is between processes, so it sees what all of them ask for.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

# The server does not take uploads with a checksum behind the data; this has to be set in a process
# that writes.
FOR_WRITES = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}

KEY, SECRET, BUCKET = "TESTKEYTESTKEY", "TESTSECRETTESTSECRET", "bucket"


@dataclass(frozen=True)
class ObjectStore:
    """Address a server whose bucket is a local folder.

    Attributes:
        folder: of the bucket: a file put there is an object.
        address: host and port.
    """

    folder: Path
    address: str

    def uri(self, path: str) -> str:
        """Return the URI of an object, with all that it takes to read it."""
        return (
            f"s3://{KEY}:{SECRET}@{BUCKET}/{path}?scheme=http&endpoint_override={self.address}"
            "&region=us-east-1"
        )

    def environment(self) -> dict[str, str]:
        """Return the variables with which `s3://bucket/path` alone is enough."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_REGION": "us-east-1",
            **FOR_WRITES,
        }

    def filesystem(self, timeout: float = 5) -> fs.S3FileSystem:
        """Return a file system that gives up soon, and leaves retries to its user."""
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            scheme="http",
            endpoint_override=self.address,
            region="us-east-1",
            request_timeout=timeout,
            connect_timeout=timeout,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def has_server() -> bool:
    """Return whether the server is installed."""
    return _program() is not None


def _program() -> str | None:
    return shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which("rclone")


@contextmanager
def object_store(folder: Path, *, written: bool = False) -> Iterator[ObjectStore]:
    """Serve the buckets under a folder as long as the block runs.

    Objects are put there as files; or, if `written`, through a proxy before the server only.
    """
    (folder / BUCKET).mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    program = _program()
    assert program is not None
    with subprocess.Popen(
        [
            program, "serve", "s3", "--addr", address, "--auth-key", f"{KEY},{SECRET}",
            # Else the first look at an object reads all of it; and folders are not remembered,
            # unless they are written to, where the server would stop to answer.
            "--etag-hash", "", "--dir-cache-time", "5m" if written else "0s",
            "--config", "", str(folder),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            _wait_for(address)
            yield ObjectStore(folder / BUCKET, address)
        finally:
            server.kill()


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    for _ in range(500):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nobody listens on {address}")


@dataclass(frozen=True)
class Request:
    """Describe what a client asked for.

    Attributes:
        number: of the request, from 0.
        method: GET, HEAD, PUT, POST or DELETE.
        start: first byte; 0 if no range was asked for.
        size: bytes asked for; 0 if no range was.
    """

    number: int
    method: str
    start: int
    size: int


# What happens to an answer: "ok", "slow" (a second late), "stall" (never), "busy" (503 SlowDown),
# "cut" (half of it, then the connection breaks), "flip" (one bit is another).
Fault = Callable[[Request], str]

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


class Proxy:
    """Count the requests to a server and spoil some of its answers."""

    def __init__(self, server: ObjectStore) -> None:
        self.server = server
        self.fault: Fault = lambda request: "ok"
        self.delay = 0.0  # seconds, for each answer with a body
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy._handle(self)

            def do_HEAD(self) -> None:
                proxy._handle(self)

            def do_PUT(self) -> None:
                proxy._handle(self)

            def do_POST(self) -> None:
                proxy._handle(self)

            def do_DELETE(self) -> None:
                proxy._handle(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *arguments: Any) -> None:
                pass  # clients that give up

        self._http = Server(("127.0.0.1", 0), Handler)
        self.store = ObjectStore(server.folder, f"127.0.0.1:{self._http.server_address[1]}")
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def gets(self) -> list[Request]:
        """Return the ranges that were asked for."""
        with self._lock:
            return [each for each in self.requests if each.method == "GET" and each.size]

    @property
    def nbytes(self) -> int:
        """Return the bytes that were asked for."""
        return sum(each.size for each in self.gets)

    def _note(self, handler: BaseHTTPRequestHandler) -> Request:
        start, size = 0, 0
        wanted = handler.headers.get("Range")
        if wanted is not None:
            first, last = wanted.removeprefix("bytes=").split("-")
            start, size = int(first), int(last) + 1 - int(first)
        with self._lock:
            request = Request(len(self.requests), handler.command, start, size)
            self.requests.append(request)
        return request

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        request = self._note(handler)
        sent = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if handler.command == "PUT" and urlsplit(handler.path).path.endswith("/"):
            # An empty object in the place of a folder, which pyarrow writes after it has deleted
            # an object. The server has folders, and fails.
            handler.send_response(200)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        fault = self.fault(request)
        if fault == "stall":
            self._stopped.wait(60)
            handler.close_connection = True
            return
        if fault == "busy":
            handler.send_response(503)
            handler.send_header("Content-Type", "application/xml")
            handler.send_header("Content-Length", str(len(SLOW_DOWN)))
            handler.end_headers()
            if handler.command == "GET":
                handler.wfile.write(SLOW_DOWN)
            return
        if request.size:
            time.sleep(1 if fault == "slow" else self.delay)
        host, port = self.server.address.split(":")
        behind = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            # The signature is of these headers: the server must see them as they were sent.
            behind.putrequest(
                handler.command, handler.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in handler.headers.items():
                behind.putheader(name, value)
            behind.endheaders(sent)
            answer = behind.getresponse()
            body = answer.read()
        finally:
            behind.close()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                handler.send_header(name, value)
        if answer.getheader("Content-Length") is None:  # it came in pieces
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault == "flip":
            at = len(body) // 2
            body = body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]
        if fault == "cut":
            body = body[: len(body) // 2]
            handler.close_connection = True
        handler.wfile.write(body)
