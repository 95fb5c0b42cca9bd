"""The figures of daemons that train together."""

from __future__ import annotations

import pytest

from cluster_figures import (Link, Measured, efficiency, exchange_seconds, gradient_bytes,
                             render_measured, render_reckoning, render_rival)

_LINK = Link("1 Gbit/s", 1e9)


def measured(machines: int, step: float, sent: float = 0) -> Measured:
    """Ten batches, in which each machine sends `sent` bytes."""
    return Measured(machines, 1000 * machines, 10, 10 * step, int(machines * sent * 20),
                    int(machines * sent * 10), 10)


def test_gradients_follow_from_what_a_machine_sends() -> None:
    assert gradient_bytes(measured(2, 0.1, 1e6)) == pytest.approx(1e6)
    assert gradient_bytes(measured(4, 0.1, 1.5e6)) == pytest.approx(1e6)


def test_one_machine_exchanges_nothing() -> None:
    assert exchange_seconds(_LINK, 1e6, 1, 1) == 0


def test_an_exchange_is_what_the_link_must_carry() -> None:
    assert exchange_seconds(_LINK, 1e6, 2, 0.001) == pytest.approx(0.008 + 0.003)
    assert exchange_seconds(_LINK, 1e6, 4, 0) == pytest.approx(0.012)


def test_efficiency_leaves_out_what_the_link_must_carry() -> None:
    assert efficiency(measured(1, 0.1), measured(2, 0.108, 1e6), _LINK) == pytest.approx(1)
    assert efficiency(measured(1, 0.1), measured(2, 0.208, 1e6), _LINK) == pytest.approx(0.5)


def test_tables_name_what_they_are_of() -> None:
    turns = [[measured(1, 0.1), measured(2, 0.108, 1e6)]] * 3
    assert "| 2 | 108.0 | 18,519 | 1.85 | 1.00 N | 1.00 MB | 100.0% |" in render_measured(
        _LINK, turns)
    table = render_reckoning(_LINK, turns, 64, round_trip=0)
    assert "100.0 ms a step of 1,000 seeds" in table and "1.00 MB of gradients" in table
    assert "| 2 | 108.0 |" in table and "| 64 |" in table and "| 128 |" not in table


def test_without_several_machines_nothing_is_reckoned() -> None:
    assert render_reckoning(_LINK, [[measured(1, 0.1)]], 64) == ""


def test_a_rival_is_compared_turn_by_turn() -> None:
    turns = [[measured(1, 0.1), measured(2, 0.2)], [measured(1, 0.2), measured(2, 0.1)],
             [measured(1, 0.1), measured(2, 0.1)]]
    table = render_rival("PyG", turns, [[3, 4], [4, 8], [3, 3]])
    assert "| 1 | 3.00 | 1.00 | 3.00 × |" in table
    assert "| 2 | 4.00 | 1.00 | 3.00 × |" in table
