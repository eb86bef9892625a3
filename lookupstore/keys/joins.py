"""What a join by key is, whoever runs it: its arguments, checked, and the answers to its keys.

`lookupstore.spark` joins by it in its workers; `lookupstore.keys.facts` whatever else has rows.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import keep, take
from lookupstore.errors import listed
from lookupstore.keys.arguments import Column
from lookupstore.keys.schema import KeySchema
from lookupstore.processors import processors

if TYPE_CHECKING:
    from lookupstore.keys.lookups import Lookups

How = Literal["left", "inner", "semi", "anti"]
On: TypeAlias = "str | Sequence[str] | Mapping[str, str]"

HOWS: tuple[How, ...] = ("left", "inner", "semi", "anti")
# Spark's own names of these joins, which it reads without regard to case and underscores.
_SPARK_HOWS: dict[str, How] = {"leftouter": "left", "leftsemi": "semi", "leftanti": "anti"}
#: Most keys that are looked up at once: more take no less time for each, and hold more memory.
CALL_KEYS = 1 << 20
#: Fewest keys for which a thread is begun, which takes as long as some thousand keys.
THREAD_KEYS = 1 << 15
#: Most threads that look up the keys of one join.
MOST_THREADS = min(4, processors())
#: Which rows of key columns have their key found, and value columns of what is there.
Found: TypeAlias = "tuple[pa.BooleanArray, list[pa.ChunkedArray]]"


def how_of(given: str) -> How:
    """Return the kind of join, which Spark has several names for.

    Raises:
        ValueError: there is no such join.

    >>> how_of("left_semi")
    'semi'
    """
    name = str(given).lower().replace("_", "")
    for how in HOWS:
        if how in (name, _SPARK_HOWS.get(name)):
            return how
    raise ValueError(f"how is {given!r}; give one of {', '.join(map(repr, HOWS))}")


def check_adds_nothing(how: How, **given: object) -> None:
    """Raise ValueError if a semi or anti join is given an argument that says what to append."""
    if how in ("semi", "anti"):
        for argument, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{argument} is {value!r}; {how} joins add no columns: leave it out"
                )


def name_pairs(on: On) -> list[tuple[str, str]]:
    """Return the names of fact columns and key columns that belong together.

    Raises:
        TypeError: something else than a name.

    >>> name_pairs(["a", "b"]), name_pairs({"fact": "key"})
    ([('a', 'a'), ('b', 'b')], [('fact', 'key')])
    """
    pairs: list[tuple[Any, Any]]
    if isinstance(on, Mapping):
        pairs = list(on.items())
    else:
        try:
            names = [on] if isinstance(on, str) else list(on)
        except TypeError:  # an expression of Spark's, or of another library
            names = [on]  # type: ignore[list-item]
        pairs = [(name, name) for name in names]
    for name in itertools.chain.from_iterable(pairs):
        if not isinstance(name, str):
            raise TypeError(
                f"on: found a {type(name).__name__}; give names of fact columns, or a dict from "
                "fact column to key column, such as {'fact': 'key'}"
            )
    return pairs


def key_columns(facts: Sequence[Any], keys: KeySchema, on: On) -> tuple[str, ...]:
    """Return the names of the fact columns that hold the key fields, in the key's order.

    Args:
        facts: names of the fact columns.
        keys: the key.
        on: which of the columns hold it.

    Raises:
        TypeError: `on` has something else than names.
        KeyError: a column that the facts or the key do not have, or one of the key that is missing.
        ValueError: a column that is there, or given, twice.
    """
    fact_of: dict[str, str] = {}
    for fact, key in name_pairs(on):
        if fact not in facts:
            raise KeyError(f"on: the facts have no column {fact!r}; they have [{listed(facts)}]")
        if list(facts).count(fact) > 1:
            raise ValueError(f"on: the facts have more than one column {fact!r}; rename them")
        if key not in keys.names:
            raise KeyError(
                f"on: the store has no key column {key!r}; its key is {keys.names}; if the names "
                "differ, give a dict from fact column to key column"
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


def check_kind(given: pa.DataType, key: pa.Field, fact: str, shown: str) -> None:
    """Raise TypeError unless values of a fact column can equal those of a key field.

    Args:
        given: type of the fact column.
        key: the key field.
        fact: name of the fact column.
        shown: its type, in the error.
    """
    if not can_equal(given, key):
        raise TypeError(
            f"on: the fact column {fact!r} is {shown}, the key column "
            f"{key.name!r} of the store is {key.type}; cast the fact column"
        )


def check_names(
    facts: Iterable[Any],
    appended: Sequence[str],
    prefix: str | None,
    found: str | None,
    fold: Callable[[str], str] = str,
) -> None:
    """Raise ValueError if an appended column could not be told from a fact column.

    Args:
        facts: names of the fact columns.
        appended: those of the columns to append.
        prefix: what value columns begin with, for the remedy.
        found: the name of the last one, if it says which facts were found.
        fold: what makes two names that are the same equal.
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
        raise ValueError(
            f"facts and store both have the columns [{listed(shared)}]; give {other}, or "
            "choose columns="
        )


