"""`WRITE_CHOICES`: fields of `WriteOptions`, flags of commands, options under Hudi's names."""

from __future__ import annotations

import dataclasses
from typing import Any

import click
import pytest
from support.hudi.choice_texts import TEXTS

from lookupstore.cli import main
from lookupstore.hudi import TableServices, WriteOptions
from lookupstore.hudi.write import WRITE_CHOICES, check_operation, default_of
from lookupstore.hudi.write.hoodie.beside import fields_said_by
from lookupstore.hudi.write.hoodie.known import all_options
from lookupstore.hudi.write.hoodie.option import OptionPart

# Fields that no text gives: objects, and what progress bars are for.
_OBJECTS = {
    "services", "sizing", "format", "extra_metadata", "new_file_id", "clock", "progress",
}  # fmt: skip


def test_every_field_is_a_choice_or_an_object() -> None:
    fields = {
        one.name for kind in (WriteOptions, TableServices) for one in dataclasses.fields(kind)
    }
    assert fields - _OBJECTS == WRITE_CHOICES.keys() == TEXTS.keys()


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_means_a_value_that_the_field_takes(name: str) -> None:
    text, value = TEXTS[name]
    assert WRITE_CHOICES[name].kind.parse(text) == value != default_of(name)
    services = {one.name for one in dataclasses.fields(TableServices)}
    beside = {"sort_by": {"sort_mode": "global_sort"}}.get(name, {})
    made: Any = (TableServices if name in services else WriteOptions)(**{name: value}, **beside)
    assert getattr(made, name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("duplicates", "Drop"), ("duplicates", ""), ("combine", "1"), ("memory", "much"),
        ("retries", "-1"), ("retries", "1.5"), ("retain_hours", "-0.5"), ("retain_hours", "nan"),
        ("threads", "0"), ("cluster_curve", "z"),
    ],
)  # fmt: skip
def test_other_texts_mean_nothing(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        WRITE_CHOICES[name].kind.parse(text)


def test_values_of_hudis_options_are_values_of_the_choices() -> None:
    seen = set()
    for option in all_options():
        for name in fields_said_by(option):
            assert name in WRITE_CHOICES, option.names
        if option.part is not OptionPart.WRITE:
            continue
        kind = WRITE_CHOICES[option.field].kind
        for word in option.kind.choices:
            value = option.kind.parse(word)
            assert value is None or not kind.choices or value in kind.choices, (option.names, word)
            seen.add(option.field)
    assert seen >= {"duplicates", "sort_mode", "on_error", "missing", "index"}


@pytest.mark.parametrize("command", ["upsert", "delete", "update", "merge", "cluster"])
def test_flags_are_those_of_the_choices(command: str) -> None:
    with click.Context(main) as context:
        group = main.get_command(context, "hudi")
        assert isinstance(group, click.Group)
        found = group.get_command(context, command)
    assert found is not None
    flags = [one for one in found.params if one.name in WRITE_CHOICES]
    assert len(flags) >= 3
    for flag in flags:
        assert isinstance(flag, click.Option)
        assert flag.name is not None
        assert flag.help == WRITE_CHOICES[flag.name].help
        text, value = TEXTS[flag.name]
        with click.Context(found) as context:
            if not flag.is_flag:
                assert flag.type_cast_value(context, text) == value
            default = flag.type_cast_value(context, flag.get_default(context))
            assert default == default_of(flag.name)


def test_a_choice_for_another_operation() -> None:
    check_operation({"duplicates": "drop"}, "insert")
    check_operation({"duplicates": "allow", "sort_by": (), "missing": "keep"}, "upsert")
    with pytest.raises(ValueError, match="sort_by is for operation bulk_insert, but this is ups"):
        check_operation({"sort_by": ("a",)}, "upsert")
