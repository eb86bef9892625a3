"""Check that the types of all that is public are complete, as pyright --verifytypes sees it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = ("lookupstore", *(f"lookupstore.{name}" for name in ("sst", "columnar", "hudi", "spark")))


def main() -> None:
    # An editable install is found by a hook, which pyright does not run.
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "lookupstore", Path(folder) / "lookupstore")
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("pyright"),
                *("--pythonpath", sys.executable, "--ignoreexternal"),
                *("--verifytypes", "lookupstore", "--outputjson"),
            ],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": folder},
            check=False,
        )
    symbols = json.loads(ran.stdout)["typeCompleteness"]["symbols"]
    public = {
        f"{found.__module__}.{name}"
        for module in MODULES
        for name in import_module(module).__all__
        if hasattr(found := getattr(import_module(module), name), "__module__")
    }
    known = incomplete = 0
    for symbol in symbols:
        name = symbol["name"]
        if name not in public and name.rpartition(".")[0] not in public:
            continue
        if symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]:
            known += 1
            continue
        incomplete += 1
        print(name, *(one["message"] for one in symbol["diagnostics"]), sep="\n    ")
    print(f"{known} of {known + incomplete} public symbols have complete types")
    sys.exit(incomplete > 0 or known < len(public))


if __name__ == "__main__":
    main()
