"""Arrow's expressions taken apart: what can be told of them, and what cannot."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.parsed_expression import (
    Call,
    Field,
    Literal,
    Unread,
    parse_expression,
)
from lookupstore.filters.predicates import Unknown, predicate_of


def test_a_call_has_its_arguments_in_order() -> None:
    found = parse_expression((pc.field("a") > 3) & (pc.field("b") == pc.field("c")))
    assert found == Call(
        "and_kleene",
        (
            Call("greater", (Field("a"), Literal(pa.scalar(3))), {}),
            Call("equal", (Field("b"), Field("c")), {}),
        ),
        {},
    )


def test_calls_more_than_200_deep_are_not_looked_into() -> None:
    """The filter of such an expression reads all files; Python could not follow it down."""
    expression = pc.field("a")
    for _ in range(200):
        expression = ~expression
    node = parse_expression(expression)
    for _ in range(200):
        assert isinstance(node, Call)
        (node,) = node.arguments
    assert node == Field("a")
    for more in (1, 3000):
        for _ in range(more):
            expression = ~expression
        assert parse_expression(expression) == Unread()
        assert isinstance(predicate_of(expression), Unknown)
