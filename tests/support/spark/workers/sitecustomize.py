"""Let Spark's daemons of Python workers import once what each worker would import again.

A daemon forks a worker for each task that runs while others are busy, after each that failed, and
for each step of planning a read or a write: in a small test, the imports are most of what these do.
The rest is Spark's. Workers that import for themselves are in the tests of examples, the demo and
Connect.

A test may name packages that the workers of its jobs lack.
"""

import gc
import importlib
import os
import sys

for _name in os.environ.get("WORKERS_LACK", "").split():
    sys.modules[_name] = None  # type: ignore[assignment]
if "pyspark.daemon" in sys.orig_argv:
    for _name in ("pandas", "pyarrow.dataset", "lookupstore.spark", sys.orig_argv[-1]):
        importlib.import_module(_name)
    gc.freeze()  # a worker collects garbage after each task: not among the modules
