"""Run `lookupstore` in children of a process that has imported it: much faster than a new Python.

`python command_server.py serve SOCKET` imports the command line once and forks for each command.
`python command_server.py run SOCKET WORDS...` is the command. It sends its words, folder,
environment and standard streams to the server, and returns the exit status of the child.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys


def serve(path: str) -> None:
    """Serve until the process is killed; print a line when it is ready."""
    for name in ("pandas", "polars", "lookupstore.hudi"):  # imported later by most commands
        importlib.import_module(name)
    from lookupstore.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children need no wait
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
                given = json.loads(message)
                for to, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, to)
                os.chdir(given["folder"])
                os.environ.clear()
                os.environ.update(given["environment"])
                sys.argv = ["lookupstore", *given["words"]]
                status = 1
                try:
                    main()
                    status = 0
                except SystemExit as error:
                    status = error.code if isinstance(error.code, int) else bool(error.code)
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    connection.send(bytes([status]))
                    os._exit(status)
            connection.close()


def run(path: str, words: list[str]) -> int:
    """Let the server run a command; return its exit status."""
    given = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(given).encode()], [0, 1, 2])
        for descriptor in (0, 1):  # a reader of a pipe waits for all of its writers
            os.close(descriptor)
        answer = connection.recv(1)
    return answer[0] if answer else 1


if __name__ == "__main__":
    role, where, *rest = sys.argv[1:]
    if role == "serve":
        serve(where)
    sys.exit(run(where, rest))
