"""Remedies for values of CSV that are not of the type of their column, as options."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import click

from lookupstore.source.time_formats import formats_of

# Texts that may mean null. Others may be values, which would be lost as null.
_NULL = re.compile(
    r"#?n\.?/?a\.?|k\. ?a\.|<na>|nil|null|none|nan|nat|missing|unknown|\\+n|[^\w\s]*", re.IGNORECASE
)
#: Name in the context of a command for the columns that hold keys, whose types the store has.
KEYS = "lookupstore.keys"
# Fractions of a second that are more exact than a unit, without zeros at their end.
_FINER = {"s": r"\d*[1-9]", "ms": r"\d{3}\d*[1-9]", "us": r"\d{6}\d*[1-9]"}
#: Name in the context of a command for the columns whose types `--evolve` widens.
WIDENED = "lookupstore.widened"
# Times that name no zone.
_LOCAL_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d(:\d\d){1,2}(\.\d+)?"


def wrong_text(found: re.Match[str]) -> str:
    """Return the error of a value of text, with options that may read it.

    Args:
        found: Column, type, text, row and decimal sign of the error of the library.
    """
    column, kind, text, row, decimal = found.groups()
    context = click.get_current_context(silent=True)
    # Another type than the destination's would not fit there.
    is_fixed = context is not None and context.invoked_subcommand in ("hudi", "upsert")
    is_key = context is not None and column in context.meta.get(KEYS, ())
    widens = context is not None and column in context.meta.get(WIDENED, ())
    remedy = _WrongText(column, kind, text, decimal, is_fixed, is_fixed or is_key, widens).remedy()
    how = "" if decimal is None else f" with --decimal {decimal!r}"
    return f"the column {column!r} is {kind} and has '{text}' in row {row}{how}; {remedy}"


@dataclass(frozen=True)
class _WrongText:
    """A text that is not of the type of its column.

    Attributes:
        column: Name of the column.
        kind: Name of the type.
        text: Text, escaped as by `repr`.
        decimal: Sign that `--decimal` gives. None: a point.
        is_fixed: Whether the column cannot have another type.
        is_no_text: Whether the column cannot be text.
        widens: Whether the command can widen the column.
    """

    column: str
    kind: str
    text: str
    decimal: str | None
    is_fixed: bool
    is_no_text: bool
    widens: bool

    def remedy(self) -> str:
        """Return the remedy."""
        if _NULL.fullmatch(self.text):
            null = self.text.replace(r"\\", "\\")
            other = "correct it, or give" if self.is_no_text else f"give {self._types('text')}, or"
            return f"{other} --null '{null}' if it means null"
        return self._notation() or self._time() or self._type()

    def _types(self, kind: str) -> str:
        return f"--types {self.column}={kind}"

    def _is(self, pattern: str) -> bool:
        return re.fullmatch(pattern, self.text) is not None

    def _notation(self) -> str | None:
        """Return the remedy for a number with other signs, None for another text."""
        is_fraction = self.kind in ("double", "float", "halffloat") or "decimal" in self.kind
        is_integer = "int" in self.kind
        if self.decimal is not None and "." in self.text:
            remedy = "take out points between thousands"
            is_plain = self._is(r"[+-]?\d+\.\d+" if is_fraction else r"-?\d+\.0+")
            return f"{remedy}, or leave out --decimal" if is_plain else remedy
        if self.decimal is not None:
            return None
        if is_fraction and self._is(r"[+-]?\d{1,3}(\.\d{3})+,\d+"):
            return "take out points between thousands, and give --decimal ','"
        if is_fraction and self._is(r"[+-]?\d+,\d+"):
            remedy = "give --decimal ',', or write decimals with a point"
            return self._or_text(remedy)
        if is_integer and self._is(r"-?\d+,00?"):  # 3,000 may be a thousand
            return "give --decimal ','"
        if is_integer and self._is(r"[+-]?\d+,\d+") and not self.is_fixed:
            return self._or_text(f"give --decimal ',' {self._types('double')}")
        return None

    def _time(self) -> str | None:
        """Return the remedy for a date or time, None for another type."""
        if "tz=" in self.kind and self._is(_LOCAL_TIME):
            return "give --zone with the zone of such times, for example UTC"
        unit = re.fullmatch(r"time(?:stamp|32|64)\[(\w+).*", self.kind)
        finer = _FINER.get(unit[1]) if unit else None
        if unit and finer and self._is(rf".*:\d\d:\d\d\.{finer}0*(Z|[+-]\d\d:?\d\d)?"):
            return self._or_text(f"it is finer than the unit of the column, {unit[1]}: round it")
        is_date = self.kind.startswith("date")
        if not is_date and not self.kind.startswith("timestamp"):
            return None
        kind = "date" if is_date else "timestamp" if "tz=" in self.kind else "timestamp_ntz"
        forms = formats_of(self.text, times=not is_date)
        fitting = [self._types(f"{kind}({form})") for form in forms]
        if fitting:
            quoted = (one.replace("--types ", "--types '") + "'" for one in fitting)
            return f"give {' or '.join(quoted)}"
        zone = "+02:00" if "tz=" in self.kind else ""
        read = "dates such as 2026-05-19" if is_date else f"times such as 2026-05-19 07:40:00{zone}"
        return self._or_text(
            f"only {read} are read: convert it, for example with pandas.to_datetime"
        )

    def _type(self) -> str:
        """Return the remedy for any other text."""
        if self.is_fixed:
            wider = self._wider() if self.widens else None
            if wider is None:
                return "correct it"
            return f"correct it, or widen the column: give --evolve --types '{self.column}={wider}'"
        number = self.text.replace(self.decimal or ".", ".")
        # A number with a zero before it is a code, which only text keeps.
        if self.kind == "double" or not re.fullmatch(r"[+-]?(0|[1-9]\d*)(\.\d+)?", number):
            return "correct it" if self.is_no_text else f"give {self._types('text')}"
        if "decimal" in self.kind:
            return f"give {self._types('decimal(P,S)')} with more digits"
        return f"give {self._types('double')}"

    def _wider(self) -> str | None:
        """Return a type that a Hudi table widens the column to and that holds this number."""
        text = self.text.replace(self.decimal or ".", ".")
        if self.kind == "float" and re.fullmatch(r"-?\d{1,15}(\.\d+)?[eE][+-]?\d+", text):
            return "double" if math.isfinite(float(text)) else None
        number = re.fullmatch(r"-?(0|[1-9]\d*)(?:\.(\d+))?", text)
        if number is None:
            return None
        whole, fraction = number[1], number[2] or ""
        if self.kind == "int32" and fraction:
            return "double" if len(whole) <= 15 else None
        if self.kind == "int32":
            return "int64" if int(whole) < 1 << 63 else None
        digits = re.fullmatch(r"decimal128\((\d+), (\d+)\)", self.kind)
        if digits is None:
            return None
        scale = max(int(digits[2]), len(fraction))
        precision = max(int(digits[1]) - int(digits[2]), len(whole)) + scale
        return f"decimal({precision},{scale})" if precision <= 38 else None

    def _or_text(self, remedy: str) -> str:
        return remedy if self.is_no_text else f"{remedy}, or give {self._types('text')}"
