"""Errors of commands: one line in the terms of the command line, and an exit status."""

from __future__ import annotations

import ast
import errno
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from lookupstore.cli.lazy import LazyGroup
from lookupstore.cli.terminal import (
    STANDARD_OUTPUT,
    echo,
    echo_traceback,
    echoed_logs,
    whole_writes,
)
from lookupstore.errors import CorruptionError, LookupStoreError, printable
from lookupstore.interrupts import INTERRUPTED, interruptible
from lookupstore.storage.naming import final_name, naming

# Errors that users can correct by changing the command.
_USAGE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
)
#: Page about damage, which errors of damaged files name.
REPAIR = "https://github.com/lookupstore/lookupstore/blob/main/docs/how-to/repair-damage.md"
# Errors of a folder in which a user may not write.
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
# Options of the main command.
_BEFORE = ("--debug", "--storage-option")
# Options of other tools, Hudi's among them, and the option that is meant.
_OPTIONS = {
    "--end": "--stop",
    "--from": "--start",
    "--to": "--stop",
    "--format": "--output",
    "--json": "--output json",
    "--csv": "--output csv",
    "--filter": "--where",
    "--delete": "--deletes",
    "--sep": "--delimiter",
    "--separator": "--delimiter",
    "--precombine": "--ordering",
    "--precombine-field": "--ordering",
    "--record-key": "--key",
    "--schema": "--like",
}
# Commands of stores, and the commands of Hudi tables that do the same.
_HUDI_COMMANDS = {
    "upsert": "upsert TABLE FILE",
    "delete": "delete TABLE KEY",
    "changes": "changes TABLE",
    "versions": "history TABLE",
    "expire": "clean TABLE --retain-commits N",
    "compact": "cluster TABLE --by A,B",
}
# Flags of arguments with other names.
_FLAGS = {"record_key": "key", "version": "table-version"}


def _contradiction(found: re.Match[str]) -> str:
    flag = _FLAGS.get(found[1], found[1].replace("_", "-"))
    return f"--{flag} is {found[2]}, but --hoodie says {found[3]}; give one of them"


def _wrong_text(found: re.Match[str]) -> str:
    # Every command imports this module, and few fail by a text.
    from lookupstore.cli.text_remedies import wrong_text

    return wrong_text(found)


def _build_of_table(found: re.Match[str]) -> str:
    folder = re.sub(r"/metadata/[^/]+\.json(\.gz)?$", "", ast.literal_eval(found["file"]))
    context = click.get_current_context(silent=True)
    is_followed = context is not None and context.invoked_subcommand == "follow"
    command = "follow" if is_followed else "build"
    return f"run: lookupstore {command} {shlex.quote(folder)} STORE --key COLUMN"


def _of_hudi_table(found: re.Match[str]) -> str:
    context = click.get_current_context(silent=True)
    command = _HUDI_COMMANDS.get((context and context.invoked_subcommand) or "")
    return found[0] if command is None else f"{found[1]}; run 'lookupstore hudi {command}'"


def _made_by(_: re.Match[str]) -> str:
    context = click.get_current_context(silent=True)
    is_synced = context is not None and context.invoked_subcommand == "sync"
    return f"'lookupstore {'follow' if is_synced else 'build'}' makes"


def _follow_again(found: re.Match[str]) -> str:
    path, key = (ast.literal_eval(one) for one in found.groups())
    names = shlex.quote(",".join(key))
    return f"lookupstore follow TABLE {shlex.quote(path)} --key {names} --where SQL"


def _rows_of_store(found: re.Match[str]) -> str:
    path = shlex.quote(ast.literal_eval(found[1]))
    return f"pass its rows on standard input: lookupstore scan {path} --output arrow"


def _chosen_columns(found: re.Match[str]) -> str:
    return f"give --columns {shlex.quote(','.join(ast.literal_eval(found[1])))}"


def _clause(found: re.Match[str]) -> str:
    return f"--when '{found[1].replace('_', ' ')} then {found[2]}': "


