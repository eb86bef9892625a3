"""Write the bill of materials of a wheel: `python .ci/sbom.py WHEEL FILE`, CycloneDX in JSON.

It lists what pip installs with the wheel, as cyclonedx-py finds it in an environment made for that,
and what is compiled into the extensions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def compiled_in(site_packages: Path) -> dict[str, object]:
    """Return the component of xxHash, whose header pyarrow has."""
    header = site_packages / "pyarrow/include/arrow/vendored/xxhash/xxhash.h"
    text = header.read_text()
    numbers = [
        re.search(rf"#define XXH_VERSION_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "RELEASE")
    ]
    version = ".".join(number[1] for number in numbers if number is not None)
    return {
        "type": "library",
        "bom-ref": f"xxHash=={version}",
        "name": "xxHash",
        "version": version,
        "description": "compiled into the extensions, from the header of pyarrow",
        "purl": f"pkg:github/Cyan4973/xxHash@v{version}",
        "licenses": [{"license": {"id": "BSD-2-Clause"}}],
    }


def main(wheel: str, target: str) -> None:
    """Write the bill of materials."""
    with tempfile.TemporaryDirectory() as folder:
        tools, clean = Path(folder, "tools"), Path(folder, "clean")
        for environment, package in ((tools, "cyclonedx-bom>=7,<8"), (clean, wheel)):
            venv.create(environment, with_pip=True)
            pip = [environment / "bin/python", "-m", "pip", "--quiet"]
            subprocess.run([*pip, "install", package], check=True)
        subprocess.run([clean / "bin/python", "-m", "pip", "--quiet", "uninstall", "-y", "pip",
                        "setuptools"], check=True)  # fmt: skip
        subprocess.run(
            [
                tools / "bin/cyclonedx-py", "environment", "--output-reproducible",
                "--pyproject", ROOT / "pyproject.toml", "--output-file", target,
                clean / "bin/python",
            ],
            check=True,
        )  # fmt: skip
        found = json.loads(Path(target).read_text())
        (site_packages,) = clean.glob("lib/python3*/site-packages")
        found["components"].append(compiled_in(site_packages))
    Path(target).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
