"""Write the micro-batches of a streaming query to a Hudi table, each once.

A commit keeps the number of its batch where Hudi's own sink keeps it, so that a batch which was
committed before the query could write that down is passed over when it comes again.

Source: org.apache.hudi.HoodieStreamingSink, CommitUtils (getValidCheckpointForCurrentWriter).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import GivenOptions, given_options
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.hudi.write import Operation, upsert
from lookupstore.spark.jobs import streaming_query

#: In the extra metadata of a commit: the number of the batch, as text, by the query's identifier.
CHECKPOINT = "_hudi_streaming_sink_checkpoint"

_log = logging.getLogger(__name__)


class HudiSink:
    """A writer of one batch after the other; made by `hudi_sink`."""

    def __init__(
        self,
        table: HudiTable,
        operation: Operation,
        options: GivenOptions | None,
        query: str | None,
    ) -> None:
        self._table = table
        self._operation = operation
        self._options = given_options(options, self._table.options, operation.upper())
        self._query = query

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write a batch, unless it is committed.

        Raises:
            ValueError: nobody says which query it is of.
        """
        query = self._query or _query_of(df)
        committed = committed_batch(self._table.view(), query)
        if committed is not None and committed >= batch_id:
            _log.info(
                "%s: batch %d of %s is already committed; skipped",
                self._table.location.uri,
                batch_id,
                query,
            )
            return
        said = {CHECKPOINT: json.dumps({query: str(batch_id)})}
        options = replace(self._options, extra_metadata={**self._options.extra_metadata, **said})
        upsert(df, self._table, operation=self._operation, options=options)


def hudi_sink(
    table: Table,
    *,
    operation: Operation = "upsert",
    options: GivenOptions | None = None,
    query: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> HudiSink:
    """Return what `foreachBatch` takes to write a streaming query to a Hudi table, each batch once.

    Args:
        table: a table, or the path or URI of one.
        operation: as of `upsert`.
        options: as of `upsert`.
        query: identifier under which commits keep the number of the batch, and by which it is known
            again; None: the id of the query, which stays as long as its checkpoint. Over Spark
            Connect it has to be given.
        storage_options: of a URI, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: there is no table.
        FormatError: it is of a kind that is not read.

    >>> writer = changes.writeStream.foreachBatch(hudi_sink("visits"))  # doctest: +SKIP
    >>> writer.option("checkpointLocation", "s3://bucket/checkpoint").start()  # doctest: +SKIP
    """
    return HudiSink(table_of(table, storage_options), operation, options, query)


def committed_batch(view: TableView, query: str) -> int | None:
    """Return the number of the last batch of a query that is committed; None: none is.

    Args:
        view: of the table; its commits are looked at, the newest first, and then archived ones.
        query: its identifier.

    Raises:
        CorruptionError: a commit or the archive is damaged, or a commit says no number.
    """
    active = ((view.folder.path(one), view.commit(one)) for one in reversed(view.timeline.writes()))
    archived = ((view.archive.shown, commit) for commit in view.archive.commits())
    for path, commit in chain(active, archived):
        text = (commit.extra_metadata or {}).get(CHECKPOINT)
        if not text:
            continue
        try:
            number = json.loads(text).get(query)
            if number is not None:
                return int(number)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptionError(path, 0, f"numbers of batches in {CHECKPOINT}", text) from error
    return None


def _query_of(df: DataFrame) -> str:
    query = streaming_query(df.sparkSession)
    if query is None:
        raise ValueError(
            "query: cannot tell which streaming query this batch belongs to; pass query='a name' "
            "to hudi_sink"
        )
    return query
