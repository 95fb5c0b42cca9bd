"""The table: every field has a column, every column lines up."""

from __future__ import annotations

import dataclasses

from summary import Summary
from table import COLUMNS, align, render

MADE = Summary("mmap", "none", 0.1, 1 << 20, 1 << 30, 3, (), epoch_seconds=1234.5,
               rows_per_second=1e6, bytes_needed=3 << 30, trainer_idle=0.5, speed_to_mmap=1.0)


def test_columns_are_fields():
    fields = {field.name for field in dataclasses.fields(Summary)}
    assert {field for _, field, _ in COLUMNS} <= fields
    assert len({name for name, _, _ in COLUMNS}) == len(COLUMNS)


def test_the_first_column_is_left_and_others_are_right():
    assert align([["a", "b"], ["long", "1"], ["x", "22"]]) == ["a      b", "long   1", "x     22"]


def test_values_are_written_for_people_and_unknown_ones_dashed():
    heading, *_, line = render([MADE]).splitlines()
    assert line.split()[:8] == ["mmap", "1,234.50", "-", "-", "1,000,000", "3.0", "GiB", "-"]
    assert "50%" in line
    assert heading.index("s/epoch") + len("s/epoch") == line.index("1,234.50") + len("1,234.50")


def test_a_block_per_cache_and_model_tells_its_budgets():
    other = dataclasses.replace(MADE, model="sage", strategy="ginex", cache_share=0.25)
    text = render([MADE, other])
    assert "data path alone; cache 10% of the features (1.0 MiB), memory limit 1.0 GiB" in text
    assert "training sage; cache 25%" in text
    assert text.index("mmap") < text.index("training sage") < text.index("ginex")


def test_memory_alone_has_no_limit():
    assert "memory limit" not in render([dataclasses.replace(MADE, memory_limit_bytes=None)])


def test_failures_stand_below_their_strategy():
    failed = dataclasses.replace(MADE, failures=("killed at the memory limit",))
    assert render([failed]).splitlines()[-1] == "  FAILED: killed at the memory limit"
