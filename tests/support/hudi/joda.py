"""Partition paths as Java makes them of times: Joda-Time itself, which Spark brings along.

Joda is called as `TimestampBasedAvroKeyGenerator` of Hudi calls it, in a JVM whose zone is one that
nobody is in.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROGRAM = """
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.joda.time.*;
import org.joda.time.format.*;

public class Paths {
  static DateTimeZone zone(String id) {
    return id.isEmpty() ? null : DateTimeZone.forTimeZone(TimeZone.getTimeZone(id));
  }

  static String path(String[] of) {
    DateTimeZone in = zone(of[2]), out = zone(of[3]);
    DateTimeFormatter print = DateTimeFormat.forPattern(of[4]);
    if (out != null) print = print.withZone(out);
    long millis;
    if (of[0].equals("TEXT")) {
      List<DateTimeParser> parsers = new ArrayList<>();
      for (String one : of[1].split(",")) {
        parsers.add(DateTimeFormat.forPattern(one.trim()).getParser());
      }
      DateTimeFormatter read = new DateTimeFormatterBuilder()
          .append(null, parsers.toArray(new DateTimeParser[0])).toFormatter();
      read = in != null ? read.withZone(in) : read.withOffsetParsed();
      DateTime parsed = read.parseDateTime(of[5]);
      if (out == null) print = print.withZone(parsed.getZone());
      millis = parsed.getMillis();
    } else {
      millis = TimeUnit.MILLISECONDS.convert(Long.parseLong(of[5]), TimeUnit.valueOf(of[0]));
    }
    return new DateTime(millis, out).toString(print);
  }

  public static void main(String[] arguments) throws Exception {
    Scanner lines = new Scanner(System.in, "UTF-8");
    while (lines.hasNextLine()) {
      String said;
      try {
        said = path(lines.nextLine().split("\\t", -1));
      } catch (IllegalArgumentException error) {
        said = "!" + error.getMessage();
      }
      System.out.println(said.replace('\\n', ' '));
    }
  }
}
"""


@dataclass(frozen=True)
class Time:
    """A time, and how it becomes a path; no zone: "".

    Attributes:
        unit: of a number; `TEXT`: it is a text.
        formats: of texts, with commas between.
        value: the number, or the text.
    """

    unit: str
    formats: str
    input_zone: str
    output_zone: str
    output: str
    value: str


@cache
def _jar() -> Path | None:
    try:
        import pyspark
    except ImportError:
        return None
    found = sorted((Path(pyspark.__file__).parent / "jars").glob("joda-time-*.jar"))
    return found[0] if found and shutil.which("java") else None


def is_there() -> bool:
    """Say whether there are Java and Joda."""
    return _jar() is not None


def paths(times: Sequence[Time], folder: Path) -> list[str | None]:
    """Return what Java makes of times; None: an error."""
    program = folder / "Paths.java"
    program.write_text(_PROGRAM)
    lines = "\n".join(
        "\t".join([one.unit, one.formats, one.input_zone, one.output_zone, one.output, one.value])
        for one in times
    )
    run = subprocess.run(
        ["java", "-Duser.timezone=Pacific/Marquesas", "-cp", str(_jar()), str(program)],
        input=lines, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = run.stdout.splitlines()
    assert len(found) == len(times), run.stdout[-1000:] + run.stderr[-1000:]
    return [None if one.startswith("!") else one for one in found]
