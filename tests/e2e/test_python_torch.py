"""hearth.torch from a path, and the examples of it as users run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import HEARTHD, PATIENCE_SECONDS
from graphs import planted_graph
from test_run import runs

pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

import hearth  # noqa: E402
from hearth.jobs import JobState  # noqa: E402
from hearth.torch import NeighborLoader  # noqa: E402

_PYTHON = Path(__file__).parents[2] / "client/python"


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    """Private daemons are of the test."""
    monkeypatch.setenv("HEARTHD", HEARTHD)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / f"hearth-{os.geteuid()}"


def test_from_files_to_batches_without_a_daemon(graph, tmp_path, private):
    folder = graph.write(tmp_path / "papers")
    train = NeighborLoader(folder, num_neighbors=[4, 4], batch_size=100)
    batch = next(iter(train))
    assert (batch.x.numpy() == graph.node_feat[batch.n_id]).all()
    valid = NeighborLoader(str(folder), num_neighbors=[4, 4], batch_size=100, split="valid")
    assert valid.job.id == train.job.id and len(list(valid)) == len(valid) == 6
    pid = int((private / "hearth.lock").read_text())
    job = train.job.id
    train.close()
    assert runs(pid) and len(list(valid)) == 6
    valid.close()
    assert not runs(pid)
    # Tensors outlive all.
    assert (batch.x.numpy() == graph.node_feat[batch.n_id]).all()
    with hearth.PrivateDaemon() as daemon, daemon.client() as client:
        assert client.job(job).state is JobState.SUCCEEDED
        assert len(client.datasets()) == 1


def test_a_wrong_option_starts_no_daemon(graph_folder, private):
    with pytest.raises(hearth.InvalidRequest, match="did you mean batch_size"):
        NeighborLoader(graph_folder, num_neighbors=[4], batch_siz=1)
    with pytest.raises(hearth.InvalidRequest, match="a path names the graph"):
        NeighborLoader(graph_folder, dataset="papers", num_neighbors=[4])
    assert not private.exists()


def test_a_path_without_a_graph_leaves_no_daemon(tmp_path, private):
    with pytest.raises(hearth.HearthError, match="no such folder"):
        NeighborLoader(tmp_path / "papers", num_neighbors=[4])
    assert not runs(int((private / "hearth.lock").read_text()))


@pytest.fixture
def run_example(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*command):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True,
                              timeout=2 * PATIENCE_SECONDS, cwd=tmp_path, check=False)
        return done.returncode, done.stdout, done.stderr
    return run


@pytest.mark.parametrize("example", ["sage.py", "rgat_hetero.py", "sage_lightning.py",
                                     "sage_graphbolt.py", "pyg_remote.py"])
def test_examples(start_daemon, run_example, graph_folder, typed_folder, monkeypatch, example):
    daemon = start_daemon()
    monkeypatch.setenv("HEARTH_SERVER", f"unix:{daemon.data_dir}/hearth.sock")
    folder = typed_folder if example == "rgat_hetero.py" else graph_folder
    code, out, err = run_example(_PYTHON / "examples" / example, folder, "--epochs", "2")
    if err.startswith("skipped: "):
        pytest.skip(err.strip())
    assert code == 0, err
    assert "epoch 2: loss" in out or "max_epochs=2" in err, out + err
    (job,) = (one for one in daemon.json("job", "list")["jobs"] if one["spec"].get("feed"))
    daemon.wait_for_state(job["id"], "SUCCEEDED")


def test_the_example_of_several_processes(run_example, tmp_path, private):
    folder = planted_graph().write(tmp_path / "papers")
    code, out, err = run_example("-m", "torch.distributed.run", "--standalone",
                                 "--nproc_per_node=2", _PYTHON / "examples/sage_ddp.py", folder,
                                 "--epochs", "2")
    assert code == 0, err
    assert out.count("epoch 2: loss") == 1, out + err
    with hearth.PrivateDaemon() as daemon, daemon.client() as client:
        (job,) = client.jobs(kind="feed")
    assert job.state is JobState.SUCCEEDED
    assert [epoch.epoch for epoch in job.feed_report().epochs] == [1, 2]
