"""Rewrite file groups so that rows are in an order that suits queries.

`clustering` does this in three steps. `plan` chooses the file groups under the lock of the table;
no other writer replaces them from then on. `rewrite` reads the rows of each partition, sorts them
within a memory budget, and writes the new files. The transaction of `hudi.write` then replaces the
old files by the new ones in one step. `parts` has the steps for Spark, where each task reads a part
of the files. `result` has the result for the caller.

`advising` tries orders on a sample by `simulation`, and returns an `advice`.
"""

from lookupstore.hudi.clustering.advice import ClusterAdvice, SimulatedOrder
from lookupstore.hudi.clustering.advising import advise
from lookupstore.hudi.clustering.clustering import cluster
from lookupstore.hudi.clustering.parts import ClusterFiles, PartSample, Placement, rows_to_sample
from lookupstore.hudi.clustering.plan import PartitionPlan, is_due, last_columns
from lookupstore.hudi.clustering.result import ClusterResult

__all__ = [
    "ClusterAdvice",
    "ClusterFiles",
    "ClusterResult",
    "PartSample",
    "PartitionPlan",
    "Placement",
    "SimulatedOrder",
    "advise",
    "cluster",
    "is_due",
    "last_columns",
    "rows_to_sample",
]
