"""What options under Hudi's names mean: arguments of a new table, of a write, of a clustering.

Source: HoodieSparkSqlWriter, HoodieWriteConfig and HoodieClusteringConfig of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.layout.choice import LayoutChoice
from lookupstore.hudi.options import SORT_COLUMNS, TIMES, TableOptions
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.write.hoodie.given import Said, fields_of, said_in, with_said
from lookupstore.hudi.write.hoodie.option import Part
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

#: How a write is done: `WriteOptions`, or a dict of options under Hudi's names.
GivenOptions = WriteOptions | Mapping[str, Any]

_UTC = "UTC"
_GENERATORS = {
    "simple": "SIMPLE", "complex": "COMPLEX", "nonpartitioned": "NON_PARTITION",
    "timestampbased": "TIMESTAMP", "custom": "CUSTOM",
    # The same as types.
    "non_partition": "NON_PARTITION", "timestamp": "TIMESTAMP",
}  # fmt: skip
#: How much a clean retains, by its policy, unless that is said.
RETAINED = {"retain_commits": 10, "retain_hours": 24, "retain_versions": 3}
# What Hudi does after writes, unless it is told otherwise.
_INLINE_LAYOUT: Mapping[str, Any] = {
    "curve": "linear", "mapping": "value", "target_file_size": 1 << 30,
    "small_file_limit": 300 << 20,
}  # fmt: skip
#: What `TableServices` calls the arguments of `HudiTable.cluster`.
LAYOUT_FIELDS = {
    "by": "cluster_by", "curve": "cluster_curve", "mapping": "cluster_mapping",
    "target_file_size": "cluster_file_size", "small_file_limit": "cluster_small_file_limit",
}  # fmt: skip


def table_arguments(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new table, those among them that options under Hudi's names say.

    Options of writes are checked, and are for the writes.

    Args:
        given: Values by Hudi's names.
        arguments: Arguments of `HudiTable.create` that its caller gave.

    Raises:
        TypeError: if `given` has no names.
        ValueError: if a name or a value is not known, or contradicts another, or an argument.

    >>> named = {"hoodie.table.name": "visits", "hoodie.upsert.shuffle.parallelism": 2}
    >>> table_arguments(named, {"version": 8})
    {'version': 8, 'name': 'visits'}
    """
    said = said_in(given)
    for one in said:
        if one.option.part is Part.TIMES:
            raise ValueError(
                f"options: {one.name}: new tables have no folders of times; leave it out"
            )
        if one.option.field == "timezone" and one.value != _UTC:
            raise ValueError(
                f"options: {one.name} is {one.text!r}; new tables have {_UTC}; leave it out"
            )
        if one.option.field == "ordering" and len(one.value) > 1:
            raise ValueError(f"options: {one.value!r} are ordering columns; give one")
    made = with_said(said, arguments, Part.TABLE)
    made.pop("timezone", None)
    if isinstance(made.get("ordering"), tuple):
        made["ordering"] = made["ordering"][0] if made["ordering"] else None
    _options(said, "")
    return made


def check_generator(given: Mapping[str, Any], table: TableOptions) -> None:
    """Check that a key generator which options under Hudi's names say is that of the table.

    Raises:
        ValueError: it is not.
    """
    _check_generator(said_in(given), table)


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
    said = said_in(given)
    _check_table(said, table)
    _check_operation(said, operation)
    return _options(said, operation)


