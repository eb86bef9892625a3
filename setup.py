"""Builds the extensions, and lends the README to package indexes; the rest is in pyproject.toml.

LOOKUPSTORE_BUILD=debug turns on Cython's bounds checks and C's asserts;
LOOKUPSTORE_BUILD=sanitize adds AddressSanitizer and UndefinedBehaviorSanitizer;
LOOKUPSTORE_BUILD=thread adds ThreadSanitizer.
LOOKUPSTORE_BUILD=none builds no extension: the Makefile builds them while pip installs the rest.
"""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

BUILD = os.environ.get("LOOKUPSTORE_BUILD", "release")
SANITIZERS = {"sanitize": "-fsanitize=address,undefined", "thread": "-fsanitize=thread"}
FLAGS = {
    "release": ["-O3", "-g0", "-DNDEBUG"],
    "debug": ["-O0", "-g"],
    "sanitize": [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        SANITIZERS["sanitize"],
        "-fno-sanitize-recover=undefined",
    ],
    "thread": ["-O1", "-g", "-fno-omit-frame-pointer", SANITIZERS["thread"]],
    "none": [],
}
if BUILD not in FLAGS:
    sys.exit(f"LOOKUPSTORE_BUILD={BUILD!r} must be one of {', '.join(FLAGS)}")
# One folder a kind of build: distutils and Cython compare times, not flags, and would otherwise
# take the objects of another kind for their own.
BUILD_BASE = f"build/{BUILD}"
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Where links of the README lead for who reads it outside of the repository.
SOURCE = "https://github.com/lookupstore/lookupstore/blob/main/"

INCLUDE = ["csrc", pyarrow.get_include()]
HEADERS = sorted(f"csrc/{name}" for name in os.listdir("csrc") if name.endswith(".h"))
COMPILE_ARGS = [
    "-std=c11",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    *FLAGS[BUILD],
]
# What Cython needs for typed memoryviews, 20,000 lines of C: once, and not in each module.
SHARED = "lookupstore._cyutility"

# What blocks and their records, lookups of one key, and lookups of many need of csrc, each file of
# which refers to others.
RECORDS = ["ls_block", "ls_hash", "ls_order", "ls_places", "ls_row_order", "ls_slots"]
LOOKUP = [*RECORDS, "ls_fences", "ls_filter"]
SEARCH = [*LOOKUP, "ls_batch", "ls_changes", "ls_file_ranges"]

# Each Cython module with the files of csrc that are linked into it.
MODULES = {
    "lookupstore.arrow._binary": ["ls_hash"],
    "lookupstore.arrow._texts": ["ls_text"],
    "lookupstore.compacted._codec": ["ls_compacted_read", "ls_compacted_write"],
    "lookupstore.sst._block": ["ls_block", "ls_order", "ls_row_order"],
    "lookupstore.sst._changes": [*RECORDS, "ls_changes"],
    "lookupstore.sst._data_blocks": RECORDS,
    "lookupstore.sst._filter": ["ls_filter", "ls_hash", "ls_block", "ls_order", "ls_row_order"],
    "lookupstore.sst._frames": [],
    "lookupstore.sst._load": ["ls_block", "ls_load", "ls_order", "ls_row_order"],
    "lookupstore.sst._written": [],
    "lookupstore.sst._map": [],
    "lookupstore.sst._table": RECORDS,
    "lookupstore.storage._writeback": [],
    "lookupstore.sst._answers": SEARCH,
    "lookupstore.sst._batch": SEARCH,
    "lookupstore.sst._hits": [*SEARCH, "ls_owners"],
    "lookupstore.sst._layer": ["ls_file_ranges"],
    "lookupstore.sst._lookup": LOOKUP,
    "lookupstore.sst._making_places": RECORDS,
    "lookupstore.sst._missing": SEARCH,
    "lookupstore.sst._owners": [*SEARCH, "ls_owners"],
    "lookupstore.sst._pages": SEARCH,
    "lookupstore.sst._stretch": SEARCH,
    "lookupstore.sst._spread": [],
    "lookupstore.sorting._merge": ["ls_merge", "ls_gather"],
    "lookupstore.sorting._sort": [
        "ls_gather",
        "ls_scatter",
        "ls_sort",
        "ls_order",
        "ls_row_order",
    ],
    "lookupstore.keys._codec": ["ls_keys", "ls_hash"],
    "lookupstore.keys._one": [],
    "lookupstore.keys._texts": [],
    "lookupstore.rows._codec": ["ls_rows"],
    "lookupstore.rows._one": [],
    "lookupstore.rows._small": ["ls_rows"],
    "lookupstore.source._csv": ["ls_csv"],
    "lookupstore.source._json": ["ls_json"],
    "lookupstore.store._kinds": [],
    "lookupstore.store._points": ["ls_hash"],
    "lookupstore.orc._runs": ["ls_runs"],
    "lookupstore.parquet._claims": ["ls_page", "ls_compact"],
    "lookupstore.parquet._pages": ["ls_page", "ls_compact"],
    "lookupstore.parquet._row_groups": ["ls_footer", "ls_compact"],
    "lookupstore.parquet._structs": ["ls_compact"],
    "lookupstore.hudi.file_group._bloom": ["ls_hadoop_bloom"],
    "lookupstore.hudi.file_group._key_ranges": ["ls_key_ranges"],
    "lookupstore.hudi.file_group._key_table": ["ls_key_table", "ls_hash"],
    "lookupstore.hudi.layout.curves._curve": ["ls_curve"],
    "lookupstore.hudi.write._md5": ["ls_md5"],
}


