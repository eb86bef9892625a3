"""The versions of Hudi tables that tests go through."""

from __future__ import annotations

import pytest

#: Version 8 differs from 9 in the options of a new table only (`lookupstore.hudi.options`).
#: Tests of these options run on 6, 8 and 9. Tests that are parametrized with VERSIONS run on 8 in
#: `make test-long` only.
VERSIONS = [6, pytest.param(8, marks=pytest.mark.long), 9]
