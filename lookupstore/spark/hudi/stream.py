"""Write the micro-batches of a streaming query to a Hudi table, each once.

A commit keeps the number of its batch where Hudi's own sink keeps it, so that a batch which was
committed before the query could write that down is passed over when it comes again. A query that
has a name keeps the id of its checkpoint beside it: the numbers of another checkpoint begin anew.

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
    retried,
    with_missing,
)
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.hudi.write import Operation, upsert
from lookupstore.spark.jobs import streaming_query

#: In the extra metadata of a commit: the number of the batch, as text, by the query's identifier.
CHECKPOINT = "_hudi_streaming_sink_checkpoint"
#: The same of the id that Spark gives a query, which lives in its checkpoint.
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
        """Write a batch, unless it is committed.

        Raises:
            ValueError: nobody says which query it is of; or the query of that name had another
                checkpoint, so that the numbers of its batches say nothing of this one.
        """
        query_id = streaming_query(df.sparkSession)
        query = self._query or _known(query_id)
        # Another driver of the query may have committed the batch: that is looked at each time.
        verb = self._operation.upper()
        again = self._options.retries if verb in RETRIED else 0
        retried(lambda _: self._write(df, batch_id, query, query_id), again)

    def _write(self, df: DataFrame, batch_id: int, query: str, query_id: str | None) -> None:
        committed = committed_batch(self._table.view(), query)
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
    """Return what `foreachBatch` takes to write a streaming query to a Hudi table, each batch once.

    Args:
        table: a table, or the path or URI of one.
        operation: as of `upsert`.
        missing: as of `upsert`.
        options: as of `upsert`.
        query: identifier under which commits keep the number of the batch, and by which it is known
            again; None: the id of the query, which stays as long as its checkpoint. Over Spark
            Connect it has to be given. A name is that of one checkpoint: with a new checkpoint,
            give a new name.
        storage_options: of a URI, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: there is no table.
        FormatError: it is of a kind that is not read.

    >>> writer = changes.writeStream.foreachBatch(hudi_sink("visits"))  # doctest: +SKIP
    >>> writer.option("checkpointLocation", "s3://bucket/checkpoint").start()  # doctest: +SKIP
    """
    return HudiSink(table_of(table, storage_options), operation, missing, options, query)


class CommittedBatch(NamedTuple):
    """The last batch of a query that is committed.

    Attributes:
        number: of it.
        query_id: that Spark gave the query; None: unknown.
    """

    number: int
    query_id: str | None


def committed_batch(view: TableView, query: str) -> CommittedBatch | None:
    """Return the last batch of a query that is committed; None: none is.

    Args:
        view: of the table; its commits are looked at, the newest first, and then archived ones.
        query: its identifier.

    Raises:
        CorruptionError: a commit or the archive is damaged, or a commit says no number.
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
