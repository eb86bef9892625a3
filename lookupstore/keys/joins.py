"""Check the arguments of a join by key, and look up its keys, for every engine.

`lookupstore.spark` uses it in its workers, `lookupstore.keys.facts` for all other rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import keep, take
from lookupstore.arrow.uuids import is_uuid
from lookupstore.errors import listed, meant
from lookupstore.keys.arguments import Column
from lookupstore.keys.schema import KeySchema
from lookupstore.processors import processors

if TYPE_CHECKING:
    from lookupstore.keys.lookups import Lookups

How = Literal["left", "inner", "semi", "anti"]
On: TypeAlias = "str | Sequence[str] | Mapping[str, str]"

HOWS: tuple[How, ...] = ("left", "inner", "semi", "anti")
# Spark's names of these joins, which it matches without regard to case and underscores.
_SPARK_HOWS: dict[str, How] = {"leftouter": "left", "leftsemi": "semi", "leftanti": "anti"}
#: Maximum number of keys to look up at once: more take as long per key, and need more memory.
CALL_KEYS = 1 << 20
#: Minimum number of keys for which a thread is started, which takes as long as some thousand keys.
THREAD_KEYS = 1 << 15
#: Maximum number of threads that look up the keys of one join.
MOST_THREADS = min(4, processors())
#: Whether the key of each row is found, and the value columns of the found rows.
Found: TypeAlias = "tuple[pa.BooleanArray, list[pa.ChunkedArray]]"


def how_of(given: str) -> How:
    """Return the kind of join of a name, including Spark's other names.

    Raises:
        ValueError: If there is no such join.

    >>> how_of("left_semi")
    'semi'
    """
    name = str(given).lower().replace("_", "")
    for how in HOWS:
        if how in (name, _SPARK_HOWS.get(name)):
            return how
    raise ValueError(f"how is {given!r}; give one of {', '.join(map(repr, HOWS))}")


def check_adds_nothing(how: How, **given: object) -> None:
    """Raise ValueError if a semi or anti join has an argument about appended columns."""
    if how in ("semi", "anti"):
        for argument, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{argument} is {value!r}; {how} joins add no columns: leave it out"
                )


def check_texts(prefix: object, found: object) -> None:
    """Raise TypeError if the prefix or the mark of a join is not a text."""
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"prefix is {prefix!r}; give a text that goes before names")
    if found is not None and not isinstance(found, str):
        raise TypeError(f"found is {found!r}; give the name of the column to append")


def name_pairs(on: On) -> list[tuple[str, str]]:
    """Return pairs of the names of a fact column and its key column.

    Raises:
        TypeError: If `on` contains something else than a name.

    >>> name_pairs(["a", "b"]), name_pairs({"fact": "key"})
    ([('a', 'a'), ('b', 'b')], [('fact', 'key')])
    """
    pairs: list[tuple[Any, Any]]
    if isinstance(on, Mapping):
        pairs = list(on.items())
    else:
        try:
            names = [on] if isinstance(on, str) else list(on)
        except TypeError:  # an expression of Spark, or of another library
            names = [on]  # type: ignore[list-item]
        pairs = [(name, name) for name in names]
    # Columns of pandas with several levels are tuples.
    of_facts = (str, tuple) if isinstance(on, Mapping) else (str,)
    for fact, key in pairs:
        if not isinstance(fact, of_facts) or not isinstance(key, str):
            name = key if isinstance(fact, of_facts) else fact
            raise TypeError(
                f"on: found a {type(name).__name__}; give names of fact columns, or a dict from "
                "fact column to key column, such as {'fact': 'key'}"
            )
    return pairs


def key_columns(facts: Sequence[Any], keys: KeySchema, on: On) -> tuple[str, ...]:
    """Return the names of the fact columns of the key fields, in the order of the key.

    Args:
        facts: Names of the fact columns.
        keys: Schema of the key.
        on: Names of the fact columns that hold the key, or a dict from fact column to key column.

    Raises:
        TypeError: If `on` contains something else than names.
        KeyError: If the facts or the key do not have a column, or a column of the key is missing.
        ValueError: If the facts have two columns of one name, or `on` names a key column twice.
    """
    fact_of: dict[str, str] = {}
    for fact, key in name_pairs(on):
        if fact not in facts:
            others = meant(fact, facts, f"they have [{listed(facts)}]")
            if fact != key and fact in keys.names and key in facts:
                others = f"; the fact column comes first: {{{key!r}: {fact!r}}}"
            raise KeyError(f"on: the facts have no column {fact!r}{others}")
        if list(facts).count(fact) > 1:
            raise ValueError(f"on: the facts have more than one column {fact!r}; rename them")
        if key not in keys.names:
            others = meant(key, keys.names, f"its key is {keys.names}")
            raise KeyError(
                f"on: the store has no key column {key!r}{others}; if the names differ, give a "
                "dict from fact column to key column"
            )
        if key in fact_of:
            raise ValueError(f"on: the key column {key!r} is given twice")
        fact_of[key] = fact
    for name in keys.names:
        if name not in fact_of:
            raise KeyError(
                f"on: no fact column for the key column {name!r}; the key of the store is "
                f"{keys.names}"
            )
    return tuple(fact_of[name] for name in keys.names)


def can_equal(given: pa.DataType, key: pa.Field) -> bool:
    """Return whether values of a type can equal those of a key field."""
    try:
        KeySchema(pa.schema([key])).encode_masked([pa.nulls(0, given)])
    except TypeError:
        return False
    return True


def check_kind(
    given: pa.DataType, key: pa.Field, fact: str, shown: str, wanted: str | None = None
) -> None:
    """Raise TypeError unless values of a fact column can equal those of a key field.

    Args:
        given: Arrow type of the fact column.
        key: Field of the key column.
        fact: Name of the fact column.
        shown: Type of the fact column as the error shows it.
        wanted: Type to cast the column to, as its engine names it. Default: the error names none.
    """
    if not can_equal(given, key):
        remedy = "cast the fact column" + ("" if wanted is None else f" to {wanted}")
        if wanted is None and is_uuid(key.type):
            remedy = "give uuid.UUID objects or their 16 bytes"
        raise TypeError(
            f"on: the fact column {fact!r} is {shown}, the key column "
            f"{key.name!r} of the store is {key.type}; {remedy}"
        )


def check_names(
    facts: Sequence[Any],
    appended: Sequence[str],
    prefix: str | None,
    found: str | None,
    fold: Callable[[str], str] = str,
) -> None:
    """Raise ValueError if an appended column has the name of another column.

    Args:
        facts: Names of the fact columns.
        appended: Names of the columns to append.
        prefix: Prefix of the value columns, which decides the remedy in the error. None: There is
            no prefix.
        found: Name of the last appended column, if it marks the facts whose key was found. None:
            There is no such column.
        fold: Function that returns the same text for names that count as equal.
    """
    for name in appended:
        if appended.count(name) > 1:
            raise ValueError(f"found={name!r}: there is a value column {name!r}; give another name")
    taken = {fold(name) for name in facts if isinstance(name, str)}
    shared = [name for name in appended if fold(name) in taken]
    if found in shared:
        raise ValueError(f"found={found!r}: the facts have a column {found!r}; give another name")
    if shared:
        other = "a prefix=" if prefix is None else "another prefix="
        folded = set(map(fold, shared))
        alike = [name for name in facts if isinstance(name, str) and fold(name) in folded]
        case = ""
        if not {*shared} <= {*alike}:
            case = f" (in the facts [{listed(alike)}]; letter case is ignored)"
        raise ValueError(
            f"facts and store both have the columns [{listed(shared)}]{case}; give {other}, or "
            "choose columns="
        )


def look_up_all(lookups: Lookups, keys: Sequence[Column], names: Sequence[str]) -> Found:
    """Look up the keys of any number of rows, part by part.

    It returns the same as `look_up`. If calls of several threads do not wait for each other,
    threads share the parts. They end with the call, so that a fork finds no thread.
    """
    count = len(keys[0])
    threads = max(1, min(MOST_THREADS, count // THREAD_KEYS)) if lookups._calls_in_threads else 1
    # Parts consist of whole bytes of the null bitmaps, so that Arrow does not copy these.
    size = max(1, min(CALL_KEYS, -(-count // threads) + 7 & ~7))
    found: list[Found] = [()] * max(1, -(-count // size))  # type: ignore[list-item]
    parts = iter(range(len(found)))  # each part is taken by one thread

    def look() -> None:
        try:
            for part in parts:
                own = [column[part * size : (part + 1) * size] for column in keys]
                found[part] = look_up(lookups, own, names)
        except BaseException:
            deque(parts, maxlen=0)  # other threads stop
            raise

    if threads == 1:
        look()
    else:
        _in_threads(look, threads)
    if len(found) == 1:
        return found[0]
    columns = [
        pa.chunked_array([chunk for part in chunked for chunk in part.chunks])
        for chunked in zip(*(values for _, values in found), strict=True)
    ]
    return pa.concat_arrays([one for one, _ in found]), columns


def _in_threads(look: Callable[[], None], threads: int) -> None:
    """Call a function in several threads, including this one, or in fewer if need be."""
    with ThreadPoolExecutor(threads - 1, "lookupstore-join") as pool:
        others: list[Future[None]] = []
        with suppress(RuntimeError):  # no more threads can be started, as at the end of Python
            for _ in range(threads - 1):
                others.append(pool.submit(look))
        look()
        for other in others:
            other.result()


def look_up(lookups: Lookups, keys: Sequence[Column], names: Sequence[str]) -> Found:
    """Return whether the key of each row is found, and the value columns.

    A row with a null in its key finds nothing, even if the store has a row with that null key.

    Args:
        lookups: Open store, files or table to look up keys in.
        keys: Key columns: one for each key field, in the order of the key.
        names: Names of the value columns to read.
    """
    given = keys[0] if len(keys) == 1 else tuple(keys)
    whole = _whole_keys(lookups.key_schema, keys)
    if not names:
        found = lookups.contains(given)
        return (found if whole is None else pc.and_(found, whole)), []
    mark = "found"
    while mark in names:
        mark += "_"
    table = lookups.lookup(given, list(names), found=mark)
    *columns, marks = table.columns
    found = one_array(marks)
    if whole is None:
        return found, columns
    places = pa.array(np.arange(len(whole)), mask=~whole.to_numpy(zero_copy_only=False))
    return pc.and_(found, whole), [take(column, places) for column in columns]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _whole_keys(schema: KeySchema, keys: Sequence[Column]) -> pa.BooleanArray | None:
    """Return whether each key is without null.

    None: Every key that can be found is.
    """
    whole: pa.BooleanArray | None = None
    for name, column in zip(schema.names, keys, strict=True):
        if name not in schema.nullable:
            continue
        if isinstance(column, list):
            values = np.empty(len(column), dtype=object)
            values[:] = column
            valid = pa.array(np.not_equal(values, np.array(None, dtype=object)).astype(bool))
        elif column.null_count:
            valid = column.is_valid()
        else:
            continue
        whole = valid if whole is None else pc.and_(whole, valid)
    return one_array(whole) if isinstance(whole, pa.ChunkedArray) else whole


@dataclass(frozen=True)
class JoinResult:
    """The results of a join for some facts.

    Attributes:
        count: Number of the facts.
        kept: Whether each fact is kept in the result. None: All facts are kept.
        columns: Appended columns, with a row for each fact, kept or not.
    """

    count: int
    kept: pa.BooleanArray | None
    columns: list[pa.ChunkedArray]

    @property
    def kept_columns(self) -> list[pa.ChunkedArray]:
        """Return the appended columns of the facts that are kept."""
        if self.kept is None:
            return self.columns
        return [keep(column, self.kept) for column in self.columns]

    def mask(self) -> pa.BooleanArray:
        """Return whether each fact is kept."""
        return pa.repeat(True, self.count) if self.kept is None else self.kept


@dataclass(frozen=True)
class Join:
    """A join that has been checked against the names of the facts.

    Attributes:
        lookups: Open store, files or table to look up keys in.
        keys: Names of the fact columns that hold the key fields, in the order of the key.
        how: Kind of join.
        names: Names of the value columns to read.
        appended: Schema of the columns that the result has in addition to those of the facts.
        mark: Whether the last appended column marks the facts whose key was found.
    """

    lookups: Lookups
    keys: tuple[str, ...]
    how: How
    names: tuple[str, ...]
    appended: pa.Schema
    mark: bool
    _checked: set[tuple[int, pa.DataType]] = field(default_factory=set, init=False, repr=False)

    @classmethod
    def planned(
        cls,
        lookups: Lookups,
        names: Sequence[str],
        facts: Sequence[Any],
        on: On,
        how: How,
        prefix: str | None,
        found: str | None,
        fold: Callable[[str], str] = str,
    ) -> Join:
        """Return a join of facts, with its arguments checked as by `Lookups.join`.

        Args:
            lookups: Open store, files or table to look up keys in.
            names: Names of the value columns to append.
            facts: Names of the fact columns.
            on: Names of the fact columns that hold the key, or a dict from fact column to key
                column.
            how: Kind of join.
            prefix: Prefix for the name of each appended value column. Default: no prefix.
            found: Name of a boolean column to append as well, which marks the facts whose key was
                found. Default: no such column.
            fold: Function that returns the same text for names that count as equal.
        """
        check_texts(prefix, found)
        keys = key_columns(facts, lookups.key_schema, on)
        fields = [lookups.value_schema.field(name) for name in names]
        appended = [pa.field(f"{prefix or ''}{one.name}", one.type) for one in fields]
        if found is not None:
            appended.append(pa.field(found, pa.bool_()))
        check_names(facts, [one.name for one in appended], prefix, found, fold)
        schema = pa.schema(appended)
        return cls(lookups, keys, how, tuple(names), schema, found is not None)

    @property
    def asks(self) -> bool:
        """Return whether the join changes anything and therefore has to look up keys."""
        return bool(self.appended.names) or self.how != "left"

    def check_kinds(self, kinds: Sequence[pa.DataType | None]) -> None:
        """Raise TypeError if the type of a fact column cannot equal that of its key field.

        Args:
            kinds: Arrow types of the fact columns that hold the key. None: The column has no one
                type, and the lookup checks its values.
        """
        for at, kind in enumerate(kinds):
            if kind is not None and (at, kind) not in self._checked:
                key = self.lookups.key_schema.schema.field(at)
                check_kind(kind, key, self.keys[at], str(kind))
                self._checked.add((at, kind))

    def answers(self, keys: Sequence[Column]) -> JoinResult:
        """Look up the keys of facts, and return the results.

        Args:
            keys: Fact columns that hold the key, in the order of `self.keys`.
        """
        self.check_kinds([None if isinstance(one, list) else one.type for one in keys])
        found, columns = look_up_all(self.lookups, keys, self.names)
        kept = None
        if self.how != "left":
            kept = pc.invert(found) if self.how == "anti" else found
        if self.mark:
            columns.append(pa.chunked_array([found]))
        if kept is not None and not kept.false_count:
            kept = None
        return JoinResult(len(found), kept, columns)
