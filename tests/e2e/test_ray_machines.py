"""hearth.ray.train on a Ray cluster whose nodes are on this machine."""

from __future__ import annotations

import contextlib

import pytest

from daemon import HEARTH, HEARTHD
from jobs import QUICK, QUICK_OPTIONS

pytestmark = pytest.mark.full("python")

pytest.importorskip("ray", reason="ray is not installed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes of Ray, with one CPU each."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("HEARTH", HEARTH)
        patch.setenv("HEARTHD", HEARTHD)
        import ray
        from ray.cluster_utils import Cluster
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        stack.callback(nodes.shutdown)
        nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, log_to_driver=False)
        stack.callback(ray.shutdown)
        yield nodes


def test_two_machines_train_as_two_trainers(cluster, daemon, graph_folder, tmp_path):
    import hearth.ray
    report = hearth.ray.train(QUICK_OPTIONS, machines=2, data_dir=str(tmp_path / "data"),
                              source=str(graph_folder), to=str(tmp_path / "model"))
    alone = daemon.json(*QUICK, "--trainers", "2")["report"]
    assert report.message.loss_digest == alone["loss_digest"]
    assert (tmp_path / "model/model.safetensors").exists()


def test_a_failed_run_says_why(cluster, tmp_path):
    import hearth
    import hearth.ray
    with pytest.raises(hearth.HearthError, match="no-such-graph") as failed:
        hearth.ray.train(QUICK_OPTIONS, machines=2, data_dir=str(tmp_path / "data"),
                         source=str(tmp_path / "no-such-graph"))
    assert failed.value.code.name == "ABORTED"


def test_wrong_options_and_too_many_machines_are_told_at_once(cluster, tmp_path):
    import hearth
    import hearth.ray
    with pytest.raises(hearth.InvalidRequest, match="model"):
        hearth.ray.train({**QUICK_OPTIONS, "model": "none-such"}, machines=2,
                         data_dir=str(tmp_path / "data"))
    with pytest.raises(hearth.HearthError, match="has 2 with") as refused:
        hearth.ray.train(QUICK_OPTIONS, machines=3, data_dir=str(tmp_path / "data"))
    assert refused.value.code.name == "RESOURCE_EXHAUSTED"
