"""The Python client's datasets, plans and daemon calls: what the command line has of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import hearth  # noqa: E402
from hearth.jobs import JobState, Logged  # noqa: E402

FIXTURES = Path(__file__).resolve().parents[1] / "importers" / "fixtures"
TRAIN = {"dataset": "planted", "strategy": "diskgnn", "fanouts": [5, 5], "hidden": 16,
         "batch_size": 256, "epochs": 2, "seed": 3}
FLAGS = ("--dataset", "planted", "--strategy", "diskgnn", "--fanouts", "5,5", "--hidden", "16",
         "--batch-size", "256", "--epochs", "2", "--seed", "3")


@pytest.fixture(scope="module")
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def contents(dataset):
    """Types with their statistics, which differ wherever contents do."""
    return list(dataset.message.node_types), list(dataset.message.edge_types)


@pytest.mark.parametrize("fixture, source, options", [
    ("diskgnn", "toy-offgs", {}), ("ginex", "toy-ginex", {"format": "ginex"}),
    ("graphbolt_heterogeneous", "dataset", {"fill_features": "mean"}),
    ("igb_tiny", "tiny", {"igb_classes": 2983, "split_seed": 7}),
    ("mag240m", "mag240m_kddcup2021", {"undirected": True, "self_loops": "remove"}),
    ("ogb_arxiv", "ogbn_arxiv", {"split": "time", "dedup": True})])
def test_every_importer(daemon, client, fixture, source, options):
    """The dataset is that of the command line with the same words."""
    path = FIXTURES / fixture / source
    made = client.import_dataset(f"py-{fixture}", path, **options)
    flags = []
    for name, value in options.items():
        flags += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    daemon.json("dataset", "import", f"cli-{fixture}", "--source", str(path), *flags)
    shown = daemon.json("dataset", "show", f"cli-{fixture}")
    assert contents(made) == contents(client.dataset(f"cli-{fixture}"))
    assert made.num_edges == sum(one["num_edges"] for one in shown["edge_types"])
    assert list(made.transforms) == shown["transforms"]
    assert made.verify().blocks > 0
    made.delete()
    with pytest.raises(hearth.NotFound):
        made.refresh()


def test_an_edge_list(client, tmp_path):
    (tmp_path / "friends.txt").write_text("anna\tbert\nbert\tcarl\nanna\tbert\n")
    with pytest.raises(hearth.JobFailed, match="friends.txt: line 1"):
        client.import_dataset("friends", tmp_path / "friends.txt", format="edge-list")
    made = client.import_dataset("friends", tmp_path / "friends.txt", format="edge-list",
                                 relabel=True, dedup=True)
    assert (made.num_nodes, made.num_edges) == (3, 2)


@pytest.mark.parametrize("options, field, words", [
    ({"format": "nupmy"}, "format", '"nupmy" is not one of'),
    ({"memory_limit": "1KiB"}, "memory_limit", "must be at least 1048576"),
    ({"undirectd": True}, "undirectd", "did you mean undirected?"),
    ({"igb_classes": 5}, "igb_classes", "")])
def test_bad_options_are_refused_by_name(client, graph_folder, options, field, words):
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.import_dataset("never", graph_folder, **options)
    assert refused.value.field == field
    assert words in refused.value.message


def test_generated_graphs_and_exports(daemon, client, tmp_path):
    made = client.generate_dataset("made", nodes=500, edges=4000, undirected=True, dim=8,
                                   dtype="float16", graph="rmat", rmat=[0.5, 0.2, 0.2])
    assert (made.num_nodes, made.num_edges) == (500, 4000)
    assert made.node_types[0].feature_dtype == "float16"
    daemon.json("dataset", "generate", "same", "--nodes", "500", "--edges", "4000",
                "--undirected", "--dim", "8", "--dtype", "float16", "--graph", "rmat", "--rmat",
                "0.5,0.2,0.2")
    assert contents(made) == contents(client.dataset("same"))
    folder = Path(made.export(tmp_path / "numpy"))
    assert (folder / "node_feat.npy").exists()
    assert (Path(made.export(tmp_path / "bolt", "graphbolt")) / "metadata.yaml").exists()
    job = client.submit("generate", nodes=100, edges=500, to=str(tmp_path / "folder"))
    assert job.wait().state is JobState.SUCCEEDED
    assert (tmp_path / "folder" / "node_feat.npy").exists()


def test_forecasts_and_plans(daemon, client):
    before = client.explain(TRAIN)
    assert not before.plan_exists and before.memory_bytes == sum(before.memory.values())
    shown = daemon.json("explain", *FLAGS)["report"]
    assert (before.plan, before.memory_bytes) == (shown["plan"], shown["memory_bytes"])
    report = client.prepare(TRAIN)
    assert not report.preparation.reused
    assert client.prepare(TRAIN).preparation.reused
    plan = client.plan(before.plan)
    assert (plan.strategy, plan.state, plan.datasets) == ("diskgnn", "whole", ("planted",))
    assert before.plan in {one.name for one in client.plans()}
    assert client.explain(TRAIN).plan_exists
    client.delete_plan(plan.name)
    with pytest.raises(hearth.NotFound):
        client.plan(plan.name)


def test_logs_are_those_of_the_command_line(daemon, client):
    job = client.train(TRAIN).wait()
    shown = daemon.json("job", "logs", job.id)["lines"]
    logs = job.logs()
    assert len(logs) == len(shown)
    lines = [line.text for line in logs if isinstance(line, Logged)]
    assert lines and set(lines) <= {line["text"] for line in shown}
    assert job.logs(tail=3) == logs[-3:]
    assert job.id in {one.id for one in client.jobs("succeeded", kind="train",
                                                    dataset="planted")}


def test_the_daemon(daemon, client, tmp_path):
    status = client.status()
    shown = daemon.json("status")
    assert (status.version, status.data_dir) == (shown["version"], str(daemon.data_dir))
    assert status.caller == shown["caller"] and status.caller_role == "operator"
    assert client.drain().draining
    with pytest.raises(hearth.Unavailable):
        with hearth.Client(daemon.address, patience=0.1) as impatient:
            impatient.train(TRAIN)
    assert not client.drain(False).draining
    assert Path(client.backup(tmp_path / "copy")).is_dir()


def test_tokens(start_daemon):
    daemon = start_daemon()
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client:
        assert client.tokens() == ()
        secret = client.create_token("ann", "viewer", lifetime_seconds=3600)
        assert secret.startswith("hearth_")
        (token,) = client.tokens()
        assert (token.name, token.role) == ("ann", "viewer") and token.expire_time is not None
        with pytest.raises(hearth.HearthError):
            client.create_token("ann")
        assert client.revoke_token("ann").revoke_time is not None
