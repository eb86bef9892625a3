# Everything a developer or CI runs. `make help` lists it.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
BENCH_ARGS ?=
BENCH_CORE_ARGS ?=
BENCH_LEVELS_ARGS ?=
BENCH_MICRO_ARGS ?=
BENCH_PAIMON_ARGS ?=
BENCH_SPARK_ARGS ?=
BENCH_TPCH_ARGS ?=
COMPARE ?=
SOAK_ARGS ?=
HUDI_SOAK_ARGS ?=
FUZZ_SECONDS ?= 300
FUZZ_SEED ?=
FUZZ_ONLY ?=
FUZZ_PATIENCE ?= 10
FUZZ = tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --patience $(FUZZ_PATIENCE) \
    $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(if $(FUZZ_ONLY),--only $(FUZZ_ONLY))
SEEDS ?= 3000
HISTORIES_ARGS ?=
MUTANTS ?= 300
# 300 take more than an hour: each night draws some others.
NIGHTLY_MUTANTS := 20
MUTANTS_SEED ?=
MUTANTS_ONLY ?=
MUTANTS_ARGS ?=
ZOO ?=
ZOO_ARGS ?=
ZOO_DATA_ARGS ?=

# Hundreds of processes of the suite import the package: not each is to compile it.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
BIN := $(VENV)/bin
CSRC := $(wildcard csrc/ls_*.c)
HEADERS := $(wildcard csrc/*.h)
PYX := $(shell find lookupstore -name '*.pyx' -o -name '*.pxd')
EXTENSIONS := $(subst /,.,$(basename $(shell find lookupstore -name '*.pyx')))
BUILT_FROM := setup.py $(CSRC) $(HEADERS) $(PYX)
PACKAGED := $(BUILT_FROM) pyproject.toml MANIFEST.in README.md LICENSE \
            $(shell find lookupstore -name '*.py' -o -name '*.pyi')
C_TESTS := $(wildcard csrc/tests/*.[ch]) csrc/test_threads.c
FORMATTED_C := $(CSRC) $(HEADERS) $(C_TESTS) bench/stages.c
# As in pyproject.toml; installed first, so that a build in place finds them where later ones will.
BUILD_REQUIRES := 'setuptools>=77' 'cython>=3.3,<4' 'pyarrow>=17'
PYTHONS := 3.10 3.11 3.12 3.13 3.14
# What needs neither Java nor Spark: run on wheels, other interpreters and sanitized extensions.
FAST := -m "not spark and not long"

# $(call new-venv,folder,interpreter): make a virtual environment whose pip knows PEP 660 and 639.
define new-venv
	@$(2) -c 'import sys; v = sys.version_info[:2]; v >= (3, 10) or sys.exit( \
	    f"lookupstore needs Python 3.10 or later, $(2) is {v[0]}.{v[1]}: make PYTHON=python3.12 ...")'
	$(2) -m venv $(1)
	@$(1)/bin/python -c 'import pip, sys; sys.exit(int(pip.__version__.split(".")[0]) < 23)' \
	    || $(1)/bin/python -m pip install --quiet --upgrade pip
endef

# Run pytest away from the work tree, so that only an installed lookupstore can be imported.
# $(call fast-suite,folder of the virtual environment)
define fast-suite
	cd $$(mktemp -d) && $(ROOT)/$(1)/bin/pytest -c $(ROOT)/pyproject.toml -p no:cacheprovider $(FAST) \
	    $(PYTEST_ARGS) $(ROOT)/tests
endef

.PHONY: help
help:  ## List these targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# ---- environments ------------------------------------------------------------------------------

$(BIN)/python:
	$(call new-venv,$(VENV),$(PYTHON))

# Modules are compiled when they are first imported: most of them never are. The extensions are built
# while pip downloads and unpacks.
$(VENV)/.dependencies: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile $(BUILD_REQUIRES)
	@set -x; $(BIN)/python setup.py --quiet build_ext --inplace & building=$$!; \
	LOOKUPSTORE_BUILD=none $(BIN)/python -m pip install --quiet --no-compile --no-build-isolation \
	    --editable '.[dev]' || { kill $$building; exit 1; }; \
	wait $$building
	@touch $@

# The package is installed in place, so Python edits need nothing; this follows edits of the rest.
# An installation has just built everything: only what is newer needs another build.
$(VENV)/.built: $(BUILT_FROM) $(VENV)/.dependencies
	@if [ -n "$$(find $(BUILT_FROM) -newer $(VENV)/.dependencies)" ]; then \
	    set -x; $(BIN)/python setup.py --quiet build_ext --inplace; \
	fi
	@touch $@

$(VENV)/.demo: $(BUILT_FROM) pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(BUILD_REQUIRES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[spark,demo]'
	@touch $@

.PHONY: venv
venv: $(VENV)/.built  ## Make .venv with all tools, and build the extensions into the tree

# ---- the two commands of the README ------------------------------------------------------------

.PHONY: demo java
java:
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version >/dev/null 2>&1 || { echo "No Java found: install \
	a JDK 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install \
	openjdk@17), or try the demo without Spark: make demo-no-spark" >&2; exit 1; }

demo: java $(VENV)/.demo  ## Join 336,776 flights with three stores in Spark, checked against Spark SQL
	$(BIN)/lookupstore demo

.PHONY: demo-no-spark
demo-no-spark: $(VENV)/.demo  ## The same joins without Java
	$(BIN)/lookupstore demo --no-spark

.PHONY: demo-hudi
demo-hudi: java $(VENV)/.built  ## Keep the flights as a Hudi table, compared with Arrow, hudi-rs and Spark
	$(BIN)/python examples/flights_as_hudi_table.py

# A wing is a folder of tests/. Only those of Spark need Java.
SPARK_WING = $(filter spark spark/%,$(WING))

.PHONY: test
ifneq ($(WING),)
test: $(if $(SPARK_WING),java) $(VENV)/.built
	$(call wing-suite,$(if $(SPARK_WING),-m "not long",-n 2 --dist worksteal -m "not long and not spark"))
else ifneq ($(PYTEST_ARGS),)
test: $(VENV)/.built
	$(BIN)/pytest -m "not long" $(PYTEST_ARGS)
else
# Side by side: Spark's tests keep the processors busy for half of their time, and three processes with
# the others use the rest. The recipe waits for both before it reports a failure. A shell makes background
# processes ignore Ctrl-C, and notices signals only while it waits.
test: java $(VENV)/.built  ## Run every test except the long part; WING=sst: that folder of tests/, PYTEST_ARGS='-k name': those
	@mkdir -p build
	export LOOKUPSTORE_TEST_DRAW=1; \
	$(BIN)/pytest -m "spark and not long" --durations 20 -o cache_dir=build/pytest-spark \
	    tests/spark tests/project/test_docs.py >build/test-spark.log 2>&1 & \
	spark=$$!; \
	nice -n 5 $(BIN)/pytest -n 3 --dist worksteal -m "not spark and not long" --durations 20 \
	    --ignore tests/spark & \
	others=$$!; failed=0; \
	trap 'kill $$spark $$others 2>/dev/null || true; wait; exit 130' INT TERM; \
	wait $$others || failed=$$?; \
	echo "Waiting for the tests of Spark: build/test-spark.log"; \
	wait $$spark || failed=$$?; \
	cat build/test-spark.log; \
	exit $$failed
endif

# The tests that `make test` leaves out, and all cases of suites that it samples. Each step runs, whatever
# the ones before it say.
LONG = LOOKUPSTORE_TEST_LONG=1 $(BIN)/pytest --durations 20
.PHONY: test-long
ifneq ($(WING),)
test-long: $(if $(SPARK_WING),java build/spark.jsa) $(VENV)/.built
	$(call wing-suite,-m "$(if $(SPARK_WING),long or sampled,(long or sampled) and not spark)",LOOKUPSTORE_TEST_LONG=1)
else ifneq ($(PYTEST_ARGS),)
test-long: $(VENV)/.built
	$(LONG) -m "long or sampled" $(PYTEST_ARGS)
else
test-long: java build/spark.jsa  ## Run what `make test` leaves out, in hours; WING and PYTEST_ARGS as for `make test`
	failed=; \
	$(LONG) -n 2 --dist worksteal -m "(long or sampled) and not spark" || failed="$$failed tests"; \
	$(LONG) -m "(long or sampled) and spark" || failed="$$failed spark"; \
	for step in soak hudi-soak hudi-sim store-sim fuzz; do \
	    $(MAKE) $$step || failed="$$failed $$step"; \
	done; \
	$(MAKE) mutants MUTANTS=$(NIGHTLY_MUTANTS) || failed="$$failed mutants"; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi
endif

# $(call wing-suite,arguments of pytest,environment)
define wing-suite
	@test -d tests/$(WING) || { echo "WING=$(WING): there is no folder tests/$(WING); the wings are" \
	    $$(cd tests && find . -name 'test_*.py' | xargs -n 1 dirname | sed 's|^\./||' | sort -u) >&2; exit 2; }
	$(2) $(BIN)/pytest $(1) $(PYTEST_ARGS) tests/$(WING)
endef

# Classes of Spark, which the JVMs of benches and examples map instead of reading them: tests/conftest.py.
build/spark.jsa: tests/support/spark/classes.py $(VENV)/.dependencies | $(VENV)/.built java
	@mkdir -p $(@D)
	SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$@ -Xlog:disable" $(BIN)/python $< $@

# Where PyTorch is a download of gigabytes: TORCH='torch --index-url ...' takes one for processors only.
TORCH ?= torch
.PHONY: test-torch
test-torch: $(VENV)/.built  ## Install PyTorch, and run the tests of lookupstore.torch with it
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/pytest tests/engines/test_torch_tensors.py $(PYTEST_ARGS)

.PHONY: stranger
stranger: java  ## Do what the README says in new folders and empty environments, and each extra alone
	PYTHON="$(PYTHON)" .ci/stranger

# ---- checks ------------------------------------------------------------------------------------

.PHONY: test-c
test-c: build/test_csrc  ## Run the C test with AddressSanitizer and UndefinedBehaviorSanitizer
	build/test_csrc

build/test_csrc: $(wildcard csrc/tests/*.[ch]) $(CSRC) $(HEADERS) $(VENV)/.built
	@mkdir -p $(@D)
	$(CC) -std=c11 -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined \
	    -fno-sanitize-recover=all -pthread -Icsrc \
	    -isystem "$$($(BIN)/python -c 'import pyarrow; print(pyarrow.get_include())')" \
	    csrc/tests/*.c $(CSRC) -lm -o $@

.PHONY: lint
lint: $(VENV)/.built  ## Check style and types of Python, Cython and C
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(ROOT)/$(BIN):$$PATH" cython-lint lookupstore  # it runs pycodestyle by name
	$(BIN)/clang-format --dry-run -Werror $(FORMATTED_C)
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml \
	    --allowlist .ci/stubtest-allowlist.txt --ignore-unused-allowlist $(EXTENSIONS)

.PHONY: recording
recording: $(VENV)/.built  ## Run the commands of recorded terminals in the documents again, and write what they print
	$(BIN)/python tests/support/recording.py

# Its theme tells of its successor each time. A quiet mkdocs would count no warnings.
.PHONY: docs
docs: $(VENV)/.built  ## Make the documentation as a site in build/site; a warning or a bad link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# pyright, which is an npm package, comes from where it is run. With --verifytypes it passes over
# --pythonpath and asks the python of PATH; the hook by which an editable install is found, it does not run.
.PHONY: public-types
public-types: $(VENV)/.built  ## Check with pyright that the types of all that can be imported are complete
	$(BIN)/pip install --quiet pyright
	PATH="$(ROOT)/$(BIN):$$PATH" PYTHONPATH="$(ROOT)" pyright --verifytypes lookupstore --ignoreexternal

.PHONY: format
format: $(VENV)/.built  ## Format Python and C in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED_C)

# libstdc++ is preloaded with the sanitizer, which otherwise cannot intercept pyarrow's exceptions.
# Leaks are not looked for: CPython frees little at exit.
.PHONY: asan
asan: PRELOAD = $(shell $(CC) -print-file-name=libasan.so) $(shell $(CC) -print-file-name=libstdc++.so)
asan: .venv-asan/.built  ## Run the suite without Spark on extensions built with sanitizers
	export LD_PRELOAD="$(PRELOAD)" PYTHONMALLOC=malloc LOOKUPSTORE_BUILD=sanitize \
	    ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1; \
	$(call fast-suite,.venv-asan)

.venv-asan/.built: BUILD = sanitize
.venv-tsan/.built: BUILD = thread
.venv-asan/.built .venv-tsan/.built: $(PACKAGED) | $(BIN)/python
	test -x $(@D)/bin/python || $(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(BUILD_REQUIRES)
	LOOKUPSTORE_BUILD=$(BUILD) $(@D)/bin/python -m pip install --quiet --no-build-isolation \
	    --no-cache-dir --force-reinstall --no-deps .
	$(@D)/bin/python -m pip install --quiet 'lookupstore[test]'
	@touch $@

# CPython is not built with ThreadSanitizer, but takes its lock with calls that the sanitizer sees.
# Arrow's own allocator is not seen, and would be reported: the system's takes its place.
.PHONY: tsan
tsan: PRELOAD = $(shell $(CC) -print-file-name=libtsan.so) $(shell $(CC) -print-file-name=libstdc++.so)
tsan: build/test_threads .venv-tsan/.built  ## Run the tests of threads under ThreadSanitizer, C's first
	build/test_threads
	export LD_PRELOAD="$(PRELOAD)" PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system \
	    TSAN_OPTIONS=exitcode=66:suppressions=$(ROOT)/tests/tsan_suppressions.txt; \
	cd $$(mktemp -d) && $(ROOT)/.venv-tsan/bin/pytest -c $(ROOT)/pyproject.toml -p no:cacheprovider \
	    -k threads $(PYTEST_ARGS) $(ROOT)/tests/sst/test_threads.py $(ROOT)/tests/sst/test_processes.py

# What the protocol of pins and evictions is made of.
THREADED := $(addprefix csrc/,ls_batch.c ls_block.c ls_changes.c ls_fences.c ls_filter.c ls_hash.c ls_order.c \
    ls_places.c ls_row_order.c ls_slots.c)

build/test_threads: csrc/test_threads.c $(THREADED) $(HEADERS) $(VENV)/.built
	@mkdir -p $(@D)
	$(CC) -std=c11 -g -O1 -Wall -Wextra -Werror -fsanitize=thread -pthread -Icsrc \
	    -isystem "$$($(BIN)/python -c 'import pyarrow; print(pyarrow.get_include())')" \
	    $< $(THREADED) -lm -o $@

.PHONY: soak
soak: $(VENV)/.built  ## Read a store for 5 minutes while it is replaced every second
	$(BIN)/python tests/support/soak.py $(SOAK_ARGS)

# HISTORIES_ARGS: --first SEED goes on after a run, --processes N lets N processes run,
# --foreign PYTHON reads by pypaimon and DuckDB, too, --only-snapshots follows and looks up nothing.
.PHONY: histories
histories: $(VENV)/.built  ## Read random histories of Delta, Iceberg and Paimon tables beside other readers: SEEDS of each
	PYTHONPATH=tests $(BIN)/python tests/support/histories/run.py --seeds $(SEEDS) \
	    $(HISTORIES_ARGS)

.PHONY: hudi-soak
hudi-soak: $(VENV)/.built  ## Let 2, then 8 processes write to one Hudi table for 3 minutes; some are killed
	PYTHONPATH=tests $(BIN)/python tests/support/hudi/soak.py $(HUDI_SOAK_ARGS)

.PHONY: hudi-sim
hudi-sim: $(VENV)/.built  ## The same with simulated writers, slow and with wrong clocks: SEEDS of runs
	PYTHONPATH=tests $(BIN)/python tests/support/hudi/soak.py --seeds $(SEEDS)

.PHONY: hostile
hostile: $(VENV)/.built  ## Do every verb to trees that are made to do harm, and print what came of each
	LOOKUPSTORE_TEST_LONG=1 $(BIN)/pytest -s tests/hostile

.PHONY: store-sim
store-sim: $(VENV)/.built  ## Let publishers, expirers and readers of a store meet in 100,000 orders
	PYTHONPATH=tests $(BIN)/python tests/support/store_sim.py $(STORE_SIM_ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.built  ## Change files and texts of every kind at random for 5 minutes, and use them; FUZZ_SECONDS
	PYTHONPATH=tests $(BIN)/python $(FUZZ)

.PHONY: asan-fuzz
asan-fuzz: PRELOAD = $(shell $(CC) -print-file-name=libasan.so) $(shell $(CC) -print-file-name=libstdc++.so)
asan-fuzz: .venv-asan/.built  ## The same on extensions built with sanitizers
	LD_PRELOAD="$(PRELOAD)" PYTHONMALLOC=malloc PYTHONPATH=tests LOOKUPSTORE_BUILD=sanitize \
	    ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    .venv-asan/bin/python $(FUZZ)

# MUTANTS_ARGS: --show prints the changes and tries none, --number N tries one of them again,
# --markdown FILE writes the table.
.PHONY: mutants
mutants: $(VENV)/.built  ## Try 300 small changes of the code, each against its wing's tests; MUTANTS, MUTANTS_ONLY
	PYTHONPATH=tests $(BIN)/python tests/mutants/run.py --count $(MUTANTS) \
	    $(if $(MUTANTS_SEED),--seed $(MUTANTS_SEED)) $(if $(MUTANTS_ONLY),--only $(MUTANTS_ONLY)) \
	    $(MUTANTS_ARGS)

# ZOO_ARGS: --json FILE writes a report, --all shows files that are the same, --only TEXT tries some.
.PHONY: zoo zoo-data
zoo: $(if $(ZOO),$(VENV)/.built,zoo-data)  ## Compare what is read of the files and tables below ZOO with other readers
	PYTHONPATH=tests $(BIN)/python tests/zoo/run.py $(or $(ZOO),build/zoo) $(ZOO_ARGS)

# ZOO_DATA_ARGS: --spark for files by Spark, too, --only duckdb for those of one program.
zoo-data: $(VENV)/.built  ## Make files for the zoo in build/zoo, by as many programs as there are
	PYTHONPATH=tests $(BIN)/python tests/zoo/make.py build/zoo $(ZOO_DATA_ARGS)

BENCH_SIZES := --records 1000000 --queries 100000 --rounds 5
.PHONY: bench
bench: $(VENV)/.built  ## Time every verb beside its rivals
	$(BIN)/python bench/core.py --table $(BENCH_SIZES) $(BENCH_ARGS)
	$(BIN)/python bench/store.py $(BENCH_SIZES) $(BENCH_ARGS)
	$(BIN)/python bench/workload_joins.py $(BENCH_SIZES) $(BENCH_ARGS)

.PHONY: bench-store
bench-store: $(VENV)/.built  ## Time a store as the README builds and asks it: 10,000,000 rows
	$(BIN)/python bench/store.py --workload W1 $(BENCH_ARGS)

.PHONY: bench-everyday
bench-everyday: $(VENV)/.built  ## Time one key, and a few keys a call, beside SQLite, a dict and LMDB
	$(BIN)/python bench/everyday.py $(BENCH_EVERYDAY_ARGS)

.PHONY: bench-engines
bench-engines: $(VENV)/.built  ## Time joins in pandas, polars, DuckDB and Arrow by lookup beside their own: 20,000,000 rows
	$(BIN)/python bench/engines.py $(BENCH_ENGINES_ARGS)

.PHONY: bench-cold
bench-cold: $(VENV)/.built  ## Count and time what a store at a URI fetches for its first keys
	$(BIN)/python bench/cold.py $(BENCH_COLD_ARGS)

.PHONY: bench-cold-disk
bench-cold-disk: $(VENV)/.built  ## Count and time random keys of a file that is on the disk only, beside LMDB and the disk
	$(BIN)/python bench/cold_disk.py $(BENCH_ARGS)

.PHONY: bench-growth
bench-growth: $(VENV)/.built  ## Time builds, first keys and further processes of 10, 100 and 300 million rows
	$(BIN)/python bench/growth.py $(BENCH_GROWTH_ARGS)

.PHONY: bench-workers
bench-workers: java $(VENV)/.built  ## Measure the memory of 1 to 8 workers of a web service and of Spark
	$(BIN)/python bench/workers.py $(BENCH_WORKERS_ARGS)

.PHONY: bench-torch
bench-torch: $(VENV)/.built  ## Read batches of training data as tensors, beside LMDB and Ray, with 8 workers: 1,000,000 rows
	$(BIN)/python -m pip install --quiet $(TORCH) 'ray[data]'
	$(BIN)/python bench/torch_dataset.py $(BENCH_TORCH_ARGS)

.PHONY: bench-limited
bench-limited: $(VENV)/.built  ## Count and time random keys of a file three times as large as the memory, beside LMDB
	$(BIN)/python bench/limited.py $(BENCH_LIMITED_ARGS)

.PHONY: bench-compressed
bench-compressed: $(VENV)/.built  ## Time compressed files larger than the cache beside RocksDB with zstd
	$(BIN)/python bench/compressed.py $(BENCH_COMPRESSED_ARGS)

.PHONY: bench-wide-files
bench-wide-files: $(VENV)/.built  ## Time Parquet and ORC files of 4,000 columns beside Arrow
	$(BIN)/python bench/wide_files.py $(BENCH_WIDE_FILES_ARGS)

.PHONY: bench-builds
bench-builds: $(VENV)/.built  ## Time builds of a store from 20,000,000 rows of unsorted Parquet
	$(BIN)/python bench/builds.py $(BENCH_BUILDS_ARGS)

.PHONY: bench-stages
bench-stages: $(VENV)/.built  ## Time each stage of a batch of lookups beside what memory takes
	$(CC) -std=c11 -O3 -DNDEBUG -Wall -Wextra -Werror -Icsrc \
	    -isystem "$$($(BIN)/python -c 'import pyarrow; print(pyarrow.get_include())')" \
	    bench/stages.c $(CSRC) -lm -o build/stages
	$(BIN)/python bench/stages.py build/stages $(BENCH_STAGES_ARGS)

.PHONY: bench-defaults
bench-defaults: $(VENV)/.built  ## Measure what block size, codec and filter rate cost and gain
	$(BIN)/python bench/defaults.py $(BENCH_DEFAULTS_ARGS)

.PHONY: bench-imports
bench-imports: $(VENV)/.built  ## Time `import lookupstore` and `lookupstore --version` in new processes
	$(BIN)/python bench/imports.py $(BENCH_IMPORTS_ARGS)

.PHONY: bench-core
bench-core: $(VENV)/.built  ## Time the core against its bars: 10,000,000 records
	$(BIN)/python bench/core.py $(BENCH_CORE_ARGS)

.PHONY: bench-micro
bench-micro: $(VENV)/.built  ## Time the functions of the core one by one; COMPARE=commit: beside that commit
	$(BIN)/python bench/micro/run.py $(if $(COMPARE),--compare $(COMPARE)) $(BENCH_MICRO_ARGS)

.PHONY: bench-follow
bench-follow: $(VENV)/.built  ## Time stores that follow tables, joins with tables, and their first keys: 20,000,000 rows
	$(BIN)/python bench/follow.py $(BENCH_FOLLOW_ARGS)
	$(BIN)/python bench/table_joins.py $(BENCH_TABLE_JOINS_ARGS)
	$(BIN)/python bench/table_cold.py $(BENCH_TABLE_COLD_ARGS)

.PHONY: bench-changes
bench-changes: java $(VENV)/.built  ## Time stores and levels that change by batches: 20,000,000 rows
	$(BIN)/python bench/changes.py $(BENCH_CHANGES_ARGS)
	$(BIN)/python bench/levels.py $(BENCH_LEVELS_ARGS)
	$(BIN)/python bench/spark_refresh.py $(BENCH_SPARK_REFRESH_ARGS)

.PHONY: bench-paimon
bench-paimon: $(VENV)/.built  ## Time Paimon's typed lookup files beside the native dialect
	$(BIN)/python bench/paimon.py $(BENCH_PAIMON_ARGS)

.PHONY: bench-levels
bench-levels: $(VENV)/.built  ## Time lookup compaction of columnar levels beside full merges: 20,000,000 rows
	$(BIN)/python bench/levels.py $(BENCH_LEVELS_ARGS)

.PHONY: bench-hudi
bench-hudi: $(VENV)/.built  ## Time tags, upserts and scans of a Hudi table: 10,000,000 rows
	$(BIN)/python bench/hudi_tag.py $(BENCH_HUDI_ARGS)
	$(BIN)/python bench/hudi_upsert.py $(BENCH_HUDI_ARGS)

.PHONY: bench-hudi-timeline
bench-hudi-timeline: $(VENV)/.built  ## Time a Hudi table with 10,000 commits, before and after they are archived
	$(BIN)/python bench/hudi_timeline.py $(BENCH_HUDI_TIMELINE_ARGS)

.PHONY: bench-layout
bench-layout: $(VENV)/.built  ## Count and time what queries read of 20,000,000 rows laid out by two columns
	$(BIN)/python bench/layout.py $(BENCH_LAYOUT_ARGS)
	$(BIN)/python bench/layout_clustering.py $(BENCH_CLUSTERING_ARGS)
	$(BIN)/python bench/layout_incremental.py $(BENCH_INCREMENTAL_ARGS)
	$(BIN)/python bench/layout_planning.py $(BENCH_PLANNING_ARGS)
	$(BIN)/python bench/layout_tpch.py $(BENCH_LAYOUT_TPCH_ARGS)

.PHONY: bench-hudi-guards
bench-hudi-guards: $(VENV)/.built  ## Time markers, locks and the metadata table of upserts; TABLE=... as in bench/README.md
	$(BIN)/python bench/hudi_guards.py $(TABLE) $(BENCH_HUDI_GUARDS_ARGS)

.PHONY: bench-spark
bench-spark: java $(VENV)/.built  ## Time lookup joins in Spark against their bars: 20,000,000 records
	$(BIN)/python bench/joins.py $(BENCH_SPARK_ARGS)

.PHONY: bench-dimensions
bench-dimensions: java $(VENV)/.built  ## Time four dimensions of the same facts in Spark beside one: 5,000,000 facts
	$(BIN)/python bench/dimensions.py $(BENCH_DIMENSIONS_ARGS)

.PHONY: bench-spark-refresh
bench-spark-refresh: java $(VENV)/.built  ## Time a join in Spark right after its store has changed: 2,000,000 records
	$(BIN)/python bench/spark_refresh.py $(BENCH_SPARK_REFRESH_ARGS)

.PHONY: bench-tpch
bench-tpch: java $(VENV)/.built  ## Join TPC-H's tables by lookup and by Spark's own joins: scale 10
	$(BIN)/python bench/tpch.py $(BENCH_TPCH_ARGS)

# ---- packages ----------------------------------------------------------------------------------

dist/.sdist: $(PACKAGED) $(C_TESTS) $(VENV)/.dependencies
	rm -rf dist
	$(BIN)/python -m build --sdist --outdir dist .
	@touch $@

dist/.wheel: dist/.sdist
	rm -f dist/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --no-cache-dir --wheel-dir dist dist/*.tar.gz
	@touch $@

.PHONY: sdist
sdist: dist/.sdist  ## Make dist/lookupstore-VERSION.tar.gz

.PHONY: wheel
wheel: dist/.wheel  ## Make a wheel from the sdist

.PHONY: wheels
wheels: dist/.sdist  ## Make a manylinux wheel for each Python of this machine, in wheelhouse, and try each
	rm -rf wheelhouse
	.ci/wheels dist/*.tar.gz wheelhouse $(PYTHONS)

.PHONY: sbom
sbom: dist/.wheel  ## Write the bill of materials of the wheel, CycloneDX: dist/lookupstore.cdx.json
	$(BIN)/python .ci/sbom.py dist/*.whl dist/lookupstore.cdx.json

# Wheels for older systems and other platforms. Needs Docker on Linux. The sdist may be one that was
# downloaded.
.PHONY: ci-wheels
ci-wheels:  ## Make and test wheels for every Python on this platform, with cibuildwheel, in wheelhouse
	test -n "$$(ls dist/*.tar.gz 2>/dev/null)" || $(MAKE) sdist
	$(call new-venv,.venv-cibuildwheel,$(PYTHON))
	.venv-cibuildwheel/bin/python -m pip install --quiet 'cibuildwheel>=3,<4'
	.venv-cibuildwheel/bin/cibuildwheel --output-dir wheelhouse dist/*.tar.gz

.PHONY: check-version
check-version:  ## Check that TAG=vX.Y.Z is the version of the package and of the newest changes
	@version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' lookupstore/_version.py); \
	changes=$$(sed -n 's/^## \([0-9][^ ]*\).*/\1/p' CHANGELOG.md | head -n 1); \
	if [ "$(TAG)" != "v$$version" ] || [ "$$changes" != "$$version" ]; then \
	    echo "TAG is $(TAG), the package $$version and the newest changes $$changes" >&2; exit 1; \
	fi

.PHONY: test-wheel
test-wheel: dist/.wheel  ## Install the wheel in a new environment; run the demo and the suite, without Spark
	rm -rf .venv-wheel
	$(call new-venv,.venv-wheel,$(BIN)/python)
	.venv-wheel/bin/python -m pip install --quiet "$$(ls $(ROOT)/dist/*.whl)[test]"
	cd $$(mktemp -d) && $(ROOT)/.venv-wheel/bin/lookupstore demo --no-spark
	$(call fast-suite,.venv-wheel)

.PHONY: pythons
pythons: $(PYTHONS:%=python-%)  ## Build the sdist and run the suite without Spark on every Python found

# A pyenv shim may exist for an interpreter that is not there: only one that runs counts.
.PHONY: $(PYTHONS:%=python-%)
$(PYTHONS:%=python-%): python-%: dist/.sdist
	@for found in python$* $(HOME)/.pyenv/versions/$*.*/bin/python3 missing; do \
	    if "$$found" -c '' 2>/dev/null; then break; fi; \
	done; \
	if [ "$$found" = missing ]; then echo "== Python $*: not found, not tested"; exit 0; fi; \
	echo "== Python $*: $$found"; \
	rm -rf .venv-$*; \
	"$$found" -m venv .venv-$*; \
	.venv-$*/bin/python -m pip install --quiet "$$(ls $(ROOT)/dist/*.tar.gz)[test]"; \
	$(call fast-suite,.venv-$*)

# ---- housekeeping ------------------------------------------------------------------------------

.PHONY: clean
clean:  ## Remove everything that these targets made
	rm -rf .venv .venv-* build dist *.egg-info lookupstore-demo .hypothesis .mypy_cache .pytest_cache \
	    .ruff_cache spark-warehouse artifacts wheelhouse
	find lookupstore \( -name '*.so' -o -name '*.c' \) -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
