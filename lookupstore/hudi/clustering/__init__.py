"""From file groups as writes left them to new ones in which rows lie as queries want them.

`clustering` is the verb: under the lock `plan` says which file groups go, and no writer replaces
these from then on; `rewrite` reads the rows of each partition, puts them in order within a memory
budget, and writes the new files; then the commit skeleton of `hudi.write` makes them visible, and
the old ones gone, in one step. `parts` is what a cluster needs, whose tasks see some files each.
`result` is what the caller is told.

`advising` tries orders beforehand: a `simulation` on a sample, whose outcome is an `advice`.
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
