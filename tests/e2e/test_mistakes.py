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


@pytest.fixture(scope="module")
def trained(daemon):
    return daemon.json(*QUICK)["id"]


@pytest.mark.parametrize("inside", ["jobs/x", "datasets/x", "x", "jobs/../x", ".", "jobs"])
def test_nothing_is_exported_into_the_data_directory(daemon, trained, inside):
    before = sorted(daemon.data_dir.rglob("*"))
    folder = f"{daemon.data_dir}/{inside}"
    for arguments in (("export", trained), ("dataset", "export", "planted")):
        refused = daemon.hearth(*arguments, "--to", folder, code=2)
        assert "own data directory" in refused.err
    assert sorted(daemon.data_dir.rglob("*")) == before


def test_nothing_is_exported_into_the_data_directory_by_a_link(daemon, trained, tmp_path):
    (tmp_path / "link").symlink_to(daemon.data_dir / "jobs")
    refused = daemon.hearth("export", trained, "--to", str(tmp_path / "link" / "x"), code=2)
    assert "own data directory" in refused.err
    refused = daemon.hearth("dataset", "export", "planted", "--to", str(tmp_path / "link"), code=2)
    assert "own data directory" in refused.err


@pytest.mark.parametrize("arguments", [
    ("job", "show", "train-1\n"),
    ("job", "cancel", "train-1\x1b[31m"),
    ("job", "delete", "\t"),
    ("job", "logs", "train-1\x7f", "--tail", "3"),
    ("dataset", "show", "a\nb"),
    ("dataset", "delete", "a\rb"),
    ("plan", "show", "a\nb"),
    ("plan", "delete", "a\nb"),
    ("dataset", "import", "a\nb", "--source", "/x"),
    ("dataset", "import", "ab", "--source", "/x\ny"),
    ("admin", "backup", "--to", "/x\ny"),
])
def test_control_characters_are_refused(daemon, arguments):
    refused = daemon.hearth(*arguments, code=2)
    assert "\n" not in refused.err.rstrip("\n") and "\x1b" not in refused.err


@pytest.mark.parametrize("arguments, said", [
    (("--nodes", str(2**63), "--edges", "10"), f"not {2**63}"),
    (("--nodes", "10", "--edges", str(2**64 - 1)), f"not {2**64 - 1}"),
])
def test_huge_graphs_are_refused_by_their_size(daemon, arguments, said):
    assert said in daemon.hearth("dataset", "generate", "huge", *arguments, code=2).err


@pytest.mark.parametrize("text", ["correct-horse", "user correct-horse", "a,correct-horse",
                                  "1 correct-horse", "correct-horse:x:0:0:root:/root:/bin/sh"])
def test_errors_do_not_tell_what_a_file_holds(daemon, tmp_path, text):
    secret = tmp_path / "secret"
    secret.write_text(text + "\n")
    secret.chmod(0o600)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "node_feat.npy").symlink_to(secret)
    for source in secret, folder:
        for format_flags in ((), ("--format", "edge-list"), ("--format", "numpy")):
            refused = daemon.hearth("dataset", "import", "secret", "--source", str(source),
                                    *format_flags, code=1)
            assert "horse" not in refused.out + refused.err
    assert "horse" not in daemon.log


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
