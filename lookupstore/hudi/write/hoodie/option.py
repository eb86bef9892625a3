"""``HudiOption``: one option of Apache Hudi, and its effect in lookupstore."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookupstore.hudi.options.names import TIMES
from lookupstore.hudi.write.kinds import FLAG, NUMBER, RATE, TEXT, ValueKind

#: Prefix of most names of options of a write.
WRITE = "hoodie.datasource.write."


class OptionPart(enum.Enum):
    """The part of lookupstore's options that an option belongs to."""

    #: A property of the table, and an argument of `HudiTable.create`.
    TABLE = "table"
    #: The key generator, which is derived from the columns of key and partition.
    GENERATOR = "generator"
    #: The conversion of times to folders.
    TIMES = "times"
    #: A field of `WriteOptions`, followed by fields of its parts.
    WRITE = "write"
    SIZING = "sizing"
    FORMAT = "format"
    #: The operation.
    OPERATION = "operation"
    #: The option `combine` of some operations.
    COMBINE = "combine"
    #: The option `update_partition_path` of one index.
    MOVES = "moves"
    #: The services after a write, followed by their parts.
    SERVICES = "services"
    CLEAN = "clean"
    ARCHIVE = "archive"
    INLINE = "inline"
    #: An argument of `HudiTable.cluster`, also for a clustering after a write.
    LAYOUT = "layout"
    #: An argument of a read in Spark.
    READ = "read"
    #: No effect: the value must agree with what lookupstore does.
    CHECK = "check"


# Names of classes in their usual case, by their names in lower case.
_CLASSES: dict[str, str] = {}


def shown(value: str) -> str:
    """Return a value as Hudi writes it: the name of a class in its own case."""
    return _CLASSES.get(value, value)


def of_classes(*names: str) -> tuple[str, ...]:
    """Return names of classes in lower case; errors show them in their own case."""
    _CLASSES.update({name.lower(): name for name in names})
    return tuple(name.lower() for name in names)


def choice(known: Mapping[str, Any], refused: Mapping[str, str] | None = None) -> ValueKind:
    """Return a kind with a few words as values, in any case.

    Args:
        known: Values by word, in lower case.
        refused: Reasons and remedies for other words that Hudi accepts, by word.
    """

    def parse(text: str) -> Any:
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]

    words = " or ".join(shown(one) for one in known)
    return ValueKind(words, parse, refused or {}, choices=tuple(known))


@dataclass(frozen=True)
class HudiOption:
    """One option of Apache Hudi.

    Attributes:
        names: Hudi's names. A name that ends with `.` stands for all names with that prefix.
        kind: Kind of the values.
        default: Hudi's default value. Empty: no default, or no general one.
        here: Effect in lookupstore, or the reason why the option has none or is refused.
        part: Part of lookupstore's options that the option belongs to. None: it sets no field.
        field: Name of the field in that part. For `COMBINE`, the operations; for `MOVES`, the
            index.
        only: Accepted values, in lower case. None: all values. Empty: no value.
        instead: Remedy, instead of another value.
        reads: Whether the option is for reads, and not for writes.
    """

    names: tuple[str, ...]
    kind: ValueKind
    default: str
    here: str
    part: OptionPart | None = None
    field: str = ""
    only: tuple[str, ...] | None = None
    instead: str = ""
    reads: bool = False

    @property
    def verdict(self) -> str:
        """Return `done`, `nothing to do` or `refused`, the treatment of the option."""
        if self.only == ():
            return "refused"
        return "nothing to do" if self.part is None and self.only is None else "done"

    def parsed(self, name: str, text: str) -> Any:
        """Return the parsed value of a text.

        Args:
            name: Name of the option as it was given.
            text: Value as it was given.

        Raises:
            ValueError: If the text is not a value of this kind, or the value is not supported.
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
    names: str,
    kind: ValueKind,
    default: str,
    here: str,
    part: OptionPart,
    field: str,
    *,
    reads: bool = False,
) -> HudiOption:
    """Return an option that sets a field. Several names are separated by spaces."""
    return HudiOption(tuple(names.split()), kind, default, here, part, field, reads=reads)


def nothing(why: str, names: Mapping[str, str], *, reads: bool = False) -> tuple[HudiOption, ...]:
    """Return options that have no effect in lookupstore.

    Args:
        why: Reason why the options have no effect.
        names: Hudi's defaults by name. Several names of one option are separated by spaces.
        reads: Whether the options are for reads, and not for writes.
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
    """Return an option that accepts only the values that lookupstore always follows."""
    accepted = (values,) if isinstance(values, str) else values
    kind = FLAG if set(accepted) <= {"true", "false"} else TEXT
    return HudiOption(
        tuple(names.split()), kind, default, here, only=accepted, instead=instead, reads=reads
    )


def refused(names: str, why: str, instead: str, *, reads: bool = False) -> HudiOption:
    """Return an option that refuses every value."""
    return HudiOption(tuple(names.split()), TEXT, "", why, only=(), instead=instead, reads=reads)


def _kind_of(default: str) -> ValueKind:
    if default in ("true", "false"):
        return FLAG
    if default.lstrip("-").isdecimal():
        return NUMBER
    return RATE if default.replace(".", "", 1).isdecimal() else TEXT


#: Options of the conversion of times to folders: each must agree with the table.
TIME_FORMAT = HudiOption(
    TIMES,
    TEXT,
    "",
    "How times become folders. A write must agree with the table; new tables have no such folders.",
    OptionPart.TIMES,
)
