"""Common mistakes get a helpful answer and the right exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from daemon import HEARTH, HEARTHD, run
from jobs import QUICK


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_an_unknown_dataset_lists_what_there_is(daemon):
    refused = daemon.hearth(*QUICK, "--dataset", "planned", code=1)
    assert "planned" in refused.err and "planted" in refused.err
    refused = daemon.hearth("dataset", "show", "planned", code=1)
    assert "planted" in refused.err


def test_no_daemon_says_how_to_start_one():
    result = run([HEARTH, "--server", f"127.0.0.1:{free_port()}", "status"])
    assert result.code == 3
    assert "hearthd --data-dir" in result.err


@pytest.mark.parametrize("arguments, said", [
    ((), "subcommand"),
    (("trian",), "trian"),
    (("train",), "--dataset"),
    ((*QUICK, "--strategy", "ram"), "memory, mmap"),
    ((*QUICK, "--model", "mlp"), "sage, gcn, gat, gatv2, gin, none"),
    ((*QUICK, "--optimizer", "lion"), "adam, adamw, sgd"),
    ((*QUICK, "--epochs", "many"), "--epochs"),
    ((*QUICK, "--fanouts", "10;10"), "--fanouts"),
    ((*QUICK, "--epoch", "3"), "--epoch"),
    (("status", "--output", "xml"), "json"),
    (("job", "list", "--state", "lost"), "succeeded"),
])
def test_mistakes_of_usage(daemon, arguments, said):
    assert said in daemon.hearth(*arguments, code=2).err


@pytest.mark.parametrize("arguments, said", [
    (("--dropout", "1"), "--dropout: "),
    (("--fanouts", ",".join(["2"] * 17)), "--fanouts: "),
    (("--model", "gat", "--hidden", "30", "--heads", "4"), "--hidden: must be a multiple"),
    (("--trainers", "3", "--batch-size", "2"), "--trainers: must be at most --batch-size (2)"),
    (("--train-threads", "100000"), "--train-threads: must be at most"),
])
def test_the_option_at_fault_is_named(daemon, arguments, said):
    assert said in daemon.hearth(*QUICK, *arguments, code=2).err


def test_the_daemon_names_the_line_of_a_job_file(daemon, tmp_path):
    job_file = tmp_path / "job.yaml"
    job_file.write_text("dataset: planted\ntrain-threads: 100000\n")
    said = daemon.hearth("train", "-f", str(job_file), code=2).err
    assert "job.yaml line 2: train-threads: must be at most" in said


def test_job_files_are_refused_by_line(daemon, tmp_path):
    job_file = tmp_path / "job.yaml"
    job_file.write_text("dataset: planted\nepoch: 3\n")
    assert "job.yaml line 2" in daemon.hearth("train", "-f", str(job_file), code=2).err
    job_file.write_text("#" * 70_000)
    assert "65536" in daemon.hearth("train", "-f", str(job_file), code=2).err
    assert "nowhere" in daemon.hearth("train", "-f", str(tmp_path / "nowhere"), code=1).err


def test_unknown_jobs(daemon):
    for command in ("show", "watch", "logs", "cancel", "delete"):
        assert "train-999" in daemon.hearth("job", command, "train-999", code=1).err


def test_a_second_daemon_on_a_data_directory_is_refused(daemon):
    second = run([HEARTHD, "--data-dir", str(daemon.data_dir), "--listen", "127.0.0.1:0",
                  "--metrics-listen", "127.0.0.1:0"])
    assert second.code == 1
    assert str(daemon.pid) in second.err
    assert daemon.json("status")["pid"] == daemon.pid


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7600"])
def test_other_addresses_than_loopback_are_refused(tmp_path, flag, address):
    addresses = {"--listen": "127.0.0.1:0", "--metrics-listen": "127.0.0.1:0", flag: address}
    refused = run([HEARTHD, "--data-dir", str(tmp_path / "data"),
                   *[word for pair in addresses.items() for word in pair]])
    assert refused.code == 2
    assert "loopback" in refused.err
    assert not Path(tmp_path / "data").exists()


def test_unknown_flags_of_the_daemon_are_refused(tmp_path):
    refused = run([HEARTHD, "--data-dir", str(tmp_path / "data"), "--data-dri", "x"])
    assert refused.code == 2
    assert "data-dri" in refused.err
