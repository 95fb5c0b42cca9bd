"""What ASHA finds on WordNet, in how many epochs, beside a full grid (tier 2)."""

from __future__ import annotations

import json
import subprocess

import pytest

from test_accuracy import wordnet  # noqa: F401, a fixture

# So many steps an epoch that one epoch tells something of all learning rates.
_BASE = ("sweep", "submit", "--dataset", "wordnet", "--model", "sage", "--fanouts", "5,5", "--hidden",
         "32", "--batch-size", "256", "--dropout", "0.2", "--seed", "1", "--train-threads", "1",
         "--strategy", "memory", "--epochs", "9", "--parallel", "27")
_GRID = (*_BASE, "--algorithm", "grid", "--space", "lr=log:1e-4:1e-1:27")
_ASHA = (*_BASE, "--algorithm", "asha", "--trials", "27", "--space", "lr=log:1e-4:1e-1")
_WITHIN = 0.003
_MOST_EPOCHS = 0.4


def search(daemon, sweep) -> tuple[float, int]:
    """The best validation metric, and the epochs of all trials. Takes minutes."""
    done = subprocess.run(daemon.command(*sweep, "--output", "json"), capture_output=True, text=True,
                          timeout=3000, check=True)
    result = json.loads(done.stdout)
    assert result["state"] == "SWEEP_DONE" and len(result["trials"]) == 27
    return (max(trial["metric"] for trial in result["trials"]),
            sum(trial["epochs"] for trial in result["trials"]))


@pytest.mark.full("search")
def test_asha_finds_the_grids_best_learning_rate(wordnet, tell):  # noqa: F811
    best, all_epochs = search(wordnet, _GRID)
    found, epochs = search(wordnet, _ASHA)
    tell(f"validation accuracy {found:.4f} in {epochs} epochs, of a grid {best:.4f} in {all_epochs}")
    assert all_epochs == 27 * 9
    assert found >= best - _WITHIN
    assert epochs <= _MOST_EPOCHS * all_epochs