def look_up_all(lookups: Lookups, keys: Sequence[Column], names: Sequence[str]) -> Found:
    """Return what `look_up` does, of any number of rows, which are looked up part by part.

    Where calls of several threads do not wait for each other, each has some of the parts. They end
    with the call, so that a fork finds none of them.
    """
    count = len(keys[0])
    threads = max(1, min(MOST_THREADS, count // THREAD_KEYS)) if lookups._calls_in_threads else 1
    # Whole bytes of the bits that say which keys are null, so that Arrow copies none of them.
    size = max(1, min(CALL_KEYS, -(-count // threads) + 7 & ~7))
    found: list[Found] = [()] * max(1, -(-count // size))  # type: ignore[list-item]
    parts = iter(range(len(found)))  # each goes to one thread

    def look() -> None:
        try:
            for part in parts:
                own = [column[part * size : (part + 1) * size] for column in keys]
                found[part] = look_up(lookups, own, names)
        except BaseException:
            deque(parts, maxlen=0)  # the others go no further
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
    """Call a function in so many threads, this one among them, or as many as can be had."""
    with ThreadPoolExecutor(threads - 1, "lookupstore-join") as pool:
        others: list[Future[None]] = []
        with suppress(RuntimeError):  # no more are to be had, as when Python ends
            for _ in range(threads - 1):
                others.append(pool.submit(look))
        look()
        for other in others:
            other.result()


def look_up(lookups: Lookups, keys: Sequence[Column], names: Sequence[str]) -> Found:
    """Return which rows of key columns have their key found, and value columns of what is there.

    A row with a null in its key finds nothing, also where the null is a key of a row.

    Args:
        lookups: what is looked up in.
        keys: a column for each key field.
        names: of the value columns.
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
    """Return which keys have no null; None: all that can have been found."""
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
class Answers:
    """What becomes of facts.

    Attributes:
        count: number of the facts.
        kept: which of them stay; None: all.
        columns: the appended columns, of all facts.
    """

    count: int
    kept: pa.BooleanArray | None
    columns: list[pa.ChunkedArray]

    @property
    def kept_columns(self) -> list[pa.ChunkedArray]:
        """Return the appended columns of the facts that stay."""
        if self.kept is None:
            return self.columns
        return [keep(column, self.kept) for column in self.columns]

    def mask(self) -> pa.BooleanArray:
        """Return whether each fact stays."""
        return pa.repeat(True, self.count) if self.kept is None else self.kept


@dataclass(frozen=True)
class Join:
    """A join that has been checked against the names of the facts.

    Attributes:
        lookups: what is looked up in.
        keys: names of the fact columns that hold the key fields, in the order of the key.
        how: the kind of join.
        names: value columns that are read.
        appended: the columns that the result has beyond those of the facts.
        mark: whether the last one of them says which facts were found.
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
        """Return a join of facts; it raises what `Lookups.join` does of its arguments.

        Args:
            lookups: what is looked up in.
            names: of the value columns to append.
            facts: names of the fact columns.
            on: which of them hold the key.
            how: the kind of join.
            prefix: put before the name of each appended column.
            found: name of a boolean column to append as well.
            fold: what makes two names that are the same equal.
        """
        keys = key_columns(facts, lookups.key_schema, on)
        fields = [lookups.value_schema.field(name) for name in names]
        appended = [pa.field(f"{prefix or ''}{one.name}", one.type) for one in fields]
        if found is not None:
            if not isinstance(found, str):
                raise TypeError(f"found is {found!r}; give the name of the column to append")
            appended.append(pa.field(found, pa.bool_()))
        check_names(facts, [one.name for one in appended], prefix, found, fold)
        schema = pa.schema(appended)
        return cls(lookups, keys, how, tuple(names), schema, found is not None)

    @property
    def asks(self) -> bool:
        """Return whether the join changes anything, so that keys have to be looked up."""
        return bool(self.appended.names) or self.how != "left"

    def check_kinds(self, kinds: Sequence[pa.DataType | None]) -> None:
        """Raise TypeError if a key column has values that can equal none of the key's.

        Args:
            kinds: the Arrow types of the key columns; None: it has none, and values are looked at.
        """
        for at, kind in enumerate(kinds):
            if kind is not None and (at, kind) not in self._checked:
                key = self.lookups.key_schema.schema.field(at)
                check_kind(kind, key, self.keys[at], str(kind))
                self._checked.add((at, kind))

    def answers(self, keys: Sequence[Column]) -> Answers:
        """Return what becomes of each of many facts.

        Args:
            keys: the columns of facts that hold the key, as `keys` has their names.
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
        return Answers(len(found), kept, columns)
