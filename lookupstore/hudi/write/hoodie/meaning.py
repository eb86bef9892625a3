"""Convert options under Hudi's names to arguments of tables, writes, clustering.

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
from lookupstore.hudi.write.hoodie.option import OptionPart
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

#: Options of a write: `WriteOptions`, or a dict of options under Hudi's names.
GivenOptions = WriteOptions | Mapping[str, Any]

_UTC = "UTC"
_GENERATORS = {
    "simple": "SIMPLE", "complex": "COMPLEX", "nonpartitioned": "NON_PARTITION",
    "timestampbased": "TIMESTAMP", "custom": "CUSTOM",
    # The same names as those of types.
    "non_partition": "NON_PARTITION", "timestamp": "TIMESTAMP",
}  # fmt: skip
#: Default numbers of what a clean retains, by policy.
RETAINED = {"retain_commits": 10, "retain_hours": 24, "retain_versions": 3}
# Defaults of Hudi after writes.
_INLINE_LAYOUT: Mapping[str, Any] = {
    "curve": "linear", "mapping": "value", "target_file_size": 1 << 30,
    "small_file_limit": 300 << 20,
}  # fmt: skip
#: Names in `TableServices` of the arguments of `HudiTable.cluster`.
LAYOUT_FIELDS = {
    "by": "cluster_by", "curve": "cluster_curve", "mapping": "cluster_mapping",
    "target_file_size": "cluster_file_size", "small_file_limit": "cluster_small_file_limit",
}  # fmt: skip


def table_arguments(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new table, with those from options under Hudi's names.

    Options of writes are checked, and otherwise ignored.

    Args:
        given: Values by Hudi's names.
        arguments: Arguments of `HudiTable.create` that its caller gave.

    Raises:
        TypeError: If `given` is not a dict of values by name.
        ValueError: If a name or a value is not known, or contradicts another one or an argument.

    >>> named = {"hoodie.table.name": "visits", "hoodie.upsert.shuffle.parallelism": 2}
    >>> table_arguments(named, {"version": 8})
    {'version': 8, 'name': 'visits'}
    """
    said = said_in(given)
    for one in said:
        if one.option.part is OptionPart.TIMES:
            raise ValueError(
                f"options: {one.name}: new tables have no folders of times; leave it out"
            )
        if one.option.field == "timezone" and one.value != _UTC:
            raise ValueError(
                f"options: {one.name} is {one.text!r}; new tables have {_UTC}; leave it out"
            )
        if one.option.field == "ordering" and len(one.value) > 1:
            raise ValueError(f"options: {one.value!r} are ordering columns; give one")
    made = with_said(said, arguments, OptionPart.TABLE)
    made.pop("timezone", None)
    if isinstance(made.get("ordering"), tuple):
        made["ordering"] = made["ordering"][0] if made["ordering"] else None
    _options(said, "")
    return made


def check_generator(given: Mapping[str, Any], table: TableOptions) -> None:
    """Check that a key generator in options under Hudi's names is that of the table.

    Raises:
        ValueError: If the table has another key generator.
    """
    _check_generator(said_in(given), table)


def given_options(given: GivenOptions | None, table: TableOptions, operation: str) -> WriteOptions:
    """Return the options of a write.

    Args:
        given: Options as `WriteOptions`, or as a dict of values by Hudi's names. None: the default
            options.
        table: Options of the table, which given options must not contradict.
        operation: Hudi's name of the write, such as `UPSERT`.

    Raises:
        TypeError: If `given` is neither.
        ValueError: If a name or a value is not known, contradicts the table, the operation or
            another option.
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
    """Return the arguments of a clustering, with options under Hudi's names.

    Args:
        given: Values by Hudi's names.
        arguments: Arguments of `HudiTable.cluster` that its caller gave.

    Raises:
        ValueError: If an option contradicts an argument.

    >>> cluster_arguments({"hoodie.layout.optimize.strategy": "z-order"}, {"by": "a"})
    {'by': 'a', 'curve': 'zorder'}
    """
    return with_said(said_in(given), arguments, OptionPart.LAYOUT)


def layout_choice(
    arguments: Mapping[str, Any], options: GivenOptions | None, *, incremental: bool
) -> LayoutChoice:
    """Return the layout of a clustering.

    Args:
        arguments: Arguments of `HudiTable.cluster` that its caller gave.
        options: Options of the clustering. A dict has values by Hudi's names.
        incremental: Whether the clustering continues the order of an earlier one.

    Raises:
        ValueError: If an option contradicts an argument, or the order is not supported.

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
    """Check that options about the table agree with the table's own options."""
    _check_generator(said, table)
    for one in said:
        if one.option.part is OptionPart.TABLE:
            there = getattr(table, one.option.field)
            if one.option.field == "timezone":
                there = there or "LOCAL"
            if one.value != there:
                raise _contradiction(one, there)
        if one.option.part is OptionPart.TIMES:
            start = next(start for start in TIMES if one.name.lower().startswith(start))
            there = table.time_format.get(one.name[len(start) :], (one.name, None))[1]
            if one.text != there:
                raise _contradiction(one, there)


