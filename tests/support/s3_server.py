"""The S3 server of moto, one request at a time, as a program: `python s3_server.py HOST PORT`.

Moto's own program compares the condition of a put first and stores the object later, so that of two
puts that are made at once both may be told that theirs was the first.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    """An application that answers requests in turn; a slow upload keeps no other one waiting."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        size = environ.get("CONTENT_LENGTH")
        if size:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(size)))
        with self._turn:
            return self._application(environ, start_response)  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_simple(
        sys.argv[1],
        int(sys.argv[2]),
        OneAtATime(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