def cluster_arguments(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a clustering, those among them that options under Hudi's names say.

    Args:
        given: Values by Hudi's names.
        arguments: Arguments of `HudiTable.cluster` that its caller gave.

    Raises:
        ValueError: if an option contradicts an argument.

    >>> cluster_arguments({"hoodie.layout.optimize.strategy": "z-order"}, {"by": "a"})
    {'by': 'a', 'curve': 'zorder'}
    """
    return with_said(said_in(given), arguments, Part.LAYOUT)


def layout_choice(
    arguments: Mapping[str, Any], options: GivenOptions | None, *, incremental: bool
) -> LayoutChoice:
    """Return how a clustering puts rows in order.

    Args:
        arguments: Arguments of `HudiTable.cluster` that its caller gave.
        options: Options that it was given, those under Hudi's names among them.
        incremental: Whether it goes on with an order.

    Raises:
        ValueError: if an option contradicts an argument, or there is no such order.

    >>> named = {"hoodie.layout.optimize.strategy": "z-order"}
    >>> layout_choice({"by": "a"}, named, incremental=False).curve
    'zorder'
    """
    if isinstance(options, Mapping):
        arguments = cluster_arguments(options, arguments)
    wanted = {"by": (), **arguments}
    if wanted.get("curve") is None:
        by_value = wanted.get("mapping") == "value"
        wanted["curve"] = "hilbert" if incremental or by_value else "grid"
    return LayoutChoice(**wanted)


def _check_table(said: Sequence[Said], table: TableOptions) -> None:
    """Check that options say of a table what it says itself."""
    _check_generator(said, table)
    for one in said:
        if one.option.part is Part.TABLE:
            there = getattr(table, one.option.field)
            if one.option.field == "timezone":
                there = there or "LOCAL"
            if one.value != there:
                raise ValueError(f"options: {one.name} is {one.text!r}; the table has {there!r}")
        if one.option.part is Part.TIMES:
            start = next(start for start in TIMES if one.name.lower().startswith(start))
            there = table.time_format.get(one.name[len(start) :], (one.name, None))[1]
            if one.text != there:
                raise ValueError(f"options: {one.name} is {one.text!r}; the table has {there!r}")


def _check_generator(said: Sequence[Said], table: TableOptions) -> None:
    for one in said:
        if one.option.part is not Part.GENERATOR:
            continue
        kind = one.text.rpartition(".")[2].lower().removesuffix("keygenerator")
        if _GENERATORS.get(kind.removesuffix("avro")) != table.key_generator:
            raise ValueError(
                f"options: {one.name} is {one.text!r}; with its columns of key and partition the "
                f"table has {table.key_generator}: leave the option out"
            )


def _check_operation(said: Sequence[Said], operation: str) -> None:
    for one in said:
        if one.option.part is Part.OPERATION and one.text.upper() != operation:
            raise ValueError(
                f"options: {one.name} is {one.text!r}, but this is {operation.lower()}; "
                "call what is wanted, or leave the option out"
            )


def _options(said: Sequence[Said], operation: str) -> WriteOptions:
    own = fields_of(said, Part.WRITE)
    if "sort_by" in own:
        # As in Hudi, columns are sorted by when they are named.
        own.setdefault("sort_mode", "global_sort")
    for one in said:
        if one.option.part is Part.COMBINE and operation in one.option.field.split():
            own["combine"] = one.value
        if one.option.part is Part.MOVES and own.get("index") == one.option.field:
            own["update_partition_path"] = one.value
    return WriteOptions(
        **own,
        services=_services(said),
        sizing=FileSizing(**fields_of(said, Part.SIZING)),
        format=FileFormat(**fields_of(said, Part.FORMAT)),
    )


def _services(said: Sequence[Said]) -> TableServices:
    """Return what follows a write: what is named is wanted, unless it is said that it is not.

    Only a clustering is not, unless that is said.
    """
    found: dict[str, Any] = {}
    clean = fields_of(said, Part.CLEAN)
    if clean.pop("automatic", bool(clean)):
        named = [one for one in RETAINED if one in clean]
        # As in Hudi, one number says the policy, and of several that of commits counts.
        policy = clean.get("policy", named[0] if len(named) == 1 else "retain_commits")
        found[policy] = clean.get(policy, RETAINED[policy])
    archive = fields_of(said, Part.ARCHIVE)
    if archive.pop("automatic", bool(archive)):
        found |= {"archive": True, **archive}
    clustering = fields_of(said, Part.INLINE)
    if clustering.pop("inline", False):
        layout = {**_INLINE_LAYOUT, **fields_of(said, Part.LAYOUT)}
        if not layout.get("by"):
            by = next(one.name for one in said if one.option.field == "inline")
            raise ValueError(f"options: {by} is true; name the columns in {SORT_COLUMNS}")
        found |= clustering | {LAYOUT_FIELDS[name]: value for name, value in layout.items()}
    services = TableServices(**found)
    return services if fields_of(said, Part.SERVICES).get("enabled", True) else TableServices()
