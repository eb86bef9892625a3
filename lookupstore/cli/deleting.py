"""``lookupstore delete``: delete rows of a store by their keys."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import keep_rows, take_rows
from lookupstore.cli.key_files import check_one_of, read_keys
from lookupstore.cli.key_text import MOST_NAMED, key_texts, missing_text, parse_keys
from lookupstore.cli.options import PLACE, keys_option, output_option, retain_option
from lookupstore.cli.output import write_json
from lookupstore.cli.sources import TextFlags, key_text_flags
from lookupstore.cli.terminal import echo
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import counted, seconds_of
from lookupstore.storage.uris import shown_uri
from lookupstore.store.store import open as open_store
from lookupstore.store.upserting import upsert as upsert_store


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@keys_option("Delete")
@key_text_flags
@retain_option
@output_option("table", "json")
def delete(
    path: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    text: TextFlags,
    retain: str,
    output: str,
) -> None:
    """Delete the rows of a store with these keys.

    Keys that are not stored are named on stderr; the exit status is 0 even so. 'lookupstore get
    --help' says how to type keys. To delete and change rows in one version, use 'lookupstore upsert
    --deletes FILE'.
    """
    check_one_of(keys, keys_file, text)
    kept_for = seconds_of(retain, "--retain")
    with open_store(path) as store:
        known = store.key_schema.schema
        if keys_file is None:
            asked = parse_keys(keys, known)
        else:
            with read_keys(keys_file, known, text) as found:
                asked = pa.concat_tables([found.schema.empty_table(), *found.tables])
        asked = _without_repeats(asked, store.key_schema)
        present = store.contains(asked)
    missing = keep_rows(asked, pc.invert(present))
    number = store.version
    if present.true_count:
        with upsert_store(path, deletes=keep_rows(asked, present), retain=kept_for) as changed:
            number = changed.version
    if output == "json":
        write_json({"path": shown_uri(path), "version": number, "deleted": present.true_count,
                    "missing": len(missing)})  # fmt: skip
    else:
        echo(f"{shown_uri(path)}: {counted(present.true_count, 'row')} deleted, version {number}")
    if len(missing):
        first = missing_text(key_texts(missing.slice(0, MOST_NAMED)),
                             has_more=len(missing) > MOST_NAMED)  # fmt: skip
        counts = f"{len(missing):,} of {counted(len(asked), 'key')}"
        echo(f"{shown_uri(path)}: {counts} not found: {first}", err=True)


def _without_repeats(keys: pa.Table, schema: KeySchema) -> pa.Table:
    """Return each key once, in the order of their first places; Arrow groups not all their types.

    Keys that no store can hold are not compared with each other.
    """
    encoded = encode_keys(keys, schema)
    places = pa.table({"key": encoded.drop_null(), "at": pc.indices_nonzero(encoded.is_valid())})
    first = places.group_by("key", use_threads=False).aggregate([("at", "min")])["at_min"]
    others = pc.indices_nonzero(encoded.is_null())
    return take_rows(keys, pa.concat_arrays([*first.chunks, others]).sort())
