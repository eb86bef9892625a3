"""``HudiOption``: one option of Apache Hudi, and what it does here."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookupstore.hudi.options.names import TIMES
from lookupstore.hudi.write.kinds import FLAG, NUMBER, RATE, TEXT, Kind

#: How most names of a write begin.
WRITE = "hoodie.datasource.write."


class Part(enum.Enum):
    """What an option is a field of."""

    #: A property of the table, and an argument of `HudiTable.create`.
    TABLE = "table"
    #: The key generator, which follows from the columns of key and partition.
    GENERATOR = "generator"
    #: What says how times become folders.
    TIMES = "times"
    #: A field of `WriteOptions`, and then those of its parts.
    WRITE = "write"
    SIZING = "sizing"
    FORMAT = "format"
    #: The verb that is called.
    OPERATION = "operation"
    #: `combine`, for some verbs.
    COMBINE = "combine"
    #: `update_partition_path`, for one index.
    MOVES = "moves"
    #: What follows a write, and then its parts.
    SERVICES = "services"
    CLEAN = "clean"
    ARCHIVE = "archive"
    INLINE = "inline"
    #: An argument of `HudiTable.cluster`, which a clustering after a write takes, too.
    LAYOUT = "layout"
    #: An argument of a read in Spark.
    READ = "read"
    #: Nothing: what it says has to be as it is here.
    CHECK = "check"


# Names of classes as they are written, by their names in lower case.
_CLASSES: dict[str, str] = {}


def shown(value: str) -> str:
    """Return a value as Hudi writes it: the name of a class in its own case."""
    return _CLASSES.get(value, value)


def of_classes(*names: str) -> tuple[str, ...]:
    """Return names of classes in lower case, which errors show as they are written."""
    _CLASSES.update({name.lower(): name for name in names})
    return tuple(name.lower() for name in names)


def choice(known: Mapping[str, Any], refused: Mapping[str, str] | None = None) -> Kind:
    """Return a kind of a few words, in any case.

    Args:
        known: Meanings by word, in lower case.
        refused: Reasons and remedies by other words that Hudi has.
    """

    def parse(text: str) -> Any:
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]

    words = " or ".join(shown(one) for one in known)
    return Kind(words, parse, refused or {}, choices=tuple(known))


@dataclass(frozen=True)
class HudiOption:
    """One option of Apache Hudi.

    Attributes:
        names: Hudi's names; those that end with `.` stand for all names that begin so.
        kind: Kind of its values.
        default: Value that Hudi takes if it is not given; "": none, or none in general.
        here: What it does here, or why it does nothing or is refused.
        part: What it is a field of. None: there is nothing to do.
        field: Name of that field here. Of `COMBINE`, the operations it is for; of `MOVES`, the
            index.
        only: Values that are accepted, in lower case. None: all; empty: none is.
        instead: What to do instead of giving another value.
        reads: Whether it is for reads, and not for writes.
    """

    names: tuple[str, ...]
    kind: Kind
    default: str
    here: str
    part: Part | None = None
    field: str = ""
    only: tuple[str, ...] | None = None
    instead: str = ""
    reads: bool = False

    @property
    def verdict(self) -> str:
        """Return `done`, `nothing to do` or `refused`: what becomes of the option."""
        if self.only == ():
            return "refused"
        return "nothing to do" if self.part is None and self.only is None else "done"

    def parsed(self, name: str, text: str) -> Any:
        """Return what a value means.

        Args:
            name: Name under which it was given.
            text: Value as it was given.

        Raises:
            ValueError: if it is not a value of this kind, or asks for what is not done.
        """
        if self.only == ():
            raise ValueError(f"options: {name} is not supported: {self.here}; {self.instead}")
        if self.only is not None and text.lower() not in self.only:
            known = " or ".join(shown(one) or "no value" for one in self.only)
            raise ValueError(f"options: {name} is {text!r}; supported: {known}; {self.instead}")
        try:
            return self.kind.parse(text)
        except ValueError:
            why = self.kind.refused.get(text.lower())
            raise ValueError(
                f"options: {name} is {text!r}; give {self.kind.words}"
                + ("" if why is None else f": {why}")
            ) from None


def done(
    names: str, kind: Kind, default: str, here: str, part: Part, field: str, *, reads: bool = False
) -> HudiOption:
    """Return an option that is a field here; several names have spaces between."""
    return HudiOption(tuple(names.split()), kind, default, here, part, field, reads=reads)


def nothing(why: str, names: Mapping[str, str], *, reads: bool = False) -> tuple[HudiOption, ...]:
    """Return options for which there is nothing to do.

    Args:
        why: Reason.
        names: Hudi's defaults by name; several names of one option have spaces between.
        reads: Whether they are for reads.
    """
    return tuple(
        HudiOption(tuple(given.split()), _kind_of(default), default, why, reads=reads)
        for given, default in names.items()
    )


def only(
    values: str | tuple[str, ...],
    names: str,
    default: str,
    here: str,
    instead: str,
    *,
    reads: bool = False,
) -> HudiOption:
    """Return an option of which some values ask for what is done, and the others are refused."""
    accepted = (values,) if isinstance(values, str) else values
    kind = FLAG if set(accepted) <= {"true", "false"} else TEXT
    return HudiOption(
        tuple(names.split()), kind, default, here, only=accepted, instead=instead, reads=reads
    )


def refused(names: str, why: str, instead: str, *, reads: bool = False) -> HudiOption:
    """Return an option of which every value is refused."""
    return HudiOption(tuple(names.split()), TEXT, "", why, only=(), instead=instead, reads=reads)


def _kind_of(default: str) -> Kind:
    if default in ("true", "false"):
        return FLAG
    if default.lstrip("-").isdecimal():
        return NUMBER
    return RATE if default.replace(".", "", 1).isdecimal() else TEXT


#: What says how times become folders: each has to say what the table says.
TIME_FORMAT = HudiOption(
    TIMES,
    TEXT,
    "",
    "How times become folders. For a write it has to say what the table says; new tables have no "
    "such folders.",
    Part.TIMES,
)
