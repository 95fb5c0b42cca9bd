"""Jobs whose strategy the daemon chooses: it changes no result, is told with its reason, and stays
when a job goes on."""

from __future__ import annotations

import contextlib
import json

import pytest

from daemon import Daemon

# 154 MB of features.
GENERATE = ("dataset", "generate", "large", "--nodes", "150000", "--edges", "1500000",
            "--dim", "256", "--seed", "3", "--memory-limit", "16MiB")
JOB = ("train", "--dataset", "large", "--fanouts", "5,5", "--batch-size", "512", "--epochs", "2",
       "--hidden", "16", "--seed", "1")
AUTO = ("--strategy", "auto")
# Less than the features, and enough to measure the disk.
TIGHT = ("--memory-limit", "170MiB")
STRATEGIES = {"memory", "mmap", "gnndrive", "ginex", "diskgnn", "outre", "gids", "foresight",
              "marius"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("auto") / "data"


@pytest.fixture(scope="module")
def reference(folder):
    """The report of strategy memory, and the job that chose it where all rows fit."""
    with contextlib.closing(Daemon(folder)) as roomy:
        roomy.json(*GENERATE)
        named = roomy.json(*JOB, "--strategy", "memory")["report"]
        chosen = roomy.json(*JOB, *AUTO)
        assert "strategy auto chose memory: it takes " in roomy.hearth(
            "job", "logs", chosen["id"]).out
    return named, chosen["report"]


@pytest.fixture(scope="module")
def tight(folder, reference):
    with contextlib.closing(Daemon(folder, *TIGHT)) as daemon:
        yield daemon


def refusals(report):
    return {one["strategy"]: one["refusal"] for one in report["auto"]["candidates"]
            if one["refusal"]}


def test_where_all_rows_fit_it_is_memory_and_nothing_is_measured(folder, reference):
    named, chosen = reference
    assert chosen["loss_digest"] == named["loss_digest"]
    assert named["auto"] is None
    assert chosen["auto"]["strategy"] == "memory"
    assert [one["strategy"] for one in chosen["auto"]["candidates"]] == ["memory"]
    assert chosen["auto"]["rates"] is None
    assert chosen["exact"]


def test_where_they_do_not_the_cheapest_is_chosen_and_told(folder, reference, tight):
    job = tight.json(*JOB, *AUTO)
    report = job["report"]
    assert report["loss_digest"] == reference[0]["loss_digest"]
    assert report["test_metric"] == reference[0]["test_metric"]
    auto = report["auto"]
    assert {one["strategy"] for one in auto["candidates"]} == STRATEGIES
    assert refusals(report)["outre"] == "needs order partition"
    assert "does not fit" in refusals(report)["memory"]
    priced = [one for one in auto["candidates"] if not one["refusal"]]
    assert auto["strategy"] == priced[0]["strategy"] != "memory"
    assert [one["seconds"] for one in priced] == sorted(one["seconds"] for one in priced)
    assert all(one["seconds"] > 0 and one["memory_bytes"] <= 170 << 20 for one in priced)
    assert auto["rates"]["reads_per_second"] > 0 and auto["rates"]["sampled_batches"] >= 4
    assert auto["reason"].startswith(auto["strategy"] + ": ")
    assert auto["reason"].endswith("memory does not fit")
    profiles = list((folder / "devices").glob("*.json"))
    assert len(profiles) == 1 and json.loads(profiles[0].read_text())["pages"]
    line = f"strategy auto chose {auto['reason']}"
    assert line in tight.hearth("job", "logs", job["id"]).out
    assert line in tight.hearth("job", "show", job["id"]).out
    assert f"strategy {auto['strategy']}:" in tight.hearth("job", "logs", job["id"]).out


def test_explain_shows_all_candidates(tight):
    report = tight.json("explain", *JOB[1:], *AUTO)["report"]
    assert {one["strategy"] for one in report["auto"]["candidates"]} == STRATEGIES
    assert report["epoch_seconds"] > 0 and report["rows_needed"] > 0
    shown = tight.hearth("explain", *JOB[1:], *AUTO).out
    assert "strategy auto chose " in shown and "outre: needs order partition" in shown
    for one in report["auto"]["candidates"]:
        assert one["strategy"] in shown


def test_histories_are_those_of_memory(folder, reference, tight, tmp_path):
    history = (*JOB, "--history", "on")
    limited = tight.json(*history, *AUTO)["report"]
    assert limited["auto"]["strategy"] != "memory"
    tight.stop()
    with contextlib.closing(Daemon(folder)) as roomy:
        whole = roomy.json(*history, "--strategy", "memory")["report"]
    tight.start()
    assert limited["history"] == whole["history"]
    assert limited["loss_digest"] == whole["loss_digest"]


def test_a_job_that_goes_on_keeps_its_choice(folder, reference, tight):
    long = (*JOB, "--epochs", "40", "--checkpoint-every", "5")
    job = tight.json(*long, *AUTO, "--detach")["id"]
    tight.wait_for_batches(job, 60)
    kept = json.loads((folder / "jobs" / job / "auto.json").read_text())["choice"]
    tight.kill()
    # Other rates would lead to another choice.
    for profile in (folder / "devices").glob("*.json"):
        profile.unlink()
    tight.start()
    tight.wait_for_log(job, f"strategy auto goes on with {kept['strategy']}, chosen when")
    assert tight.wait_for_state(job, "SUCCEEDED") == "SUCCEEDED"
    report = tight.json("job", "show", job)["report"]
    assert report["resumes"] == 1
    assert report["auto"]["strategy"] == kept["strategy"]
    assert report["auto"]["reason"] == kept["reason"]
    assert not list((folder / "devices").glob("*.json"))
