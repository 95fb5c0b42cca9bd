"""The regret grid: its cases, what still has to run, and what follows from runs."""

from __future__ import annotations

import dataclasses
import json

import pytest

from regret import FIXED, Case, job_arguments, parse_grid
from regret_figures import (AUTO, GridRun, Outcome, Results, ready_seconds, render_regret,
                            seconds_between, seconds_given, summarize, wants_run)
from settings import parse_settings

CASE = "rmat/10%/3/none"


def _run(strategy, seconds=0.0, outcome=Outcome.ENDED, number=1, **more):
    return GridRun(CASE, strategy, number, outcome, 1 << 30, seconds=seconds, loss_digest="d"
                   if outcome == Outcome.ENDED else "", **more)


AUTO_RUN = _run(AUTO, 6.0, chose="ginex", ready_seconds=2.0, told_seconds=3.0)
RUNS = [AUTO_RUN, _run("ginex", 5.0, ready_seconds=0.5), _run("diskgnn", 4.0), _run("mmap", 12.0, Outcome.STOPPED),
        _run("memory", outcome=Outcome.REFUSED),
        _run("gids", outcome=Outcome.FAILED, reason="lost")]


def test_the_grid_is_the_product_of_its_sides():
    grid = parse_grid([])
    assert len(grid.cases) == 4 * 3 * 3 * 2
    assert grid.fixed == tuple(FIXED) and not {"outre", "marius"} & set(grid.fixed)
    some = parse_grid(["--datasets", "rmat,large", "--caches", "10%,100%", "--models", "sage",
                       "--cases", "/10%/10of2"])
    assert [case.name for case in some.cases] == ["rmat/10%/10of2/sage", "large/10%/10of2/sage"]


@pytest.mark.parametrize("wrong", [("--datasets", "cora"), ("--epochs", "2"), ("--caches", "10"),
                                   ("--strategies", "outre"), ("--cases", "none/none"),
                                   ("--rounds", "0")])
def test_a_grid_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(SystemExit) as ended:
        parse_grid(wrong)
    assert ended.value.code == 2


def test_the_arguments_of_a_job():
    words = job_arguments(parse_settings([]), Case("wordnet", 0.1, "10of2", "sage"))
    options = dict(zip(words[::2], words[1::2]))
    assert options["--dataset"] == "wordnet" and options["--model"] == "sage"
    assert (options["--epochs"], options["--distinct-epochs"], options["--hidden"]) == (
        "10", "2", "16")


def test_runs_are_kept_and_a_line_cut_short_is_not(tmp_path):
    path = tmp_path / "runs.jsonl"
    results = Results(path)
    for run in RUNS:
        results.add(run)
    assert Results(path).of(CASE) == RUNS and Results(path).of("rmat") == []
    whole = path.read_text()
    path.write_text(whole + '{"case": "rmat')
    again = Results(path)
    mended = dataclasses.replace(RUNS[-1], outcome=Outcome.ENDED, seconds=7.0)
    again.add(mended)
    assert Results(path).of(CASE) == [*RUNS[:-1], mended]
    path.write_text(whole + json.dumps({"case": "rmat"}) + "\n")
    with pytest.raises(ValueError, match=f"runs.jsonl:{len(RUNS) + 1}: "):
        Results(path)


def test_what_a_round_still_has_to_run():
    assert not wants_run(RUNS, "ginex", 1) and wants_run(RUNS, "ginex", 2)
    assert wants_run(RUNS, "gnndrive", 1)
    assert wants_run(RUNS, "gids", 1)
    assert not wants_run(RUNS, "mmap", 2) and not wants_run(RUNS, "memory", 2)


def test_fixed_strategies_are_stopped_by_the_best_so_far():
    assert seconds_given([], "mmap", 60, 3) == 60
    assert seconds_given(RUNS, "mmap", 60, 3) == 12
    assert seconds_given(RUNS, "mmap", 10, 3) == 10
    assert seconds_given(RUNS, AUTO, 60, 3) == 60


def test_times_of_the_client():
    assert seconds_between("2026-11-29T07:59:59.5Z", "2026-11-29T08:00:01.250000001Z") == (
        1.750000001)
    assert seconds_between("2026-11-29T07:59:59Z", "2026-11-29T08:00:00Z") == 1
    lines = [{"text": "preparing", "time": "2026-11-29T08:00:01Z"},
             {"text": "memory: at most 1 GiB", "time": "2026-11-29T08:00:03Z"}]
    assert ready_seconds("2026-11-29T08:00:00Z", lines) == 3
    assert ready_seconds("2026-11-29T08:00:00Z", lines[:1]) is None


def test_regret_is_by_the_best_fixed_strategy_that_ended():
    summary = summarize(CASE, RUNS)
    assert summary.best == "diskgnn" and summary.regret == 1.5
    assert summary.choosing == 0.25 and summary.told == 0.5
    assert summarize(CASE, [AUTO_RUN, RUNS[2]]).choosing is None, "ginex did not run"
    assert summary.failed == {"gids": "lost"} and summary.digests == {"d"}
    assert summarize(CASE, [AUTO_RUN, RUNS[3]]).regret is None
    assert summarize(CASE, RUNS[1:]).regret is None


def test_rounds_give_medians_and_a_stop_is_slower_than_they():
    more = [_run("diskgnn", 8.0, number=2), _run("ginex", 15.0, Outcome.STOPPED, number=2),
            _run(AUTO, 12.0, number=2, chose="mmap", before="ginex")]
    summary = summarize(CASE, RUNS + more)
    assert summary.seconds["diskgnn"] == 6 and summary.regret == 9 / 6
    assert summary.seconds["ginex"] == 15 and "ginex" in summary.stopped
    assert summary.chose == "ginex/ginex>mmap"


def test_the_table_ends_with_the_largest_and_the_median_regret():
    other = [dataclasses.replace(run, case="other") for run in
             (_run(AUTO, 20.0, Outcome.STOPPED), _run("diskgnn", 8.0))]
    lines = render_regret([summarize(CASE, RUNS), summarize("other", other)],
                          ("memory", "diskgnn", "gids", "mmap")).splitlines()
    assert lines[1].split() == [CASE, "1.0", "GiB", "-", "4.0", "failed", ">12.0", "6.0", "ginex",
                                "25%", "0.50", "diskgnn", "1.50"]
    assert lines[2].split() == ["other", "1.0", "GiB", "8.0", ">20.0", "?", "?", "diskgnn",
                                ">2.50"]
    assert lines[-1] == "regret of 2 cases: largest 2.50 (other), median 2.00"
