"""A table at one moment: its columns, its file groups, and what its commits changed.

- `table_view` has the view of a table, by the timeline that was read.
- `opening` reads the properties and the timeline of a table.
- `reach` checks that what a view needs was not cleaned, archived or rolled back.
- `recorded` compares files with those that commits record.
"""

from lookupstore.hudi.view.opening import read_view
from lookupstore.hudi.view.reach import check_begun, first_time
from lookupstore.hudi.view.recorded import wrong_logs
from lookupstore.hudi.view.table_view import TableView

__all__ = ["TableView", "check_begun", "first_time", "read_view", "wrong_logs"]
