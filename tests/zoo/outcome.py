"""What comes of one file or table: a verdict, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The verdicts, the worst first.
VERDICTS = ("crash", "different", "suspicious", "damaged", "unchecked", "refused", "same")
#: Verdicts that fail a run.
FAILURES = ("crash", "different", "suspicious")


@dataclass
class Outcome:
    """What came of one file or table.

    Attributes:
        name: Path below the folder that was searched.
        kind: Format.
        verdict: One of `VERDICTS`.
        says: Message of the error, or the first difference.
        notes: What else is worth knowing, such as readers that disagree.
        key: Columns that were the key.
        rows: Number of rows; None if no reader reads it.
        readers: For each reference reader, empty if it reads the file, else its error.
        lacks: What the message of a refusal does not name: file, column, remedy.
        seconds: Time of the examination.
    """

    name: str
    kind: str
    verdict: str = "same"
    says: str = ""
    notes: list[str] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    rows: int | None = None
    readers: dict[str, str] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def found(self, verdict: str, says: str) -> None:
        """Keep a verdict if it is worse than the one there is."""
        if VERDICTS.index(verdict) < VERDICTS.index(self.verdict):
            self.verdict, self.says = verdict, says


def one_line(error: BaseException) -> str:
    """Return an error as its type and the beginning of its message, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:600]}"
