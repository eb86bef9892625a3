"""The command line: ``lookupstore build | upsert | get | scan | join | info | publish | ...``.

Exit status: 0 success; 1 the operation failed (a key is missing, a file is damaged or of another
kind, the disk is full, there is no Java); 2 usage error.
"""

from __future__ import annotations

import click

from lookupstore._version import __version__
from lookupstore.cli.failures import Main

#: Key of the context under which the main command stores options of object stores for subcommands.
STORAGE_OPTIONS = "lookupstore.storage_options"

_COMMANDS = {
    "build": (
        "lookupstore.cli.stores",
        "Build a store from files or a table.",
    ),
    "follow": ("lookupstore.cli.following", "Bring a store to the newest snapshot of a table."),
    "sync": ("lookupstore.cli.following", "Bring a store that follows a table up to date."),
    "upsert": ("lookupstore.cli.changing", "Change rows of a store, and delete keys."),
    "delete": ("lookupstore.cli.deleting", "Delete rows of a store by their keys."),
    "compact": ("lookupstore.cli.changing", "Merge the changes of a store into its buckets."),
    "changes": ("lookupstore.cli.changing", "Print what became of rows between two versions."),
    "get": ("lookupstore.cli.lookups", "Print the rows with the given keys."),
    "scan": ("lookupstore.cli.lookups", "Print rows in key order."),
    "head": ("lookupstore.cli.head", "Print the first rows of a store, file or table."),
    "join": ("lookupstore.cli.joining", "Append the columns of a store to rows of files."),
    "info": ("lookupstore.cli.reports", "Print the schema and properties of a store or file."),
    "versions": ("lookupstore.cli.stores", "List the versions of a store, oldest first."),
    "expire": ("lookupstore.cli.stores", "Remove old versions and leftovers of killed builds."),
    "publish": ("lookupstore.cli.stores", "Copy a version of a store to another folder or URI."),
    "warm": ("lookupstore.cli.stores", "Copy a store to this host, and read it into memory."),
    "publish-lookup-files": (
        "lookupstore.cli.columnar",
        "Build lookup files next to Parquet or ORC files.",
    ),
    "paimon-lookup-files": (
        "lookupstore.cli.columnar",
        "Build the lookup files that Apache Paimon would make.",
    ),
    "stats": ("lookupstore.cli.reports", "Show the lookup joins on this host in the last week."),
    "dump": ("lookupstore.cli.dump", "Print every region of a file, or of all files of a store."),
    "cache": ("lookupstore.cli.cache", "Print what the cache folder holds, or clear it."),
    "doctor": ("lookupstore.cli.doctor", "Check this machine's installation and suggest fixes."),
    "size": ("lookupstore.cli.size", "Estimate the disk and memory that a store needs."),
    "formats": ("lookupstore.cli.formats", "List what each kind of source may lose."),
    "verify": ("lookupstore.cli.reports", "Read every byte of a store or file and check it."),
    "hudi": ("lookupstore.cli.hudi_group", "Create, read, change and check Hudi tables."),
    "demo": ("lookupstore.cli.demo", "Enrich 336,776 flights with three lookup joins."),
}
# Commands that other tools give several names.
_CHANGE = "'lookupstore upsert STORE SOURCE', or 'lookupstore hudi upsert TABLE FILE'."
_FIND = "'lookupstore get STORE KEY', or 'lookupstore scan STORE --where SQL'."
# Names that other tools give their commands.
_INSTEAD = {
    "update": "'lookupstore upsert STORE SOURCE', or 'lookupstore hudi update TABLE'.",
    "insert": _CHANGE,
    "put": _CHANGE,
    "merge": "'lookupstore upsert STORE SOURCE', or 'lookupstore hudi merge TABLE FILE'.",
    "remove": "'lookupstore delete STORE KEY'.",
    "lookup": _FIND,
    "find": _FIND,
    "search": _FIND,
    "query": _FIND,
    "select": _FIND,
    "schema": "'lookupstore info PATH'.",
    "describe": "'lookupstore info PATH'.",
    "create": "'lookupstore build SOURCE STORE --key A,B', or 'lookupstore hudi create TABLE'.",
    "import": "'lookupstore build SOURCE STORE --key A,B'.",
    "copy": "'lookupstore publish STORE PATH'.",
    "vacuum": "'lookupstore expire STORE', or 'lookupstore hudi clean TABLE'.",
    "restore": "'lookupstore publish STORE STORE --version N --overwrite', or 'lookupstore hudi "
    "restore TABLE INSTANT'.",
    "history": "'lookupstore versions STORE', or 'lookupstore hudi history TABLE'.",
    "clear": "'lookupstore cache --clear'.",
    "count": "'lookupstore info STORE', which prints num_rows.",
    "ls": "'lookupstore versions STORE', or 'lookupstore info PATH'.",
    "list": "'lookupstore versions STORE', or 'lookupstore info PATH'.",
    "tail": "'lookupstore scan STORE --reverse --limit N'.",
    "cat": "'lookupstore scan STORE --output csv'.",
    "export": "'lookupstore scan STORE -o FILE'.",
    "diff": "'lookupstore changes STORE --since VERSION'.",
    "check": "'lookupstore verify PATH'.",
    "clean": "'lookupstore expire STORE', or 'lookupstore hudi clean TABLE'.",
    "rollback": "'lookupstore publish STORE STORE --version N --overwrite', or 'lookupstore hudi "
    "rollback TABLE'.",
}


@click.group(
    "lookupstore",
    cls=Main,
    lazy=_COMMANDS,
    instead=_INSTEAD,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="lookupstore", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the object store of all URIs, such as endpoint_url=http://minio:9000, by the names of "
    "pandas or deltalake; repeatable. Secrets are safer in the environment.",
)
@click.pass_context
def main(ctx: click.Context, debug: bool, storage_options: tuple[str, ...]) -> None:
    """Look up keys in small sorted files, built once from columnar data.

    Exit status: 0 success; 1 the operation failed (a key is missing, a file is damaged, the disk
    is full); 2 usage error.
    """
    ctx.meta[STORAGE_OPTIONS] = _named_values(storage_options, "--storage-option")
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _named_values(given: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the values of several NAME=VALUE by their names.

    Raises:
        click.UsageError: If one of them does not have this form. Its text may be a secret, and is
            not shown.
    """
    for number, one in enumerate(given, 1):
        if not one.partition("=")[0] or "=" not in one:
            which = option if len(given) == 1 else f"{option} number {number}"
            raise click.UsageError(f"{which} is not NAME=VALUE: put a name and = before the value")
    return {name: value for name, _, value in (one.partition("=") for one in given)}
