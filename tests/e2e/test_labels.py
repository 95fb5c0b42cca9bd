"""Multi-label classification and regression, from the array to the exported model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobs import QUICK

# The centers of the communities, which the features tell, are what is predicted.
WHOLE = ("--fanouts", "-1,-1", "--dropout", "0", "--epochs", "10")


@pytest.fixture(scope="module")
def multi_label(graph):
    """The community and, of odd nodes, a fifth label; some nodes of each part unlabeled."""
    count = len(graph.node_label)
    labels = np.zeros((count, 5), np.float32)
    labels[np.arange(count), graph.node_label] = 1
    labels[1::2, 4] = 1
    labels[::50] = np.nan
    return labels


@pytest.fixture(scope="module")
def partial(multi_label):
    """The same, of which a quarter is not known."""
    labels = multi_label.copy()
    labels[np.random.default_rng(5).random(labels.shape) < 0.25] = np.nan
    return labels


@pytest.fixture(scope="module")
def targets(graph):
    values = np.array([[-1, 0.5], [0, 3], [2, -0.25], [1, 1]], np.float32)[graph.node_label]
    values[::50] = np.nan
    return values


@pytest.fixture(scope="module")
def folders(graph, multi_label, partial, targets, tmp_path_factory):
    root = tmp_path_factory.mktemp("labels")
    return {name: graph._replace(node_label=labels).write(root / name)
            for name, labels in {"multi": multi_label, "partial": partial,
                                 "targets": targets}.items()}


@pytest.fixture(scope="module", autouse=True)
def datasets(daemon, folders):
    daemon.import_graph("multi", folders["multi"])
    daemon.import_graph("partial", folders["partial"])
    daemon.import_graph("targets", folders["targets"], "--labels", "targets")


def train(name, *options):
    command = list(QUICK)
    command[command.index("planted")] = name
    return (*command, *options)


def test_kinds_are_told_apart(daemon):
    def labels(name):
        node_type = daemon.json("dataset", "show", name)["node_types"][0]
        return node_type["label_kind"], node_type["label_width"]
    assert labels("planted") == ("CLASSES", 4)
    assert labels("multi") == ("MULTI_LABEL", 5)
    assert labels("targets") == ("TARGETS", 2)
    assert "5 labels" in daemon.hearth("dataset", "show", "multi").out
    assert "2 targets" in daemon.hearth("dataset", "list").out


def test_numbers_are_not_taken_for_classes(daemon, folders, graph, tmp_path):
    refused = daemon.hearth("dataset", "import", "x", "--source", str(folders["targets"]), code=1)
    assert "node_label.npy" in refused.err and "--labels targets" in refused.err
    one_column = graph._replace(node_label=graph.node_label + 0.5).write(tmp_path / "source")
    refused = daemon.hearth("dataset", "import", "x", "--source", str(one_column), code=1)
    assert "[0] is" in refused.err and "--labels targets" in refused.err


def test_what_was_asked_for_is_shown(daemon, graph_folder):
    daemon.hearth("dataset", "import", "x", "--source", str(graph_folder), "--labels", "some",
                  code=2)
    job = daemon.import_graph("as-targets", graph_folder, "--labels", "targets")
    assert job["spec"]["import"]["labels"] == "TARGETS"
    assert (job["report"]["label_kind"], job["report"]["label_width"]) == ("TARGETS", 1)


@pytest.mark.parametrize("name, metric, words", [("multi", "micro_f1", "micro-F1"),
                                                 ("targets", "mse", "mean squared error")])
def test_the_metric_is_that_of_the_labels(daemon, name, metric, words):
    result = daemon.hearth(*train(name))
    assert f"\ntest {words}: " in result.out
    assert f", valid {words} " in result.err
    assert "have no label: left out" in result.err
    job = max(daemon.json("job", "list")["jobs"], key=lambda job: int(job["id"].split("-")[1]))
    report = daemon.json("job", "show", job["id"])["report"]
    assert report["metric"] == metric
    assert all(epoch["metric"] == metric for epoch in report["epochs"])
    assert f'hearth_train_valid_metric{{job="{job["id"]}",metric="{metric}"' in daemon.metrics()


@pytest.mark.parametrize("name", ["multi", "partial", "targets"])
def test_strategies_and_threads_change_nothing(daemon, name):
    reports = [daemon.json(*train(name, *options))["report"] for options in (
        ("--strategy", "memory"), ("--strategy", "mmap"),
        ("--train-threads", "1", "--samplers", "3"))]
    assert len({report["loss_digest"] for report in reports}) == 1
    assert len({report["test_metric"] for report in reports}) == 1


def test_patience_takes_the_lowest_error(daemon):
    report = daemon.json(*train("targets", "--epochs", "40", "--lr", "0.05",
                                "--patience", "2"))["report"]
    errors = [epoch["valid_metric"] for epoch in report["epochs"]]
    assert len(errors) < 40
    assert report["kept_epoch"] == 1 + errors.index(min(errors))


def f1(logits, labels):
    known = ~np.isnan(labels)
    predicted, has = logits[known] > 0, labels[known] > 0
    right = (predicted & has).sum()
    return 2 * right / (2 * right + (predicted ^ has).sum())


def test_pyg_gets_the_same_metrics(daemon, graph, multi_label, partial, targets, pyg_logits,
                                   tmp_path):
    for name, labels, task, metric in (
            ("multi", multi_label, "multi_label_classification", f1),
            ("partial", partial, "multi_label_classification", f1),
            ("targets", targets, "regression", lambda logits, wanted: ((logits - wanted)**2).mean())):
        job = daemon.json(*train(name, *WHOLE))
        folder = tmp_path / name
        daemon.hearth("export", job["id"], "--to", str(folder))
        config = json.loads((folder / "config.json").read_text())
        assert (config["task"], config["out_channels"]) == (task, labels.shape[1])
        nodes = graph.test_idx[~np.isnan(labels[graph.test_idx]).all(1)]
        expected = metric(pyg_logits(folder, nodes).astype(np.float64), labels[nodes])
        assert job["report"]["test_metric"] == pytest.approx(expected, rel=1e-3)
