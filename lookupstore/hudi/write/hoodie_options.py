"""Options of a write or a new table under Hudi's names, as a writer in Java is given them.

`docs/hudi-tables.md` has each name, and what it is here.

Source: HoodieWriteConfig, HoodieIndexConfig, HoodieStorageConfig, HoodieCompactionConfig,
HoodieCleanConfig, HoodieArchivalConfig, HoodieClusteringConfig, DataSourceWriteOptions and
HoodieTableConfig of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE
from lookupstore.hudi.options import MAINTAIN, REFUSE, SORT_COLUMNS, TIMES, TableOptions
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

#: How a write is done: `WriteOptions`, or a dict of options under Hudi's names.
GivenOptions = WriteOptions | Mapping[str, Any]

_Parse = Callable[[str], Any]


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number") from None


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _one_of(known: Mapping[str, Any]) -> _Parse:
    def parse(text: str) -> Any:
        if text.lower() not in known:
            raise ValueError(" or ".join(known))
        return known[text.lower()]

    return parse


_WRITE = "hoodie.datasource.write."
# Of a table. Given for a write, they have to say what the table is.
_TABLE: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.table.name": ("name", str),
    f"{_WRITE}table.name": ("name", str),
    "hoodie.database.name": ("database", str),
    "hoodie.table.recordkey.fields": ("record_key", _columns),
    f"{_WRITE}recordkey.field": ("record_key", _columns),
    "hoodie.table.partition.fields": ("partition_by", _columns),
    f"{_WRITE}partitionpath.field": ("partition_by", _columns),
    "hoodie.table.ordering.fields": ("ordering", _columns),
    "hoodie.table.precombine.field": ("ordering", _columns),
    f"{_WRITE}precombine.field": ("ordering", _columns),
    "hoodie.record.merge.mode": ("merge_mode", str),
    f"{_WRITE}record.merge.mode": ("merge_mode", str),
    "hoodie.table.version": ("version", _number),
    "hoodie.write.table.version": ("version", _number),
    f"{_WRITE}hive_style_partitioning": ("hive_style", _flag),
    f"{_WRITE}partitionpath.urlencode": ("url_encode", _flag),
}
# Arguments of a new table that nobody gave.
_DEFAULTS: Mapping[str, Any] = {
    "name": None, "database": None, "record_key": (), "partition_by": (), "ordering": None,
    "merge_mode": None, "version": 9, "hive_style": False, "url_encode": False,
}  # fmt: skip
_GENERATORS = {
    "simple": "SIMPLE", "complex": "COMPLEX", "nonpartitioned": "NON_PARTITION",
    "timestampbased": "TIMESTAMP", "custom": "CUSTOM",
}  # fmt: skip
_GENERATOR = f"{_WRITE}keygenerator.class"
# Of a write: the field of `WriteOptions`, of its sizing, or of its format.
_WRITES: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.index.type": (
        "index",
        _one_of(
            {
                "bloom": "bloom", "simple": "simple", "inmemory": "in-memory",
                "global_bloom": "global-bloom", "global_simple": "global-simple",
            }
        ),
    ),
    f"{_WRITE}insert.drop.duplicates": (
        "duplicates", _one_of({"true": "drop", "false": "allow"}),
    ),
    "hoodie.datasource.insert.dup.policy": (
        "duplicates", _one_of({"none": "allow", "drop": "drop", "fail": "fail"}),
    ),
    "hoodie.write.ignore.failed": (
        "on_error", _one_of({"true": "collect", "false": "raise"}),
    ),
    "hoodie.write.set.null.for.missing.columns": (
        "missing", _one_of({"true": "null", "false": None}),
    ),
    "hoodie.bulkinsert.sort.mode": (
        "sort_mode",
        _one_of({name: name for name in ("none", "global_sort", "partition_sort")}),
    ),
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns": ("sort_by", _columns),
    "hoodie.write.num.retries.on.conflict.failures": ("retries", _number),
    "hoodie.metadata.enable": ("metadata", _one_of({"true": MAINTAIN, "false": REFUSE})),
}  # fmt: skip
# Each is for one index, and says nothing of the others.
_MOVES = {
    "hoodie.bloom.index.update.partition.path": "global-bloom",
    "hoodie.simple.index.update.partition.path": "global-simple",
}
_SIZING: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.parquet.max.file.size": ("max_file_size", _number),
    "hoodie.parquet.small.file.limit": ("small_file_limit", _number),
    "hoodie.copyonwrite.record.size.estimate": ("record_size", _number),
    "hoodie.copyonwrite.insert.split.size": ("split_size", _number),
    "hoodie.copyonwrite.insert.auto.split": ("auto_split", _flag),
    "hoodie.record.size.estimation.threshold": ("threshold", _rate),
}
_FORMAT: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.parquet.compression.codec": (
        "compression",
        _one_of({"uncompressed": "none"} | {one: one for one in ("snappy", "gzip", "zstd")}),
    ),
    "hoodie.parquet.block.size": ("row_group_bytes", _number),
    "hoodie.index.bloom.fpp": ("error_rate", _rate),
}
# How much a clean retains, by its policy, unless that is said.
_RETAINED = {"retain_commits": 10, "retain_hours": 24, "retain_versions": 3}
_POLICY = _one_of(
    {
        "keep_latest_commits": "retain_commits",
        "keep_latest_by_hours": "retain_hours",
        "keep_latest_file_versions": "retain_versions",
    }
)
_CLEAN: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.clean.automatic": ("automatic", _flag),
    "hoodie.clean.policy": ("policy", _POLICY),
    "hoodie.cleaner.policy": ("policy", _POLICY),
    "hoodie.clean.commits.retained": ("retain_commits", _number),
    "hoodie.cleaner.commits.retained": ("retain_commits", _number),
    "hoodie.clean.hours.retained": ("retain_hours", _number),
    "hoodie.cleaner.hours.retained": ("retain_hours", _number),
    "hoodie.clean.fileversions.retained": ("retain_versions", _number),
    "hoodie.cleaner.fileversions.retained": ("retain_versions", _number),
}
_ARCHIVE: Mapping[str, tuple[str, _Parse]] = {
    "hoodie.archive.automatic": ("automatic", _flag),
    "hoodie.keep.min.commits": ("min_commits", _number),
    "hoodie.keep.max.commits": ("max_commits", _number),
}
_INLINE = "hoodie.clustering.inline"
# How rows are put in order: the argument of `HudiTable.cluster`.
_LAYOUT: Mapping[str, tuple[str, _Parse]] = {
    SORT_COLUMNS: ("by", _columns),
    "hoodie.layout.optimize.strategy": (
        "curve", _one_of({"linear": "linear", "z-order": "zorder", "hilbert": "hilbert"}),
    ),
    "hoodie.layout.optimize.curve.build.method": (
        "mapping", _one_of({"direct": "value", "sample": "sample"}),
    ),
    "hoodie.clustering.plan.strategy.target.file.max.bytes": ("target_file_size", _number),
    "hoodie.clustering.plan.strategy.small.file.limit": ("small_file_limit", _number),
}  # fmt: skip
_CLUSTER: Mapping[str, tuple[str, _Parse]] = {
    _INLINE: ("inline", _flag),
    "hoodie.clustering.inline.max.commits": ("cluster_commits", _number),
}
# What Hudi does after writes, unless it is told otherwise.
_INLINE_LAYOUT: Mapping[str, Any] = {
    "curve": "linear", "mapping": "value", "target_file_size": 1 << 30,
    "small_file_limit": 300 << 20,
}  # fmt: skip
# What `TableServices` calls them.
_SERVICES = {
    "by": "cluster_by", "curve": "cluster_curve", "mapping": "cluster_mapping",
    "target_file_size": "cluster_file_size", "small_file_limit": "cluster_small_file_limit",
}  # fmt: skip
# Arguments of a clustering that nobody gave.
_CLUSTER_DEFAULTS: Mapping[str, Any] = {
    "by": (), "curve": None, "mapping": "sample", "target_file_size": TARGET_FILE_SIZE,
    "small_file_limit": None,
}  # fmt: skip
_COMBINE = {
    f"hoodie.combine.before.{verb}": operations
    for verb, operations in (
        ("insert", ("INSERT", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE")),
        ("upsert", ("UPSERT",)),
        # Whether keys to delete are repeated makes no difference.
        ("delete", ()),
    )
}
_OPERATION = f"{_WRITE}operation"
_CLUSTERING = "org.apache.hudi.client.clustering."
# What is done here in one way: the only values that ask for that.
_FIXED: Mapping[str, Collection[str]] = {
    "hoodie.table.type": ("copy_on_write",),
    f"{_WRITE}table.type": ("copy_on_write",),
    f"{_WRITE}storage.type": ("copy_on_write",),
    "hoodie.table.base.file.format": ("parquet",),
    "hoodie.populate.meta.fields": ("true",),
    "hoodie.clustering.async.enabled": ("false",),
    "hoodie.clustering.schedule.inline": ("false",),
    "hoodie.clustering.preserve.commit.metadata": ("true",),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": ("false",),
    "hoodie.clustering.plan.partition.filter.mode": ("none",),
    "hoodie.clustering.plan.strategy.class": (
        f"{_CLUSTERING}plan.strategy.SparkSizeBasedClusteringPlanStrategy",
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}run.strategy.SparkSortAndSizeExecutionStrategy",
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_CLUSTERING}update.strategy.SparkRejectUpdateStrategy",
    ),
    "hoodie.write.markers.type": ("direct",),
    "hoodie.rollback.using.markers": ("true", "false"),
    "hoodie.datasource.hive_sync.enable": ("false",),
    "hoodie.datasource.meta.sync.enable": ("false",),
}
# How a JVM or Spark goes about it: there is nothing here that they could change.
_WITHOUT_EFFECT = frozenset(
    f"hoodie.{kind}.shuffle.parallelism" for kind in ("upsert", "insert", "bulkinsert", "delete")
) | {
    "hoodie.clustering.max.parallelism",
    "hoodie.clustering.plan.strategy.max.bytes.per.group",
    "hoodie.clustering.plan.strategy.max.num.groups",
    "hoodie.layout.optimize.build.curve.sample.size",
}
_KNOWN = (
    *_TABLE, _GENERATOR, *_WRITES, *_MOVES, *_SIZING, *_FORMAT, *_CLEAN, *_ARCHIVE, *_LAYOUT,
    *_CLUSTER, *_COMBINE,
    _OPERATION, *_FIXED, *_WITHOUT_EFFECT,
)  # fmt: skip


def told_apart(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return those of some options that have Hudi's names, and the others.

    >>> told_apart({"hoodie.index.type": "BLOOM", "path": "visits"})
    ({'hoodie.index.type': 'BLOOM'}, {'path': 'visits'})
    """
    named = {name: text for name, text in options.items() if name.startswith("hoodie.")}
    return named, {name: text for name, text in options.items() if name not in named}


