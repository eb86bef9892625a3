"""An object store that answers some requests, and refuses all others with all that it was told.

What a server says about a failure is in its clients' errors. A hostile or careless one repeats
headers, hosts and queries.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape


class EchoStore(ThreadingHTTPServer):
    """The server.

    Attributes:
        behind: host and port of the store that answers; None: nobody does.
        left: how many requests it may still answer.
    """

    daemon_threads = True

    def __init__(self, behind: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.behind = behind
        self.left = 0

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EchoStore

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.close_connection = True
        self.server.left -= 1
        if self.server.behind is None or self.server.left < 0:
            self._refuse()
            return
        behind = http.client.HTTPConnection(self.server.behind, timeout=20)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        behind.request(self.command, self.path, body, headers)
        with behind.getresponse() as answer:
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            if answer.getheader("Content-Length") is None:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        behind.close()

    def _refuse(self) -> None:
        said = f"{unquote(self.path)} {' '.join(self.headers.values())}"
        content = f"<Error><Code>InvalidArgument</Code><Message>{escape(said)}</Message></Error>"
        body = b"" if self.command == "HEAD" else content.encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815  (of the base)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def echo_store(behind: str | None = None) -> Iterator[EchoStore]:
    """Serve as long as the block runs."""
    server = EchoStore(behind)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
