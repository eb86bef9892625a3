"""Write the micro-batches of a streaming query to a Hudi table, each once.

A commit stores the number of its batch where Hudi's own sink stores it, so that a batch which was
committed before the query could record it is skipped when it is repeated. A query with a name also
stores the id of its checkpoint: the numbers of another checkpoint begin again.

Source: org.apache.hudi.HoodieStreamingSink, CommitUtils (getValidCheckpointForCurrentWriter).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    RETRIED,
    GivenOptions,
    Missing,
    given_options,
    retried_on,
    with_missing,
)
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.hudi.write import Operation, upsert
from lookupstore.spark.jobs import streaming_query

#: Key in the extra metadata of a commit for the number of the batch, as text, by query.
CHECKPOINT = "_hudi_streaming_sink_checkpoint"
#: The same key for the id that Spark gives to a query, which is stored in its checkpoint.
QUERY_ID = "lookupstore.streaming_query"

_log = logging.getLogger(__name__)


class HudiSink:
    """A writer of one batch after the other; made by `hudi_sink`."""

    def __init__(
        self,
        table: HudiTable,
        operation: Operation,
        missing: Missing | None,
        options: GivenOptions | None,
        query: str | None,
    ) -> None:
        self._table = table
        self._operation = operation
        self._options = with_missing(
            given_options(options, self._table.options, operation.upper()), missing
        )
        self._query = query

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write a batch, unless it is already committed.

        Raises:
            ValueError: If the query of the batch is unknown, or the query of that name had another
                checkpoint, so that the numbers of its batches cannot be compared.
        """
        query_id = streaming_query(df.sparkSession)
        query = self._query or _known(query_id)
        # Another driver of the query may have committed the batch, so this is checked each time.
        verb = self._operation.upper()
        again = self._options.retries if verb in RETRIED else 0

        def write(view: TableView, _: int) -> None:
            self._write(view, df, batch_id, query, query_id)

        retried_on(self._table.view, write, again)

    def _write(
        self, view: TableView, df: DataFrame, batch_id: int, query: str, query_id: str | None
    ) -> None:
        committed = committed_batch(view, query)
        if committed is not None:
            _check_checkpoint(self._table.location.uri, query, committed, batch_id, query_id)
        if committed is not None and committed.number >= batch_id:
            _log.info(
                "%s: batch %d of %s is already committed; skipped",
                self._table.location.uri,
                batch_id,
                query,
            )
            return
        said = {CHECKPOINT: json.dumps({query: str(batch_id)})}
        if query_id is not None:
            said[QUERY_ID] = json.dumps({query: query_id})
        extra = {**self._options.extra_metadata, **said}
        options = replace(self._options, extra_metadata=extra, retries=0)
        upsert(df, self._table, operation=self._operation, options=options)


def hudi_sink(
    table: Table,
    *,
    operation: Operation = "upsert",
    missing: Missing | None = None,
    options: GivenOptions | None = None,
    query: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> HudiSink:
    """Return a writer for `foreachBatch` that adds each batch to a Hudi table once.

    Args:
        table: Table, or its path or URI.
        operation: Operation for each batch: `upsert`, `insert`, `delete`, `bulk_insert`,
            `insert_overwrite`, `insert_overwrite_table` or `delete_partition`; see
            `lookupstore.spark.hudi.upsert`.
        missing: Handling of columns of the table that a batch lacks: `keep` keeps the stored
            values, and new rows get nulls; `null` sets all rows to null. Default: the choice in
            `options`, or else `ValueError`.
        options: Options of the write; see `HudiTable.upsert`.
        query: Identifier under which commits record the number of the batch. A name belongs to one
            checkpoint: with a new checkpoint, give a new name. Over Spark Connect a name is
            required. Default: the identifier of the query, which lasts as long as its checkpoint.
        storage_options: Options of the URI of `table`, such as credentials; see
            `lookupstore.Location`.

    Raises:
        FileNotFoundError: If there is no table.
        FormatError: If the table is of an unsupported kind.

    >>> writer = changes.writeStream.foreachBatch(hudi_sink("visits"))  # doctest: +SKIP
    >>> writer.option("checkpointLocation", "s3://bucket/checkpoint").start()  # doctest: +SKIP
    """
    return HudiSink(table_of(table, storage_options), operation, missing, options, query)


class CommittedBatch(NamedTuple):
    """The last committed batch of a query.

    Attributes:
        number: Number of the batch.
        query_id: Identifier that Spark gave the query. None: unknown.
    """

    number: int
    query_id: str | None


def committed_batch(view: TableView, query: str) -> CommittedBatch | None:
    """Return the last committed batch of a query. None: there is none.

    Args:
        view: View of the table. Its commits are searched from the newest on, and then the archived
            ones.
        query: Identifier of the query.

    Raises:
        CorruptionError: If a commit or the archive is damaged, or a commit records no number.
    """
    active = ((view.folder.path(one), view.commit(one)) for one in reversed(view.timeline.writes()))
    archived = ((view.archive.shown, commit) for commit in view.archive.commits())
    for path, commit in chain(active, archived):
        said = commit.extra_metadata or {}
        text = said.get(CHECKPOINT)
        if not text:
            continue
        try:
            number = json.loads(text).get(query)
            if number is not None:
                return CommittedBatch(int(number), json.loads(said.get(QUERY_ID, "{}")).get(query))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptionError(path, 0, f"numbers of batches in {CHECKPOINT}", text) from error
    return None


def _known(query_id: str | None) -> str:
    if query_id is None:
        raise ValueError(
            "query: cannot tell which streaming query this batch belongs to; pass query='a name' "
            "to hudi_sink"
        )
    return query_id


def _check_checkpoint(
    uri: str, query: str, committed: CommittedBatch, batch_id: int, query_id: str | None
) -> None:
    """Check that a batch is numbered by the checkpoint that numbered the last one.

    A query that fails repeats its last batch, and no earlier one.
    """
    if query_id is None or committed.query_id is None:
        is_other = batch_id < committed.number
    else:
        is_other = query_id != committed.query_id
    if is_other:
        raise ValueError(
            f"{uri}: query {query!r}: batch {batch_id} is of another checkpoint than the committed "
            f"batch {committed.number}, so that their numbers cannot be compared; start the query "
            "with its old checkpoint, or pass another query= to hudi_sink, which writes every "
            "batch of the new checkpoint"
        )
