"""Errors of a bucket in another region, by a server that answers as S3 does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import lookupstore
from lookupstore.columnar import ColumnarFiles

ANSWERS = {
    301: "<Code>PermanentRedirect</Code><Message>Use the specified endpoint.</Message>",
    400: "<Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; "
    "the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message>",
}
CALLS: dict[str, Callable[[str, Path], Any]] = {
    "open": lambda uri, _: lookupstore.open(uri),
    "build": lambda uri, folder: lookupstore.build(uri, folder / "s", key="id"),
    "build there": lambda uri, _: lookupstore.build({"id": [1]}, uri, key="id"),
    "files": lambda uri, _: ColumnarFiles(uri, key="id"),
}


@pytest.fixture(params=ANSWERS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a server whose buckets are all in another region."""

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<?xml version='1.0'?><Error>{ANSWERS[request.param]}</Error>".encode()
            self.send_response(request.param)
            self.send_header("x-amz-bucket-region", "eu-west-1")
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("call", CALLS)
def test_the_error_says_so(call: str, address: str, tmp_path: Path) -> None:
    uri = f"s3://key:secret-word@bucket/users?scheme=http&endpoint_override={address}"
    with pytest.raises(OSError, match="set AWS_DEFAULT_REGION, or the storage option region") as no:
        CALLS[call](uri, tmp_path)
    assert "secret-word" not in str(no.value)