class BuildSideBySide(build_ext):
    """Compiles csrc once, whatever links it, and everything on all processors."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or JOBS

    def build_extensions(self):
        with ThreadPoolExecutor(self.parallel) as pool:
            sources = sorted({source for names in MODULES.values() for source in names})
            objects = dict(zip(sources, pool.map(self.compile_once, sources), strict=True))
        for extension in self.extensions:
            extension.extra_objects = [objects[name] for name in MODULES.get(extension.name, [])]
            extension.depends = [*extension.depends, *extension.extra_objects]
        # The longest ones first, so that no processor waits at the end for one of them.
        self.extensions.sort(key=lambda one: os.path.getsize(one.sources[0]), reverse=True)
        super().build_extensions()

    def compile_once(self, name):
        """Return the object of a file of csrc, compiled unless it is newer than all it is of."""
        source = f"csrc/{name}.c"
        (path,) = self.compiler.object_filenames([source], output_dir=self.build_temp)
        if self.force or newer_group([source, *HEADERS], path, "newer"):
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=INCLUDE,
                debug=self.debug,
                extra_postargs=COMPILE_ARGS,
            )
        return path


def readme():
    """Return the README with absolute links; those within it stay."""
    text = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!#|[a-z]+:)", f"]({SOURCE}", text)


def extension(name, sources):
    """Describe one module; the objects of csrc come to it when they are compiled."""
    return Extension(
        name,
        sources,
        include_dirs=INCLUDE,
        depends=HEADERS,
        extra_compile_args=COMPILE_ARGS,
        libraries=["m"],
        extra_link_args=[SANITIZERS[BUILD]] if BUILD in SANITIZERS else [],
    )


# Processes that Cython starts may import this file again.
if __name__ == "__main__":
    setup(
        long_description=readme(),
        long_description_content_type="text/markdown",
        options={"build": {"build_base": BUILD_BASE}},
        cmdclass={"build_ext": BuildSideBySide},
        ext_modules=[]
        if BUILD == "none"
        else cythonize(
            [
                extension(SHARED, []),
                *(extension(name, [name.replace(".", "/") + ".pyx"]) for name in MODULES),
            ],
            nthreads=JOBS if JOBS > 1 else 0,
            shared_utility_qualified_name=SHARED,
            compiler_directives={
                "language_level": 3,
                "boundscheck": BUILD != "release",
                "wraparound": False,
                "initializedcheck": BUILD != "release",
                "cdivision": True,
                "embedsignature": True,
            },
            build_dir=f"{BUILD_BASE}/cython",
        ),
    )
