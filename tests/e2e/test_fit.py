"""Jobs that get less than they ask for, so that they fit into the memory limit."""

from __future__ import annotations

import contextlib

import pytest

from daemon import Daemon

# 41 MB of features.
GENERATE = ("dataset", "generate", "large", "--nodes", "40000", "--edges", "400000",
            "--dim", "256", "--seed", "3", "--memory-limit", "16MiB")
JOB = ("--dataset", "large", "--fanouts", "10,10", "--batch-size", "1024", "--epochs", "2",
       "--hidden", "64", "--seed", "1")
# Explaining takes memory, too: these jobs take more.
STRATEGIES = {"diskgnn": ("--extractors", "8"), "foresight": (), "gnndrive": (), "ginex": (),
              "outre": (), "gids": ("--staging", "256MiB")}
MIB = 1 << 20


def daemon_with(folder, *flags):
    """A daemon with the dataset `large`."""
    daemon = Daemon(folder, *flags)
    daemon.json(*GENERATE)
    return daemon


@pytest.fixture(scope="module", params=STRATEGIES)
def whole(request, tmp_path_factory):
    """A strategy, the report of a job that fits as it is, and the daemon that ran it. Its batches
    are measured, as they are where memory is short."""
    data_dir = tmp_path_factory.mktemp("roomy") / "data"
    with contextlib.closing(daemon_with(data_dir, "--memory-limit", "1GiB")) as roomy:
        report = roomy.json("train", *JOB, "--strategy", request.param,
                            *STRATEGIES[request.param])["report"]
        assert report["cuts"] == []
        yield request.param, report, roomy


@pytest.fixture
def tight(whole, tmp_path):
    """A daemon that has a little less memory than the job takes."""
    _, report, _ = whole
    limit = sum(int(share["bytes"]) for share in report["memory"]) * 19 // 20
    with contextlib.closing(daemon_with(tmp_path / "data", "--memory-limit", str(limit))) as daemon:
        yield daemon, limit


def test_a_job_with_nothing_but_a_strategy_is_made_to_fit(whole, tight):
    strategy, report, _ = whole
    daemon, limit = tight
    job = (*JOB, "--strategy", strategy, *STRATEGIES[strategy])
    refused = daemon.hearth("train", *job, "--strict-budgets", "true", code=1)
    assert "RESOURCE_EXHAUSTED: the job may need" in refused.err
    assert "memory limit" in refused.err and "runtime 24.0 MiB" in refused.err

    trained = daemon.json("train", *job)
    fitted = trained["report"]
    assert fitted["loss_digest"] == report["loss_digest"]
    assert fitted["test_metric"] == report["test_metric"]
    assert fitted["peak_memory_bytes"] <= fitted["memory_bound_bytes"]
    assert sum(share["bytes"] for share in fitted["memory"]) <= limit
    assert fitted["memory_limit_bytes"] == limit
    assert all(cut["chosen"] < cut["asked"] for cut in fitted["cuts"])
    shown = daemon.hearth("job", "show", trained["id"]).out
    logged = daemon.hearth("job", "logs", trained["id"]).out
    for cut in fitted["cuts"]:
        for text in (shown, logged):
            assert f"{cut['option']}: " in text
            assert f", to fit the memory limit of {limit / MIB:.1f} MiB" in text

    explained = daemon.json("explain", *job)["report"]
    assert explained["cuts"] == fitted["cuts"]
    assert "to fit the memory limit" in daemon.hearth("explain", *job).out


def test_below_the_floor_a_job_is_refused_with_its_parts(tmp_path):
    with contextlib.closing(daemon_with(tmp_path / "data", "--memory-limit", "40MiB")) as daemon:
        refused = daemon.hearth("train", *JOB, "--strategy", "ginex", code=1).err
    for part in ("RESOURCE_EXHAUSTED", "the job needs at least", "40.0 MiB", "model ",
                 "runtime 24.0 MiB", "--batch-size"):
        assert part in refused


def test_an_auto_cache_holds_all_rows(whole):
    strategy, report, roomy = whole
    job = roomy.json("train", *JOB, "--strategy", strategy, *STRATEGIES[strategy],
                     "--cpu-cache", "auto")
    assert job["spec"]["train"]["data"]["budgets"]["cpu_cache_rule"] == "auto"
    assert job["report"]["loss_digest"] == report["loss_digest"]
    cache = next(share for share in job["report"]["memory"] if share["owner"] == "cache")
    if strategy in ("diskgnn", "foresight", "ginex", "outre"):
        assert 40000 * 256 * 4 <= cache["bytes"] <= 40000 * (256 * 4 + 8) + 4096