def _contradiction(one: Said, there: object) -> ValueError:
    """Return the error for an option that contradicts the table."""
    has = ",".join(there) if isinstance(there, tuple) else there
    shown = "none" if has in (None, "") else repr(has)
    return ValueError(
        f"options: {one.name} is {one.text!r}; the table has {shown}: leave the option out"
    )


def _check_generator(said: Sequence[Said], table: TableOptions) -> None:
    for one in said:
        if one.option.part is not OptionPart.GENERATOR:
            continue
        kind = one.text.rpartition(".")[2].lower().removesuffix("keygenerator")
        if _GENERATORS.get(kind.removesuffix("avro")) != table.key_generator:
            raise ValueError(
                f"options: {one.name} is {one.text!r}; with its columns of key and partition the "
                f"table has {table.key_generator}: leave the option out"
            )


def _check_operation(said: Sequence[Said], operation: str) -> None:
    for one in said:
        if one.option.part is OptionPart.OPERATION and one.text.upper() != operation:
            raise ValueError(
                f"options: {one.name} is {one.text!r}, but this is {operation.lower()}; "
                "call what is wanted, or leave the option out"
            )


def _options(said: Sequence[Said], operation: str) -> WriteOptions:
    own = fields_of(said, OptionPart.WRITE)
    if "sort_by" in own:
        # As in Hudi, rows are sorted by columns if columns are named.
        own.setdefault("sort_mode", "global_sort")
    for one in said:
        if one.option.part is OptionPart.COMBINE and operation in one.option.field.split():
            own["combine"] = one.value
        if one.option.part is OptionPart.MOVES and own.get("index") == one.option.field:
            own["update_partition_path"] = one.value
    return WriteOptions(
        **own,
        services=_services(said),
        sizing=FileSizing(**fields_of(said, OptionPart.SIZING)),
        format=FileFormat(**fields_of(said, OptionPart.FORMAT)),
    )


def _services(said: Sequence[Said]) -> TableServices:
    """Return the services after a write: those with options, unless one is off.

    A clustering follows only if `hoodie.clustering.inline` is true.
    """
    found: dict[str, Any] = {}
    clean = fields_of(said, OptionPart.CLEAN)
    if clean.pop("automatic", bool(clean)):
        named = [one for one in RETAINED if one in clean]
        # As in Hudi, a single number determines the policy; with several, that of commits is used.
        policy = clean.get("policy", named[0] if len(named) == 1 else "retain_commits")
        found[policy] = clean.get(policy, RETAINED[policy])
    archive = fields_of(said, OptionPart.ARCHIVE)
    if archive.pop("automatic", bool(archive)):
        found |= {"archive": True, **archive}
    clustering = fields_of(said, OptionPart.INLINE)
    if clustering.pop("inline", False):
        layout = {**_INLINE_LAYOUT, **fields_of(said, OptionPart.LAYOUT)}
        if not layout.get("by"):
            by = next(one.name for one in said if one.option.field == "inline")
            raise ValueError(f"options: {by} is true; name the columns in {SORT_COLUMNS}")
        found |= clustering | {LAYOUT_FIELDS[name]: value for name, value in layout.items()}
    services = TableServices(**found)
    return (
        services if fields_of(said, OptionPart.SERVICES).get("enabled", True) else TableServices()
    )
