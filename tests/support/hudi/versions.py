"""The versions of Hudi tables that tests go through."""

from __future__ import annotations

import pytest

#: Version 8 differs from 9 in the options of a new table only (`lookupstore.hudi.options`).
#: Tests of these options go through all three versions, others leave 8 to `make test-long`.
VERSIONS = [6, pytest.param(8, marks=pytest.mark.long), 9]
