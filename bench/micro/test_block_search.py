"""Searches of one block, whose records have one size (aligned) or differ (unaligned).

`Block.lower_bound` calls `ls_block_lower_bound`, here from a Python loop over 1,000 keys.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from workloads import SEED

from lookupstore.sst._block import Block, BlockBuilder

RECORDS = 1_000


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("order", ["random", "ascending"])
def test_block_search(aligned: bool, order: str, each: Callable[..., None]) -> None:
    """Measure `ls_block_lower_bound` by `Block.lower_bound`."""
    random = np.random.default_rng(SEED)
    builder = BlockBuilder("bytes", False, 1 << 30)
    keys = [number.to_bytes(8, "big") for number in range(0, 2 * RECORDS, 2)]
    for number, key in enumerate(keys):
        builder.add(key, b"v" * (32 if aligned else 24 + number % 16))
    block = Block(builder.finish(), "", 0)
    assert block.aligned is aligned
    asked = random.integers(0, 2 * RECORDS - 1, RECORDS)
    if order == "ascending":
        asked.sort()
    asked_keys = [int(number).to_bytes(8, "big") for number in asked]
    assert [block.lower_bound(key) for key in asked_keys] == ((asked + 1) // 2).tolist()
    each(block.lower_bound, asked_keys)
