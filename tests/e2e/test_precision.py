"""Training with products of bfloat16: near float32, and as repeatable."""

from __future__ import annotations

import pytest

from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK

_MODELS = ("sage", "gcn", "gat", "gatv2", "gin", "rgcn", "rsage", "rgat")


@pytest.fixture(scope="module")
def bf16(daemon):
    """The options of training in bf16, where this machine has it."""
    done = daemon.hearth(*QUICK, "--precision", "bf16", code=None)
    if done.code != 0 and "no products of bfloat16" in done.err:
        pytest.skip("this processor has no products of bfloat16 (AVX-512)")
    assert done.code == 0, done.err
    return ("--precision", "bf16")


@pytest.mark.parametrize("model", _MODELS)
def test_losses_stay_near_those_of_float32(daemon, bf16, model):
    exact = daemon.json(*QUICK, "--model", model)["report"]
    rounded = daemon.json(*QUICK, "--model", model, *bf16)["report"]
    assert rounded["precision"] == "bf16"
    assert rounded["loss_digest"] != exact["loss_digest"]
    first, last = rounded["epochs"][0], rounded["epochs"][-1]
    assert first["loss"] == pytest.approx(exact["epochs"][0]["loss"], rel=0.05)
    # Rounding grows from step to step.
    assert last["valid_metric"] == pytest.approx(exact["epochs"][-1]["valid_metric"], abs=0.05)


@pytest.mark.parametrize("strategy", [
    ("mmap",),
    ("gnndrive", "--samplers", "2", "--extractors", "2", "--cpu-cache", "64KiB"),
    ("ginex", "--superbatch", "7", "--cpu-cache", "64KiB"),
    ("diskgnn", "--cpu-cache", "64KiB"), ("foresight", "--cpu-cache", "64KiB"),
    ("gids", "--cpu-cache", "32KiB", "--window-cache", "32KiB"),
], ids=lambda strategy: strategy[0])
def test_every_strategy_gives_the_digest_of_memory(daemon, bf16, strategy):
    expected = daemon.json(*QUICK, *bf16, "--train-threads", "1")["report"]["loss_digest"]
    report = daemon.json(*QUICK, *bf16, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == expected


def test_auto_is_one_of_both_and_float32_the_default(daemon):
    report = daemon.json(*QUICK, "--precision", "auto")["report"]
    same = daemon.json(*QUICK, "--precision", report["precision"])["report"]
    assert report["precision"] in ("fp32", "bf16")
    assert report["loss_digest"] == same["loss_digest"]
    assert daemon.json(*QUICK)["report"]["precision"] == "fp32"


def test_an_unknown_precision_is_refused(daemon):
    done = daemon.hearth(*QUICK, "--precision", "fp8", code=2)
    assert "--precision" in done.err and "bf16" in done.err


def test_a_killed_job_goes_on_in_its_precision(start_daemon, graph_folder, bf16):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    expected = daemon.json(*LONG, *bf16)["report"]["loss_digest"]
    job = daemon.json(*LONG, *bf16, "--detach")["id"]
    daemon.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)
    daemon.kill()
    daemon.start()
    report = daemon.json("job", "watch", job)["report"]
    assert report["resumes"] == 1
    assert (report["precision"], report["loss_digest"]) == ("bf16", expected)
