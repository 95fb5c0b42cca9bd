"""The regret grid of the yardstick on the real binaries: two cases, and going on with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import HEARTH, HEARTHD

REGRET = Path(__file__).resolve().parents[1] / "bench" / "regret.py"
ROOMY, TIGHT = "tiny/100%/1/none", "tiny/10%/1/none"


def run_grid(work: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(REGRET), "--datasets", "tiny", "--caches", "10%,100%", "--epochs", "1",
         "--models", "none", "--strategies", "memory,mmap", "--slower", "1000", "--work", str(work),
         *arguments],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "HEARTHD": HEARTHD, "HEARTH": HEARTH})


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    work = tmp_path_factory.mktemp("regret")
    done = run_grid(work)
    assert done.returncode == 0, done.stdout + done.stderr
    return work, done


def lines_of(work: Path) -> dict[tuple[str, str], dict]:
    runs = map(json.loads, (work / "regret.jsonl").read_text().splitlines())
    return {(run["case"], run["strategy"]): run for run in runs}


def test_auto_and_fixed_strategies_run_where_they_fit(measured):
    work, done = measured
    runs = lines_of(work)
    assert len(runs) == 6
    assert runs.pop((TIGHT, "memory"))["outcome"] == "refused"
    assert {run["outcome"] for run in runs.values()} == {"ended"}
    assert len({run["loss_digest"] for run in runs.values()}) == 1
    for (_, strategy), run in runs.items():
        assert run["seconds"] > 0
        assert run["peak_memory_bytes"] <= run["memory_bound_bytes"]
        assert bool(run["chose"]) == (strategy == "auto")
    assert runs[ROOMY, "auto"]["chose"] == "memory"
    for run in runs.values():
        assert 0 < run["ready_seconds"] < run["seconds"]
    assert "regret of 2 cases: largest " in done.stdout
    assert not list((work / "data" / "plans").iterdir())


def test_it_goes_on_where_it_stopped(measured):
    work, done = measured
    kept = work / "regret.jsonl"
    whole = kept.read_text()
    *first, last = whole.splitlines(keepends=True)
    kept.write_text("".join(first) + last[:20])
    again = run_grid(work)
    assert again.returncode == 0, again.stdout + again.stderr
    name = json.loads(last)["strategy"]
    assert [line for line in again.stderr.splitlines() if "round 1" in line] == [
        line for line in again.stderr.splitlines() if f"round 1, {name}: ended" in line] != []
    assert kept.read_text().startswith("".join(first)) and len(lines_of(work)) == 6
    third = run_grid(work)
    assert "round 1" not in third.stderr and third.stdout == again.stdout


def test_a_job_that_takes_too_long_is_stopped_and_leaves_nothing(measured, tmp_path):
    work, _ = measured
    done = run_grid(work, "--cases", ROOMY, "--limit-seconds", "0.001", "--results",
                    str(tmp_path / "regret.jsonl"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {run["outcome"] for run in lines_of(tmp_path).values()} == {"stopped"}
    assert not list((work / "data" / "plans").iterdir())
    jobs = work / "data" / "jobs"
    assert not [job for job in jobs.iterdir() if job.name.startswith("train")]
