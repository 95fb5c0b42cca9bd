"""Strategy marius: training on the partitions in memory, evaluation on the whole graph."""

from __future__ import annotations

import pytest

from jobs import LONG, LONG_BATCHES_PER_EPOCH, QUICK

MARIUS = ("--strategy", "marius", "--partitions", "20")
# `planted` has 3,000 nodes, of which 1,800 are training nodes: the first buffer holds a few
# partitions at a time, the second all training nodes and a few partitions.
BUFFERS = ["192KiB", "416KiB"]


@pytest.mark.parametrize("buffer", BUFFERS)
def test_training_is_repeatable_and_near_that_of_memory(daemon, buffer):
    options = (*QUICK, *MARIUS, "--partition-buffer", buffer)
    memory = daemon.json(*QUICK)["report"]
    report = daemon.json(*options)["report"]
    assert memory["exact"] and not report["exact"]
    assert report["loss_digest"] != memory["loss_digest"]
    assert report["test_metric"] > memory["test_metric"] - 0.1
    again = daemon.json(*options, "--samplers", "3", "--extractors", "2")["report"]
    assert again["loss_digest"] == report["loss_digest"]
    for epoch in report["epochs"]:
        (level,) = epoch["hits"]
        assert (level["level"], level["rows"]) == ("partition_buffer", epoch["rows_needed"])
        assert epoch["rows_needed"] < memory["epochs"][0]["rows_needed"]
        assert epoch["validation"]["rows_needed"] \
            == memory["epochs"][0]["validation"]["rows_needed"]
    assert report["epochs"][0]["bytes_read"] > 0
    # What stayed in the buffer is not read again.
    assert report["epochs"][1]["bytes_read"] < report["epochs"][0]["bytes_read"]


def test_with_the_whole_graph_in_memory_it_is_memory(daemon):
    report = daemon.json(*QUICK, *MARIUS)["report"]
    assert report["loss_digest"] == daemon.json(*QUICK)["report"]["loss_digest"]


@pytest.mark.parametrize("buffer", BUFFERS)
def test_kill_9_goes_on_from_the_checkpoint(start_daemon, graph_folder, buffer):
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    job = (*LONG, "--epochs", "2", *MARIUS, "--partition-buffer", buffer)
    undisturbed = daemon.json(*job)["report"]
    watching = daemon.begin(*job, "--checkpoint-every", "5")
    killed = watching.stderr.readline().strip()
    daemon.wait_for_batches(killed, LONG_BATCHES_PER_EPOCH // 2)
    daemon.kill()
    daemon.start()
    watching.communicate()
    report = daemon.json("job", "show", killed)["report"]
    assert report["resumes"] == 1
    assert report["loss_digest"] == undisturbed["loss_digest"]


def test_what_cannot_be_is_refused_by_name(daemon):
    history = daemon.hearth(*QUICK, *MARIUS, "--history", "on", code=2)
    assert "--history: must be off: strategy marius takes none" in history.err
    small = daemon.hearth(*QUICK, *MARIUS, "--partition-buffer", "8KiB", code=1)
    assert "RESOURCE_EXHAUSTED" in small.err and "partition-buffer" in small.err


def test_explain_forecasts_the_bytes(daemon):
    options = (*MARIUS, "--partition-buffer", BUFFERS[0], "--batch-size", "61")
    told = daemon.json("explain", *QUICK[1:], *options)["report"]
    report = daemon.json(*QUICK, *options)["report"]
    read = [epoch["bytes_read"] for epoch in report["epochs"]]
    assert told["bytes_read"] == sum(read) // len(read)
