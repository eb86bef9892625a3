"""A real S3 server on this machine, and a proxy before it that counts requests and spoils answers.

The server is rclone's; it comes in a wheel, starts in a fraction of a second and answers some
hundreds of requests a second. The proxy is between processes, so it sees what all of them ask for.
"""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyarrow import fs

#: Variables without which pyarrow sends parts in a way that this server refuses, as some do.
FOR_WRITES = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}

KEY, SECRET, BUCKET = "TESTKEYTESTKEY", "TESTSECRETTESTSECRET", "bucket"


@dataclass(frozen=True)
class ObjectStore:
    """A server whose bucket is a local folder.

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


def pandas_names(server: ObjectStore) -> dict[str, Any]:
    """Return `storage_options` for the server, by the names of s3fs, which pandas passes on."""
    client = {"endpoint_url": f"http://{server.address}", "region_name": "us-east-1"}
    return {"key": KEY, "secret": SECRET, "token": None, "client_kwargs": client}


def deltalake_names(server: ObjectStore) -> dict[str, Any]:
    """Return `storage_options` for the server, by the names of deltalake."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://{server.address}",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


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
def object_store(folder: Path, *, etags: bool = False) -> Iterator[ObjectStore]:
    """Serve the buckets under a folder as long as the block runs.

    Objects are put there as files, or through a proxy before the server. They have no ETag unless
    it is asked for, since the first look at an object reads all of it then.
    """
    (folder / BUCKET).mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    program = _program()
    assert program is not None
    with subprocess.Popen(
        [
            program, "serve", "s3", "--addr", address, "--auth-key", f"{KEY},{SECRET}",
            "--etag-hash", "MD5" if etags else "",
            # Folders are not remembered.
            "--dir-cache-time", "0s", "--config", "", str(folder),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            _wait_for(address)
            yield ObjectStore(folder / BUCKET, address)
        finally:
            server.kill()


@contextmanager
def writable_object_store() -> Iterator[ObjectStore]:
    """Serve an empty bucket in memory, with moto: slower, but it takes uploads as S3 does."""
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "s3_server.py"), *address.split(":")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _wait_for(address)
            store = ObjectStore(Path("nowhere"), address)
            fs.S3FileSystem(
                access_key=KEY,
                secret_key=SECRET,
                scheme="http",
                endpoint_override=address,
                region="us-east-1",
                allow_bucket_creation=True,
            ).create_dir(BUCKET)
            yield store
        finally:
            server.kill()


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    for _ in range(1000):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nobody listens on {address}")


@dataclass(frozen=True)
class Request:
    """What a client asked for.

    Attributes:
        number: of the request, from 0.
        method: GET, HEAD, PUT, POST or DELETE.
        path: with its query.
        start: first byte; 0 if no range was asked for.
        size: bytes asked for; 0 if no range was.
    """

    number: int
    method: str
    path: str
    start: int
    size: int


# What happens to an answer: "ok", "slow" (a second late), "stall" (never), "busy" (503 SlowDown),
# "cut" (half of it, then the connection breaks), "flip" (one bit is another), "stale" (the first
# answer that there was to this path).
Fault = Callable[[Request], str]

# Status, headers and body.
Answer = tuple[int, list[tuple[str, str]], bytes]

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


class Proxy:
    """A proxy that counts requests, spoils some answers, and writes in place of the server."""

    def __init__(self, server: ObjectStore) -> None:
        self.server = server
        self.fault: Fault = lambda request: "ok"
        self.delay = 0.0  # seconds, for each answer with a body
        self.requests: list[Request] = []
        self._first: dict[str, Answer] = {}
        self._parts: dict[tuple[str, int], bytes] = {}
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
            request = Request(len(self.requests), handler.command, handler.path, start, size)
            self.requests.append(request)
        return request

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        request = self._note(handler)
        content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
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
        if handler.command in ("PUT", "POST", "DELETE"):
            status, headers, body = self._write(handler.command, handler.path, content)
        elif fault == "stale" and handler.path in self._first:
            status, headers, body = self._first[handler.path]
        else:
            status, headers, body = self._ask(handler)
            if not request.size:
                self._first.setdefault(handler.path, (status, headers, body))
        handler.send_response(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                handler.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):  # it came in pieces
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

    def _write(self, method: str, path: str, content: bytes) -> Answer:
        """Do what changes an object in the folder: the server runs in circles after writes."""
        parts = urlsplit(path)
        asked = parse_qs(parts.query, keep_blank_values=True)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}/")
        target = self.server.folder / key
        status, body = 200, b""
        if method == "DELETE":
            status = 204
            if "uploadId" not in asked:
                target.unlink(missing_ok=True)
        elif "delete" in asked:
            keys = re.findall("<Key>(.*?)</Key>", content.decode())
            for one in keys:
                (self.server.folder / one).unlink(missing_ok=True)
            gone = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in keys)
            body = f"<DeleteResult>{gone}</DeleteResult>".encode()
        elif "uploads" in asked:
            body = (
                f"<InitiateMultipartUploadResult><Key>{key}</Key><UploadId>{uuid.uuid4().hex}"
                "</UploadId></InitiateMultipartUploadResult>"
            ).encode()
        elif "partNumber" in asked:
            self._parts[asked["uploadId"][0], int(asked["partNumber"][0])] = content
        elif not key.endswith("/"):  # a mark of an empty folder
            if "uploadId" in asked:
                upload = asked["uploadId"][0]
                own = sorted(one for one in self._parts if one[0] == upload)
                content = b"".join(self._parts.pop(one) for one in own)
                body = (
                    b"<CompleteMultipartUploadResult><ETag>0</ETag></CompleteMultipartUploadResult>"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            hidden = target.with_name(f".{uuid.uuid4().hex}")
            hidden.write_bytes(content)
            hidden.rename(target)
        return status, [("Content-Length", str(len(body))), ("ETag", '"0"')], body

    def _ask(self, handler: BaseHTTPRequestHandler) -> Answer:
        host, port = self.server.address.split(":")
        behind = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            # The signature is of these headers: the server must see them as they were sent.
            behind.putrequest(
                handler.command, handler.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in handler.headers.items():
                behind.putheader(name, value)
            behind.endheaders()
            answer = behind.getresponse()
            # This server says of a part that it is the whole, which S3 does not.
            is_part = answer.status == 200 and "Range" in handler.headers
            return 206 if is_part else answer.status, answer.getheaders(), answer.read()
        finally:
            behind.close()
