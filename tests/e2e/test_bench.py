"""The yardstick measures the real binaries: its JSON is whole and makes sense."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import HEARTH, HEARTHD

BENCH = Path(__file__).resolve().parents[1] / "bench" / "hearth_bench.py"
CACHED = {"gnndrive", "gnndrive-reorder", "ginex", "outre"}


def run_bench(work: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(BENCH), "--quick", "--work", str(work), *arguments],
                          capture_output=True, text=True, check=False, timeout=1800,
                          env={**os.environ, "HEARTHD": HEARTHD, "HEARTH": HEARTH})


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def measured(work):
    done = run_bench(work)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((work / "hearth_bench.json").read_text())


def test_every_strategy_is_measured(measured):
    done, document = measured
    ran = {run["strategy"] for run in document["runs"]}
    assert ran >= {"memory", "mmap-normal", "mmap-random", "diskgnn", *CACHED}
    # Its variants stand for mmap, and models are on the processor.
    assert set(document["left_out"]) == {"mmap", "memory-gpu", "gids-gpu", "diskgnn-gpu"}
    assert "left out: mmap:" in done.stdout
    for name in ran:
        assert name in done.stdout


def test_the_document_is_whole(measured):
    _, document = measured
    assert document["format"] == "hearth-bench-1"
    assert document["settings"]["size"]["dim"] == 128
    assert {"unix_seconds", "machine", "disk", "notes"} <= set(document)
    assert set(document["machine"]) >= {"kernel", "processors", "memory_bytes"}


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_the_disk_is_measured(measured):
    _, document = measured
    blocks = {point["block_bytes"] for point in document["disk"]["points"]}
    assert blocks == {512, 4096, 1 << 20}
    assert all(point["reads_per_second"] > 0 for point in document["disk"]["points"])
    assert [each["round"] for each in document["disk"]["rounds"]] == [1]


def test_runs_have_epochs_of_the_same_batches(measured):
    _, document = measured
    assert {run["model"] for run in document["runs"]} == {"none", "sage"}
    for run in document["runs"]:
        assert run["failure"] is None
        assert len(run["epochs"]) == document["settings"]["epochs"]
        for epoch in run["epochs"]:
            assert epoch["seconds"] > 0
            assert epoch["bytes_needed"] == epoch["rows_needed"] * 512
            assert 0 <= epoch["trainer_idle"] <= 1
    # One strategy has batches of its own.
    for of_outre in (False, True):
        assert len({tuple(epoch["rows_needed"] for epoch in run["epochs"])
                    for run in document["runs"] if (run["strategy"] == "outre") == of_outre}) == 1


def test_summaries_have_ratios(measured):
    _, document = measured
    summaries = document["summaries"]
    assert len(summaries) == len(document["runs"])
    for summary in summaries:
        assert summary["speed_to_mmap"] > 0 and summary["tax_to_memory"] > 0
        assert summary["rows_per_second"] > 0 and summary["peak_memory_bytes"] > 0
        if summary["strategy"] == "memory":
            assert summary["tax_to_memory"] == 1
        if summary["strategy"] in CACHED:
            assert summary["bytes_read"] > 0 and summary["read_ops"] > 0


@pytest.fixture
def limited(measured):
    """The document, where memory can be limited."""
    _, document = measured
    for note in document["notes"]:
        if "memory is not limited" in note:
            pytest.skip(note)
    return document


def test_runs_stay_within_their_limits(limited):
    summaries = [each for each in limited["summaries"] if each["memory_limit_bytes"]]
    assert {each["strategy"] for each in summaries} >= CACHED
    if None in {each["cgroup_peak_bytes"] for each in summaries}:
        pytest.skip("this kernel does not tell the peak of a memory cgroup")
    for summary in summaries:
        assert 0 < summary["cgroup_peak_bytes"] <= summary["memory_limit_bytes"]


def test_a_dataset_is_used_again_and_a_choice_kept(work, measured):
    done = run_bench(work, "--strategies", "mmap", "--models", "none", "--memory-limit", "none",
                     "--json", str(work / "second.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is there" in done.stderr
    document = json.loads((work / "second.json").read_text())
    assert [run["strategy"] for run in document["runs"]] == ["mmap"]
    assert document["notes"] == ["memory is not limited: --memory-limit none"]


def test_a_strategy_that_cannot_live_within_the_limit_is_told(work, limited):
    done = run_bench(work, "--strategies", "mmap", "--models", "none", "--memory-limit", "8MiB",
                     "--json", str(work / "third.json"))
    assert done.returncode == 1
    assert "FAILED: killed at the memory limit" in done.stdout


@pytest.mark.parametrize("wrong", [("--strategies", "mapped"), ("--cache", "10")])
def test_a_wrong_command_line_is_refused(work, wrong):
    assert run_bench(work, *wrong).returncode == 2
