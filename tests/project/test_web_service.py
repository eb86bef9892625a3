"""The web service among the examples: forked workers that answer, and take a new version."""

from __future__ import annotations

import ast
import datetime
import decimal
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lookupstore

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = (EXAMPLES / "web_service.py").read_text()
# What the example says to type.
BUILD, SERVE, ASK = re.findall(r"\$ (.*)", ast.get_docstring(ast.parse(SOURCE)) or "")
# Values that JSON does not have, and what the service answers.
ODD = {
    "user_id": [7],
    "raw": [b"\xff\x00"],
    "price": [decimal.Decimal("1.50")],
    "scores": [[1.5, float("nan"), float("-inf"), None]],
    "at": [datetime.datetime(2026, 1, 2, 3, 4, 5)],
}
SHOWN = {
    "raw": "0xff00", "price": "1.50", "scores": [1.5, "nan", "-inf", None],
    "at": "2026-01-02T03:04:05",
}  # fmt: skip
# Time to wait for the service, which a loaded machine may need.
PATIENCE = 120


def eventually(look: Callable[[], Any]) -> Any:
    """Return the first true answer."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except OSError:  # it does not listen yet
            pass
        time.sleep(0.05)
    raise AssertionError("the service did not answer in time")


class Service:
    """The service of the example, with two workers, started in a folder as its docstring says."""

    def __init__(self, here: Path, environment: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process = subprocess.Popen(
            ["sh", "-c", f"exec env {SERVE}"],
            cwd=here,
            env={**environment, "GUNICORN_CMD_ARGS": f"--bind {self.address}",
                 "USERS_EVERY": "0.2"},
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def refusal(self, path: str) -> int:
        """Return the status of an answer that is an error."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(path)
        with refused.value as answer:
            return answer.code

    def versions(self) -> dict[int, int]:
        """Return the version that each worker answers from."""
        found: dict[int, int] = {}
        for _ in range(40):
            said = self.ask("/health")
            found[said["pid"]] = said["version"]
        return found

    def stop(self) -> tuple[int, str]:
        self.process.terminate()
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


def build(here: Path, rows: int, environment: dict[str, str]) -> None:
    command = BUILD.replace(" 1000", f" {rows}")
    subprocess.run(["sh", "-c", command], cwd=here, env=environment, check=True)


@pytest.fixture
def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(Path(lookupstore.__file__).parents[1]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }


@pytest.fixture
def service(tmp_path: Path, environment: dict[str, str]) -> Iterator[Service]:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    build(tmp_path, 1000, environment)
    made = Service(tmp_path, environment)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def test_workers_answer_and_take_a_new_version(
    service: Service, tmp_path: Path, environment: dict[str, str]
) -> None:
    eventually(lambda: service.ask("/health"))
    workers = eventually(lambda: len(found := service.versions()) == 2 and found)
    assert set(workers.values()) == {1}
    assert service.process.pid not in workers
    assert ASK == "curl localhost:8000/users/7"
    assert service.ask("/users/7") == {"name": "user 7"}
    assert service.ask("/users", [999, 1000, 0]) == [{"name": "user 999"}, None, {"name": "user 0"}]
    assert service.refusal("/users/1000") == 404
    assert service.refusal("/users/seven") == 422
    build(tmp_path, 2000, environment)
    eventually(lambda: set(service.versions().values()) == {2})
    assert set(service.versions()) == set(workers)  # the same processes
    assert service.ask("/users/1000") == {"name": "user 1000"}
    lookupstore.build(ODD, tmp_path / "users.store", key="user_id", overwrite=True).close()
    eventually(lambda: set(service.versions().values()) == {3})
    assert service.ask("/users/7") == SHOWN
    assert service.ask("/users", [7, 1]) == [SHOWN, None]
    status, said = service.stop()
    assert (status, "Traceback" in said) == (0, False), said
