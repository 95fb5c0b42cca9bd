"""The trace that calls belong to."""

from __future__ import annotations

import re

import pytest

from hearth.trace import trace_parent

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_trace_of_the_environment_is_passed_on(monkeypatch):
    monkeypatch.setenv("TRACEPARENT", GIVEN)
    assert trace_parent() == GIVEN


@pytest.mark.parametrize("given", [
    "", "x", GIVEN.upper(), GIVEN + "\n", "ff" + GIVEN[2:], GIVEN.replace("4bf92f35", "4bf92f3"),
    "00-" + "0" * 32 + GIVEN[35:], GIVEN[:36] + "0" * 16 + "-01"])
def test_else_it_is_a_new_one(monkeypatch, given):
    monkeypatch.setenv("TRACEPARENT", given)
    one, other = trace_parent(), trace_parent()
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", one)
    assert one != other