def operation_in(given: Mapping[str, str]) -> str | None:
    """Return the operation that options under Hudi's names ask for."""
    return given.get(_OPERATION)


def table_arguments(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new table, those among them that options under Hudi's names say.

    Options of writes are checked, and are for the writes.

    Args:
        given: the options.
        arguments: of `HudiTable.create`.

    Raises:
        TypeError: `given` has no names.
        ValueError: a name or a value is not known, or contradicts another, or an argument.

    >>> named = {"hoodie.table.name": "visits", "hoodie.upsert.shuffle.parallelism": 2}
    >>> table_arguments(named, {"name": None, "version": 8})
    {'name': 'visits', 'version': 8}
    """
    texts = _checked(given)
    times = [name for name in texts if _times_of(name) is not None]
    if times:
        raise ValueError(f"options: {times[0]}: new tables have no folders of times; leave it out")
    said = _taken(texts, _TABLE)
    if "ordering" in said:
        if len(said["ordering"]) > 1:
            raise ValueError(f"options: {said['ordering']!r} are ordering columns; give one")
        said["ordering"] = said["ordering"][0] if said["ordering"] else None
    for name, value in said.items():
        there = arguments[name]
        if isinstance(value, tuple):
            there = (there,) if isinstance(there, str) else tuple(there)
        if there not in (_DEFAULTS[name], value):
            raise ValueError(f"{name} is {there!r}, but options say {value!r}; give one of them")
    _write_options(texts, "")
    return {**arguments, **said}


def check_generator(given: Mapping[str, Any], table: TableOptions) -> None:
    """Check that a key generator which options under Hudi's names say is that of the table.

    Raises:
        ValueError: it is not.
    """
    text = given.get(_GENERATOR)
    if text is None:
        return
    kind = str(text).rpartition(".")[2].lower().removesuffix("keygenerator")
    if _GENERATORS.get(kind) != table.key_generator:
        raise ValueError(
            f"options: {_GENERATOR} is {text!r}; with its columns of key and partition the table "
            f"has {table.key_generator}: leave the option out"
        )


def given_options(given: GivenOptions | None, table: TableOptions, operation: str) -> WriteOptions:
    """Return how a write is done.

    Args:
        given: as of `WriteOptions`, or options under Hudi's names; None: as it is by default.
        table: options of the table. Those that say something else of it are an error.
        operation: name of the write, as Hudi has it.

    Raises:
        TypeError: `given` is something else.
        ValueError: a name or a value is not known, contradicts the table or the operation, or two
            contradict each other.
    """
    if given is None:
        return WriteOptions()
    if isinstance(given, WriteOptions):
        return given
    texts = _checked(given)
    check_generator(given, table)
    for name, (field, parse) in _TABLE.items():
        if name in texts:
            wanted, there = _parsed(name, texts[name], parse), getattr(table, field)
            if wanted != there:
                raise ValueError(f"options: {name} is {texts[name]!r}; the table has {there!r}")
    for name, text in texts.items():
        start = _times_of(name)
        if start is not None:
            there = table.time_format.get(name.removeprefix(start), (name, None))[1]
            if text != there:
                raise ValueError(f"options: {name} is {text!r}; the table has {there!r}")
    asked = texts.get(_OPERATION, operation).upper()
    if asked != operation:
        raise ValueError(
            f"options: {_OPERATION} is {texts[_OPERATION]!r}, but this is {operation.lower()}; "
            "call what is wanted, or leave the option out"
        )
    return _write_options(texts, operation)


def cluster_arguments(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a clustering, those among them that options under Hudi's names say.

    Args:
        given: the options, which are known.
        arguments: of `HudiTable.cluster`.

    Raises:
        ValueError: a value contradicts an argument.

    >>> named = {"hoodie.layout.optimize.strategy": "z-order"}
    >>> cluster_arguments(named, {"by": "a", "curve": None})
    {'by': 'a', 'curve': 'zorder'}
    """
    said = _taken(_checked(given), _LAYOUT)
    for name, value in said.items():
        there = arguments[name]
        if name == "by":
            there = (there,) if isinstance(there, str) else tuple(there)
        if there not in (_CLUSTER_DEFAULTS[name], value):
            raise ValueError(f"{name} is {there!r}, but options say {value!r}; give one of them")
    return {**arguments, **said}


def _write_options(texts: Mapping[str, str], operation: str) -> WriteOptions:
    fields = _taken(texts, _WRITES)
    if "sort_by" in fields:
        # As in Hudi, columns are sorted by when they are named.
        fields.setdefault("sort_mode", "global_sort")
    for name, operations in _COMBINE.items():
        if name in texts:
            combine = _parsed(name, texts[name], _flag)
            if operation in operations:
                fields["combine"] = combine
    for name, index in _MOVES.items():
        if name in texts:
            moves = _parsed(name, texts[name], _flag)
            if fields.get("index") == index:
                fields["update_partition_path"] = moves
    return WriteOptions(
        **fields,
        services=_services(texts),
        sizing=FileSizing(**_taken(texts, _SIZING)),
        format=FileFormat(**_taken(texts, _FORMAT)),
    )


def _services(texts: Mapping[str, str]) -> TableServices:
    """Return what follows a write: what is named is wanted, unless it is said that it is not.

    Only a clustering is not, unless that is said.
    """
    fields: dict[str, Any] = {}
    clean = _taken(texts, _CLEAN)
    if clean.pop("automatic", bool(clean)):
        named = [one for one in _RETAINED if one in clean]
        # As in Hudi, one number says the policy, and of several that of commits counts.
        policy = clean.get("policy", named[0] if len(named) == 1 else "retain_commits")
        fields[policy] = clean.get(policy, _RETAINED[policy])
    archive = _taken(texts, _ARCHIVE)
    if archive.pop("automatic", bool(archive)):
        fields |= {"archive": True, **archive}
    clustering = _taken(texts, _CLUSTER)
    if clustering.pop("inline", False):
        layout = {**_INLINE_LAYOUT, **_taken(texts, _LAYOUT)}
        if not layout.get("by"):
            raise ValueError(f"options: {_INLINE} is true; name the columns in {SORT_COLUMNS}")
        fields |= clustering | {_SERVICES[name]: value for name, value in layout.items()}
    return TableServices(**fields)


def _checked(given: Mapping[str, Any]) -> dict[str, str]:
    """Return options as texts, if each is known."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"options is {type(given).__name__}; give WriteOptions, or a dict of Hudi's names"
        )
    texts = {}
    unknown = []
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        if name not in _KNOWN and _times_of(str(name)) is None:
            near = get_close_matches(str(name), _KNOWN, 1)
            unknown.append(f"{name!r}" + (f" (nearest: {near[0]})" if near else ""))
            continue
        texts[name] = text
        only = _FIXED.get(name)
        if only is not None and text.lower() not in map(str.lower, only):
            raise ValueError(f"options: {name} is {text!r}; supported: {' or '.join(only)}")
    if unknown:
        raise ValueError(f"options: not known here: {', '.join(unknown)}")
    return texts


def _times_of(name: str) -> str | None:
    """Return how an option begins that says how times become folders; None: it is another."""
    return next((start for start in TIMES if name.startswith(start)), None)


def _taken(texts: Mapping[str, str], known: Mapping[str, tuple[str, _Parse]]) -> dict[str, Any]:
    """Return what options say, by the names that it has here."""
    fields: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, (field, parse) in known.items():
        if name not in texts:
            continue
        value = _parsed(name, texts[name], parse)
        if fields.setdefault(field, value) != value:
            raise ValueError(
                f"options: {name} is {texts[name]!r}, but {said[field]} is {texts[said[field]]!r}; "
                "give one of them"
            )
        said.setdefault(field, name)
    return fields


def _parsed(name: str, text: str, parse: _Parse) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"options: {name} is {text!r}; give {error}") from None
