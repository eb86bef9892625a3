"""Builds the extensions and nothing else; metadata is in pyproject.toml.

LOOKUPSTORE_BUILD=debug turns on Cython's bounds checks and C's asserts;
LOOKUPSTORE_BUILD=sanitize adds AddressSanitizer and UndefinedBehaviorSanitizer;
LOOKUPSTORE_BUILD=thread adds ThreadSanitizer.
"""

import os
import sys

import pyarrow
from Cython.Build import cythonize
from setuptools import Extension, setup

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
}
if BUILD not in FLAGS:
    sys.exit(f"LOOKUPSTORE_BUILD={BUILD!r} is none of {', '.join(FLAGS)}")
# One folder a kind of build: distutils and Cython compare times, not flags, and would otherwise
# take the objects of another kind for their own.
BUILD_BASE = f"build/{BUILD}"

HEADERS = sorted(f"csrc/{name}" for name in os.listdir("csrc") if name.endswith(".h"))


def extension(name, *c_sources):
    """Describe one Cython module with the C files that it compiles in."""
    return Extension(
        name,
        [name.replace(".", "/") + ".pyx", *(f"csrc/{source}" for source in c_sources)],
        include_dirs=["csrc", pyarrow.get_include()],
        depends=HEADERS,
        extra_compile_args=[
            "-std=c11",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            *FLAGS[BUILD],
        ],
        libraries=["m"],
        extra_link_args=[SANITIZERS[BUILD]] if BUILD in SANITIZERS else [],
    )


setup(
    options={"build": {"build_base": BUILD_BASE}},
    ext_modules=cythonize(
        [
            extension("lookupstore._arrow"),
            extension("lookupstore.sst._block", "ls_block.c", "ls_order.c"),
            extension("lookupstore.sst._filter", "ls_filter.c", "ls_hash.c"),
            extension("lookupstore.sst._map"),
            extension(
                "lookupstore.sst._table", "ls_slots.c", "ls_hash.c", "ls_block.c", "ls_order.c"
            ),
            extension("lookupstore.sst._writeback"),
            extension(
                "lookupstore.sst._batch",
                "ls_batch.c",
                "ls_block.c",
                "ls_fences.c",
                "ls_filter.c",
                "ls_hash.c",
                "ls_order.c",
                "ls_slots.c",
            ),
            extension("lookupstore._sort", "ls_gather.c", "ls_sort.c", "ls_order.c"),
            extension("lookupstore._keys", "ls_keys.c", "ls_hash.c"),
            extension("lookupstore._rows", "ls_rows.c"),
            extension("lookupstore.parquet._pages", "ls_page.c"),
            extension("lookupstore.parquet._structs"),
            extension("lookupstore.hudi._bloom", "ls_hadoop_bloom.c"),
            extension("lookupstore.hudi._key_ranges", "ls_key_ranges.c"),
            extension("lookupstore.hudi._key_table", "ls_key_table.c", "ls_hash.c"),
            extension("lookupstore.hudi._md5", "ls_md5.c"),
        ],
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