# Remedy for a text column of a typed file, such as Parquet, that has another type in the store.
_AS_CSV = (
    "convert the file to CSV, whose values are read as that type: lookupstore head FILE -n ROWS "
    "-o FILE.csv, with ROWS at least its number of rows"
)
# Remedies of the library for Python, with their equivalents on the command line.
_SPOKEN: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"^(\w+) is (.*), but options say (.*); give one of them": _contradiction,
    r"^options: ": "--hoodie: ",
    r"^(source|table): (?=\S)": "",
    r"^columns: no value column ('.*?') \(it is a key column, not a value column\); .*$": (
        r"columns: \1 is a key column; leave it out, and name value columns only"
    ),
    r"^(where|filter|columns|set|key|by|when|rule)(?=: )": r"--\1",
    r"such as rule=\{'(.*)': 'partial', 'hits': 'sum'\}": (
        r"such as --rule \1:partial --rule hits:sum"
    ),
    r"^(--set: .*,\s*\w+\s*=.* is no SQL: not understood.*, near ','); .*$": (
        r"\1; give each column a --set of its own"
    ),
    r"(^|: )(since|until) is (?='|\d|not given)": r"\1--\2 is ",
    r"query_type='read_optimized'": "--query-type read_optimized",
    r"; a dict needs Hudi's option names; pass WriteOptions\(.*\)$": (
        "; give a name that begins with hoodie., or an option of this command"
    ),
    r"^separator and (quote|decimal) are both": r"--delimiter and --\1 are both",
    r"^quote and decimal are both": "--quote and --decimal are both",
    r"^(decimal|zone|index) is (?=')": r"--\1 is ",
    r"^(partition_by|ordering)(?=: )": lambda found: f"--{found[1].replace('_', '-')}",
    r"^record_key(?=: )": "--key",
    r"(the column '(.+?)' is .*); if its values are whole numbers, .*; else make it "
    r"pa\.string\(\) in the schema, and cast its values to strings": (
        r"\1; give --types \2=int64 if its values are whole numbers, else --types \2=text, or "
        "--like a file that has it as int64 or text"
    ),
    r"a float, and floats are not exact; give (decimal128\(.*?\)), .* in DuckDB": (
        r"a float, and floats are not exact; give a file that has it as \1"
    ),
    r"(the column '(.+?)' is .*); make it pa\.string\(\) in the schema, and cast its values to "
    r"strings(, such as by .*)?": r"\1; give --types \2=text, or --like a file that has it as text",
    r"create the table with a zone, such as by \.dt\.tz_localize\('UTC'\)": (
        "give --zone UTC with a file of CSV or JSON lines, or --like a file whose timestamps have "
        "a zone"
    ),
    r"or to a copy: HudiTable\.create.*": "or to a copy of its rows",
    r"^record_key is empty; give the": "--key is not given: give the",
    r"^by is \(\); give the": "--by is not given: give the",
    r"(?<=; )call (clean|archive|cluster)\(\)": r"run 'lookupstore hudi \1'",
    r"read changes with changes\(\)": "read changes with 'lookupstore hudi changes'",
    r"pass partitions= or where= to cluster": "give --partition or --where",
    r"pass missing='keep' to upsert": "give --missing keep",
    r"pass WriteOptions\(on_error='collect'\)": "give --on-error collect",
    r"pass WriteOptions\(index='package.module.Class'\)": "give --index package.module.Class",
    r"add columns with WriteOptions\(evolve=True\)": "add columns with --evolve",
    r"pass metadata='(\w+)' in options=WriteOptions\(metadata='\w+'\)": r"give --metadata \1",
    r"^version and as_of both": "--version and --as-of both",
    r"lookupstore\.follow\(TABLE, PATH, key=\.\.\.\)": "lookupstore follow TABLE PATH --key A,B",
    r"lookupstore\.follow\(TABLE, ('.*?'|\".*?\"), key=(\[.*?\]), where=\.\.\.\)": _follow_again,
    r" as as_of$": " as --as-of",
    r" as version$": " as --version",
    r"(?<=: )as_of is ": "--as-of is ",
    r"leave as_of out": "leave --as-of out",
    r"give a later (as_of|since|until)\b": lambda found: (
        f"give a later --{found[1].replace('_', '-')}"
    ),
    r"; a number is a version$": "; give a number as --version",
    r"; look keys up in lookupstore\.hudi\.TableLookup\((.*), as_of=\.\.\.\), or .*$": (
        r"; pass its rows: lookupstore hudi scan \1 --as-of TIME --output arrow"
    ),
    r"^(version|as_of)(?= is )": lambda found: f"--{found[1].replace('_', '-')}",
    r"overwrite=True": "--overwrite",
    r"allow_empty=True": "--allow-empty",
    r"allow_new_key=True": "--allow-new-key",
    r"on_duplicate='first', 'last' or \('max', column\)": (
        "--on-duplicate first, last or max:COLUMN"
    ),
    r"choose the row to keep by ColumnarFiles\(\.\.\., on_duplicate='first' or 'last'\)": (
        "pass --on-duplicate first or last to choose the row to keep"
    ),
    r"on_duplicate='first' or 'last'": "--on-duplicate first or last",
    r"nullable_keys=\['([^']*)'\]": r"--nullable-keys \1",
    r"order='(\w+)'": r"--order \1",
    r"pass options=WriteOptions\(evolve=True\)": "give --evolve",
    r"set missing to '(keep|null)'": r"give --missing \1",
    r"pass metadata='(\w+)', to a write in options=WriteOptions\(metadata='\w+'\)": (
        r"give --metadata \1"
    ),
    r"pass lock='external', to a write in options=WriteOptions\(lock='external'\)": (
        "give --lock external"
    ),
    r"\btimeline\(\) lists": "'lookupstore hudi timeline' lists",
    r"(sequence|kind)= (?=takes)": r"--\1 ",
    r"leave (since|until) out": r"leave --\1 out",
    r"which names no zone; give the zone$": (
        "which names no zone; give --zone with the zone of such times, for example UTC"
    ),
    r"leave out changes_by": "leave out --changes-by",
    r"pass kinds='([^']*)'": r"give --kinds \1",
    r"^kinds is ('[^']*'), and changes_by is": r"--kinds is \1, and --changes-by is",
    r"^kinds is (?=')": "--kinds is ",
    r"and kinds is (?=')": "and --kinds is ",
    r"^changes_by is (?=')": "--changes-by is ",
    r"pass columns=(\[.*\])$": _chosen_columns,
    r"pass deletes= in another call": "give --deletes in another command",
    r"^sequence is given, but": "--sequence is given, but",
    r"name those to store in columns=": "name those to store in --columns",
    r"leave sequence= out": "leave --sequence out",
    r"^kinds: ": "--kinds: ",
    r"columns= leaves out": "--columns leaves out",
    r"otherwise changes_by='rows'": "otherwise --changes-by rows",
    r"pass changes_by='rows' and columns=": "give --changes-by rows and --columns",
    r"(?<=[,;] )pass changes_by='debezium' or 'hudi'": "give --changes-by debezium or hudi",
    r"(?<=[,;] )pass changes_by='(\w+)'": r"give --changes-by \1",
    r"in types=": "in --schema",
    r", or give an expression of pyarrow\.compute": "",
    r"temp_dir(=|(?=:))": "--temp-dir",
    r"is separated by ('.'); pass pyarrow\.csv\.open_csv\(.*$": (
        r"is separated by \1; give --delimiter \1"
    ),
    r"pass pyarrow\.csv\.read_csv\(\.\.\.\) with ParseOptions\(quote_char=False\)": (
        "give --quote none"
    ),
    r", or pass pyarrow\.csv\.read_csv\(\.\.\.\) with ReadOptions\(encoding=\.\.\.\)": "",
    r", or pass pyarrow\.csv\.read_csv\(\.\.\.\) with an invalid_row_handler": "",
    r"the column '(.+?)' is (.+?) and has '(.*)' in row (\d+)(?: with decimal='(.)')?; "
    r"(?:correct it, or pass a reader with the right types, such as pyarrow\.csv\.open_csv\(.*\) "
    r"with convert_options|write the zone after each time, .*'ISO8601'\))": _wrong_text,
    r"\bcall rollback\('(\d+)'\)": r"run 'lookupstore hudi rollback TABLE \1'",
    r"\brollback\('(\d+)'\) ends it": r"'lookupstore hudi rollback TABLE \1' ends it",
    r"\bcall rollback\(\), which": "run 'lookupstore hudi rollback TABLE', which",
    r"\brollback\(\) deletes it": "'lookupstore hudi rollback TABLE' deletes it",
    r"^when_((?:not_)?matched(?:_by_source)?)_(update|insert|delete): ": _clause,
    r"as in values=\{'id': 'source\.id', 'hits': 1\}": (
        "as in 'not matched then insert (id, hits) values (source.id, 1)'"
    ),
    r"as in set=\{'hits': 'target\.hits \+ 1'\}": (
        "as in 'matched then update set hits = target.hits + 1'"
    ),
    r"(to set a (?:day|time), write .*), or give a datetime\..*$": r"\1",
    r"(to set a time, write .*), or give a datetime with(out)? tzinfo$": r"\1",
    r", or give pyarrow\.scalar\(text\)": "",
    r"leave this one out: except_columns=.*$": "leave this one out of the files",
    r"has '(.*)' in row (\d+), which is not in the format ('.*')$": (
        r"has '\1' in row \2, which is not in the format \3; correct it, or give --null '\1' if it "
        "means null"
    ),
    r"make one with savepoint\('(\d+)'\), then": (
        r"make one by 'lookupstore hudi savepoint TABLE \1', then"
    ),
    r"choose the other columns, or give rows as": "choose others with --columns, or give rows as",
    r"^keys: the field ('.*') is (.*); found ((?:large_)?string(?:_view)?); give .*$": (
        rf"the column \1 must be \2, but is \3 in the file; {_AS_CSV}"
    ),
    r"^keys: ('.*') is ((?:large_)?string(?:_view)?); give (\S+), such as .*$": (
        rf"the column \1 must be \3, but is \2 in the file; {_AS_CSV}"
    ),
    r"^keys: the field ('.*') is ((?:large_)?string(?:_view)?); found (u?int\d+); give .*$": (
        rf"the column \1 must be \2, but is \3 in the file; {_AS_CSV}"
    ),
    r"^(rows|keys): ('.*?' is .*?; give )(.*?), such as .* in DuckDB.*$": (
        r"\1: \2a file that has it as \3"
    ),
    r"with merge \(hudi_merge in Spark\)": "with 'lookupstore hudi merge'",
    r"(the fact column '.*' is (?:large_)?string(?:_view)?, .*); cast the fact column$": (
        rf"\1; {_AS_CSV}"
    ),
    r"(the fact column '.*' is u?int\d+, the .* is (?:large_)?string(?:_view)?); cast the fact "
    r"column$": rf"\1; {_AS_CSV}",
    r": open the table again$": (
        "; run the command again, with a newer --version or --as-of if you gave one"
    ),
    r"(not a lookupstore store, but a Hudi table); lookupstore\.build makes .*$": _of_hudi_table,
    r"\blookupstore\.build makes": _made_by,
    r"open it with lookupstore\.open\(('.*?'|\".*?\")\), and give its rows: store\.scan\(\)": (
        _rows_of_store
    ),
    r"; lookupstore\.sst\.Reader opens sorted files, lookupstore\.build builds a store": (
        "; 'lookupstore build' makes a store"
    ),
    r"no column '(.*?)', (.*); add it, or give it the rule 'partial'": (
        r"no column '\1', \2; add it, or give --rule '\1:partial'"
    ),
    r"add them, or give each the rule 'partial'": (
        "add them, or give --rule COLUMN:partial for each"
    ),
    r"^on_duplicate: ": "--on-duplicate: ",
    r"^source: (.*): Failed to open local file .*Detail: \[errno \d+\] (.*)$": r"\1: \2",
    r"Failed to open local file '(.*?)'\. Detail: \[errno \d+\] ": r"\1: ",
    r"choose with columns= which are taken": "choose with --columns which are taken",
    r"(give )?tables or pyarrow\.json\.read_json\(\.\.\.\) with an explicit_schema in its place": (
        "give --types COLUMN=TYPE"
    ),
    r"(not a sorted lookup file \(\d+ bytes, no known magic\))$": (
        r"\1, nor Parquet or ORC; CSV, JSON lines and Arrow IPC are known by their extension"
    ),
    r"; if it is CSV, give it open: open\(.*\)$": (
        "; if it is CSV, give - and pass the file on standard input"
    ),
    r"raise max_text=, or read the file yourself, and pass its rows": "raise --max-text",
    r"prefix=\(([^)]*?),?\), (?=starts_with=)": r"--prefix \1 ",
    r"prefix= ": "--prefix ",
    r"^starts_with (is about .*) after those of prefix, (.*) out of prefix$": (
        r"--starts-with \1 after those of --prefix, \2 out of --prefix"
    ),
    r"^on: ": "--on: ",
    r"give a prefix=, or choose columns=": "give --prefix, or choose --columns",
    r"a dict from fact column to key column": "FACT=KEY",
    r"the fact column comes first: \{'(.*)': '(.*)'\}$": r"the fact column comes first: \1=\2",
    r"\(columns=\)": "(--columns)",
    r"^starts_with: (.*), or start= and stop=$": r"--starts-with: \1, or --start and --stop",
    r"build from its rows: deltalake\.DeltaTable\((?P<file>.*)\)$": _build_of_table,
    r", or its rows: lookupstore\.hudi\.HudiTable\.open\(.*\)$": "",
    # The state of these tables is in their folder, so that a build reads it.
    r"pass the table of its catalog, .*\((?P<file>.*/metadata/v\d+(\.gz)?\.metadata\.json"
    r"(\.gz)?['\"])\)$": _build_of_table,
    r"pass the table of its catalog, or (give iceberg:\S+), .*$": r"\1",
    r"starts_with=('[^']*')": r"--starts-with \1",
    r"pass HudiTable\.changes\(\) to lookupstore\.upsert with changes_by='changelog'": (
        "pass the output of 'lookupstore hudi changes' to 'lookupstore upsert'"
    ),
}


