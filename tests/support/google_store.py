"""Google Cloud Storage on this machine: an emulator, with the conditions that it passes over.

The emulator knows puts of the XML interface, which obstore makes, but neither their condition nor
the headers by which an object is told from another of its name; these are added. As a program it
serves a bucket on the port that is its argument.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from support.object_store import _wait_for, free_port

# Without a mark, which obstore escapes, and the emulator then does not know.
BUCKET = "somebucket"


@contextmanager
def google_store() -> Iterator[str]:
    """Serve an empty bucket in memory; yield host and port."""
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen(
        [sys.executable, "-m", "support.google_store", address.partition(":")[2]],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _wait_for(address)
            yield address
        finally:
            server.kill()


def serve(port: int) -> None:
    """Serve a bucket until the process is killed."""
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import objects
    from gcp_storage_emulator.server import HANDLERS, create_server

    one_at_a_time = threading.Lock()
    upload, download = objects.xml_upload, objects.download

    def generation_of(request: Any, storage: Any) -> str:
        try:
            found = storage.get_file_obj(request.params["bucket_name"], request.params["object_id"])
        except NotFound:
            return "0"
        return str(found["generation"])

    def put(request: Any, response: Any, storage: Any, *more: Any) -> None:
        with one_at_a_time:
            wanted = request.get_header("x-goog-if-generation-match")
            if wanted not in (None, generation_of(request, storage)):
                response.status = HTTPStatus.PRECONDITION_FAILED
                return
            if request.data is None:  # the emulator fails at objects without bytes
                request._data = b""
            time.sleep(0.002)  # generations are times in milliseconds
            upload(request, response, storage, *more)
            tell(request, response, storage)

    def get(request: Any, response: Any, storage: Any, *more: Any) -> None:
        download(request, response, storage, *more)
        if response.status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            tell(request, response, storage)

    def tell(request: Any, response: Any, storage: Any) -> None:
        generation = generation_of(request, storage)
        response["ETag"] = f'"{generation}"'
        response["x-goog-generation"] = generation
        response["Last-Modified"] = "Fri, 27 Nov 2026 12:00:00 GMT"

    for _, methods in HANDLERS:
        if methods.get("PUT") is upload:
            methods["PUT"] = put
            methods["GET"] = get
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
