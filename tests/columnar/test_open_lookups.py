"""Lookup files that stay open are few, and give way; one is made when reads have paid for it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lookupstore.columnar import open_lookups
from lookupstore.columnar.open_lookups import OpenLookups
from lookupstore.columnar.rent import BUILD_COST, Rent


class Lookup:
    """A lookup that says whether it is open."""

    def __init__(self) -> None:
        self.is_open = False

    def release(self) -> None:
        self.is_open = False


def test_those_that_were_asked_last_stay_open(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    most = draw.randint(1, 5)
    monkeypatch.setattr(open_lookups, "MOST_OPEN", most)
    lookups = [Lookup() for _ in range(9)]
    opened = OpenLookups()
    asked: list[Lookup] = []
    for _ in range(2000):
        if draw.random() < 0.02:
            opened.release()
            asked = []
        else:
            one = draw.choice(lookups)
            one.is_open = True
            opened.used(one)
            asked.append(one)
        last = list(dict.fromkeys(reversed(asked)))[:most]
        assert {one for one in lookups if one.is_open} == set(last), f"seed {seed}"


def test_room_is_shared_when_it_gets_short_and_there_are_more() -> None:
    asked = []

    class Host:
        is_full = False

        @property
        def is_getting_full(self) -> bool:
            asked.append(1)
            return self.is_full

    host: Any = Host()
    opened, one = OpenLookups(), Lookup()
    for is_full in (False, True):
        host.is_full = is_full
        one.is_open = True
        opened.used(one)
        opened.share_room(host)
        assert one.is_open, "nothing was opened since there was room"
    assert len(asked) == 1, "it takes a look at the folder of copies"
    opened.used(Lookup())
    opened.share_room(host)
    assert (one.is_open, len(asked)) == (False, 2)


@pytest.mark.parametrize("seed_of", range(20))
def test_rent_costs_at_most_twice_the_better_choice(seed_of: int) -> None:
    draw = random.Random(seed_of)
    whole = draw.randint(1, 1000)
    reads = [draw.randint(0, whole) for _ in range(draw.randint(0, 60))]
    rent, cost = Rent("auto"), 0
    for read in reads:
        if rent.is_due(whole, read):
            cost += BUILD_COST * whole
            break
        rent.pay(read)
        cost += read
    assert cost <= 2 * min(sum(reads), BUILD_COST * whole), f"seed {seed_of}"
    rent.start_over()
    assert not rent.is_due(whole, whole)


def test_rent_that_is_not_paid() -> None:
    assert Rent("always").is_due(10, 0)
    never = Rent("never")
    never.pay(1 << 40)
    assert not never.is_due(1, 1)