class Main(LazyGroup):
    """The main command, whose errors are one line and an exit status."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run and exit, as click does, but with our own words for errors."""
        with whole_writes():
            self._run(*args, **options)

    def _run(self, *args: Any, **options: Any) -> None:
        options = {"prog_name": "lookupstore", **options, "standalone_mode": False}
        if os.environ.get("NO_COLOR"):  # click does not support it
            options["color"] = False
        try:
            with interruptible():
                with echoed_logs(), warnings.catch_warnings():
                    warnings.simplefilter("default", UserWarning)
                    warnings.showwarning = _show_warning
                    status = super().main(*args, **options)
                with naming(STANDARD_OUTPUT):
                    sys.stdout.flush()
        except BrokenPipeError:
            status = _reader_has_gone()
        except OSError as error:  # writing the rest finds a full disk
            echo(f"Error: {message_of(error)}", err=True)
            status = 1
        except click.ClickException as error:
            said = " ".join(error.format_message().split())
            said = said.removesuffix(" Did you mean '--help'?")  # every command has it
            said = said.replace("is not a valid integer range.", "is not a whole number.")
            if isinstance(error, click.NoSuchOption):
                said = _said_of_option(error, said)
            echo(f"Error: {said}{_help(error)}", err=True)
            status = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            echo("Interrupted", err=True)
            status = INTERRUPTED
        _leave_nothing_to_write()
        sys.exit(status or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; convert errors to click's, after the trace if that was requested."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            return _reader_has_gone()
        except Exception as error:
            if ctx.params["debug"]:
                echo_traceback(error)
            import pyarrow as pa  # commands that only print help do without it

            # ValueErrors of Arrow are about data; those of lookupstore are about arguments.
            usage = isinstance(error, _USAGE_ERRORS) and not isinstance(error, pa.ArrowException)
            failure = click.UsageError if usage else click.ClickException
            raise failure(message_of(error)) from error


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning of the library in one line."""
    echo(f"Warning: {spoken(str(message))}", err=True)


def _reader_has_gone() -> int:
    """Discard all output from now on, since the reader of the pipe has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _leave_nothing_to_write() -> None:
    """Keep Python from writing failed output again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        _reader_has_gone()


def _said_of_option(error: click.NoSuchOption, said: str) -> str:
    """Return what is said of an option that a command lacks, with the one that it has instead."""
    if error.option_name == "--key":
        return "No such option '--key'."  # not: did you mean '--memory'
    instead = _OPTIONS.get(error.option_name)
    params = [] if error.ctx is None else error.ctx.command.params
    names = {one.name for one in params}
    if error.option_name == "--format" and "delimiter" in names and "keys" not in names:
        return "No such option '--format'. The names of files tell their format."
    option, _, value = (instead or "").partition(" ")
    for one in params:
        if option in one.opts:
            choices = one.type.choices if isinstance(one.type, click.Choice) else (value,)
            if value and value not in choices:
                instead = f"{option} {' or '.join(choices)}"
            return f"No such option {error.option_name!r}. Use '{instead}'."
    return said


def _help(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name in _BEFORE:
        return " (it goes before the command)"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--key":
        params = [] if error.ctx is None else error.ctx.command.params
        if "keys" in {one.name for one in params}:
            return " (keys need no option)"
        is_hudi = error.ctx is not None and "hudi" in error.ctx.command_path.split()
        return f" (a {'table' if is_hudi else 'store'} has its key)"
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        params = [] if error.ctx is None else error.ctx.command.params
        letter = error.option_name[1:2]
        close = [one.opts[0] for one in params if letter and one.opts[0].startswith(f"--{letter}")]
        if close and "keys" in {one.name for one in params}:
            return f" (keys need no option; did you mean {' or '.join(close)}?)"
        if close:
            return f" (did you mean {' or '.join(close)}?)"
        return " (put -- before keys that begin with a minus)"
    if isinstance(error, click.MissingParameter) and getattr(error.param, "name", "") == "instant":
        return " ('lookupstore hudi savepoint TABLE --list' lists the instants to give)"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        options = {one.name for one in error.ctx.command.params}
        if "since" in options and "unexpected extra argument" in error.message:
            return " (write it after --since or --until)"
        return f" (see '{error.ctx.command_path} --help')"
    return ""


def message_of(error: Exception) -> str:
    """Return the text of an error in the terms of the command line."""
    if isinstance(error, KeyError) and error.args:  # its text is the repr of its argument
        return spoken(str(error.args[0]))
    if isinstance(error, CorruptionError):
        said = f"offset {error.offset}: expected {error.expected}, found {error.found}"
        return f"{printable(error.path)} is damaged: {printable(said)} (see {REPAIR})"
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":  # of the output
        return (
            f"{error.object[error.start]!a} is not in {error.encoding}, the encoding of the "
            "locale; set PYTHONUTF8=1"
        )
    if isinstance(error, UnicodeEncodeError):  # of a name with bytes that the locale does not have
        return (
            f"{error.object!a} is not UTF-8; rename it, or set PYTHONUTF8=1 if the locale has "
            "another encoding"
        )
    if isinstance(error, OSError) and error.strerror is not None:
        if error.filename is None:
            return spoken(error.strerror)
        path = os.fsdecode(error.filename)
        folder, name = os.path.split(path)
        if error.errno in _NOT_WRITABLE and final_name(name) is not None:
            return spoken(
                f"{folder or '.'}: {error.strerror}: cannot create a file in this folder; choose "
                "another folder, or make it writable"
            )
        is_relative = "://" not in path and not os.path.isabs(path)
        looked = error.errno == errno.ENOENT and is_relative
        at = f" (looked for {os.path.abspath(path)})" if looked else ""
        if error.errno == errno.ENOENT:
            at += _near(path)
        return spoken(f"{path}: {error.strerror}{at}")
    if isinstance(error, (LookupStoreError, OSError, ImportError, RuntimeError, *_USAGE_ERRORS)):
        return spoken(str(error)) or type(error).__name__
    return f"{type(error).__name__}: {error} (run 'lookupstore --debug ...' for the traceback)"


def _near(path: str) -> str:
    """Return the question whether the path with the closest name was meant, or an empty text."""
    # Only failures need it.
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        close = get_close_matches(name, os.listdir(folder or "."), n=1, cutoff=0.7)
    except OSError:  # a folder is missing, or the path is a URI
        return ""
    return f"; did you mean {os.path.join(folder, close[0])!r}?" if close else ""


def spoken(message: str) -> str:
    """Return a message of the library with the options of the command line for its arguments."""
    for argument, option in _SPOKEN.items():
        message = re.sub(argument, option, message)
    return message
