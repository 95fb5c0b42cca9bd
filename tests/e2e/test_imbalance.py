"""Few nodes of one class: weights of classes, and metrics that rank nodes."""

from __future__ import annotations

import numpy as np
import pytest

from jobs import QUICK

# Deterministic evaluation, which PyTorch Geometric can repeat.
WHOLE = ("--fanouts", "-1,-1", "--dropout", "0", "--epochs", "4")
RANKINGS = ("roc_auc", "average_precision")


def roc_auc(scores, positive):
    """scikit-learn's roc_auc_score, by its meaning: the share of pairs in the right order."""
    higher = scores[positive][:, None] - scores[~positive][None, :]
    return float(((higher > 0) + 0.5 * (higher == 0)).mean())


def average_precision(scores, positive):
    """scikit-learn's average_precision_score: sum of (R_n - R_(n-1)) P_n over thresholds."""
    total = recall = 0.0
    for threshold in np.unique(scores)[::-1]:
        found = scores >= threshold
        right = (found & positive).sum()
        total += (right / positive.sum() - recall) * right / found.sum()
        recall = right / positive.sum()
    return float(total)


def macro(metric, scores, labels):
    """The mean over the columns that have both, as OGB's evaluator."""
    return np.mean([metric(column, has) for column, has in zip(scores.T, labels.T, strict=True)
                    if 0 < has.sum() < len(has)])


METRICS = {"roc_auc": roc_auc, "average_precision": average_precision}


@pytest.fixture(scope="module")
def fraud(graph):
    """Nodes of class 1 are few: those of one community that a feature tells."""
    features = graph.node_feat[:, 0]
    rare = (graph.node_label == 0) & (features > np.quantile(features, 0.7))
    assert 0.03 < rare.mean() < 0.12
    return graph._replace(node_label=rare.astype(np.int64))


@pytest.fixture(scope="module")
def labels(graph):
    """Communities as labels, one that few nodes have, and one that none has."""
    has = np.zeros((len(graph.node_label), 6), np.float32)
    has[np.arange(len(has)), graph.node_label] = 1
    has[::40, 4] = 1
    return has


@pytest.fixture(scope="module", autouse=True)
def datasets(daemon, graph, fraud, labels, tmp_path_factory):
    root = tmp_path_factory.mktemp("imbalance")
    daemon.import_graph("fraud", fraud.write(root / "fraud"))
    daemon.import_graph("labels", graph._replace(node_label=labels).write(root / "labels"))
    negative = fraud.node_label[fraud.valid_idx] == 0
    one_class = fraud._replace(valid_idx=fraud.valid_idx[negative])
    daemon.import_graph("one-class", one_class.write(root / "one-class"))


def train(name, *options):
    command = list(QUICK)
    command[command.index("planted")] = name
    return (*command, *options)


def refused(daemon, *command):
    job = daemon.hearth(*command, code=1)
    return job.err


@pytest.mark.parametrize("metric", RANKINGS)
def test_rankings_are_those_of_the_exported_model(daemon, graph, fraud, labels, pyg_logits, metric,
                                                  tmp_path):
    of_two = fraud.node_label[:, None] == 1
    of_four = graph.node_label[:, None] == np.arange(4)
    for name, truth in (("fraud", of_two), ("planted", of_four), ("labels", labels > 0)):
        report = (job := daemon.json(*train(name, *WHOLE, "--metric", metric)))["report"]
        folder = tmp_path / name
        daemon.hearth("export", job["id"], "--to", str(folder))
        for nodes, value in ((graph.test_idx, report["test_metric"]),
                             (graph.valid_idx, report["epochs"][-1]["valid_metric"])):
            scores = pyg_logits(folder, nodes).astype(np.float64)
            if name != "labels":
                scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
            if name == "fraud":
                scores = scores[:, 1:]
            expected = macro(METRICS[metric], scores, truth[nodes])
            assert value == pytest.approx(expected, abs=1e-4), name
            assert 0.3 < value < 1


@pytest.mark.parametrize("metric, words", [("roc_auc", "ROC-AUC"),
                                           ("average_precision", "average precision")])
def test_the_metric_is_named_wherever_it_is_told(daemon, metric, words):
    done = daemon.hearth(*train("fraud", "--metric", metric))
    assert f"\ntest {words}: 0." in done.out
    assert f", valid {words} 0." in done.err
    job = max(daemon.json("job", "list")["jobs"], key=lambda job: int(job["id"].split("-")[1]))
    report = daemon.json("job", "show", job["id"])["report"]
    assert {report["metric"], *(epoch["metric"] for epoch in report["epochs"])} == {metric}
    assert f"valid {words}" in daemon.hearth("job", "show", job["id"]).out
    assert f'hearth_train_valid_metric{{job="{job["id"]}",metric="{metric}"' in daemon.metrics()


def test_metrics_change_no_training(daemon):
    reports = [daemon.json(*train("fraud", "--metric", metric, *options))["report"]
               for metric, *options in (("auto",), ("roc_auc",), ("roc_auc", "--strategy", "mmap"),
                                        ("average_precision", "--class-weights", "none"))]
    assert len({report["loss_digest"] for report in reports}) == 1
    assert reports[0]["metric"] == "accuracy"
    assert reports[1]["test_metric"] == reports[2]["test_metric"]


def test_patience_follows_the_metric(daemon):
    report = daemon.json(*train("fraud", "--epochs", "40", "--lr", "0.05", "--patience", "2",
                                "--metric", "average_precision"))["report"]
    values = [epoch["valid_metric"] for epoch in report["epochs"]]
    assert len(values) < 40
    assert report["kept_epoch"] == 1 + values.index(max(values))


def test_one_class_in_validation_is_told_and_never_the_best(daemon):
    job = daemon.json(*train("one-class", "--metric", "roc_auc", "--patience", "1",
                             "--epochs", "3"))
    report = job["report"]
    assert len(report["epochs"]) == 3
    # JSON has no NaN.
    assert {epoch["valid_metric"] for epoch in report["epochs"]} == {None}
    assert report["kept_epoch"] == 3
    assert 0 < report["test_metric"] < 1
    log = daemon.hearth("job", "logs", job["id"]).out
    assert log.count("validating: roc_auc is not defined") == 1
    assert "testing: roc_auc" not in log


def test_balanced_weights_are_those_of_the_training_nodes(daemon, fraud, tmp_path, pyg_logits):
    counts = np.bincount(fraud.node_label[fraud.train_idx])
    weights = ",".join(str(len(fraud.train_idx) / (2 * count)) for count in counts)
    plain, balanced, listed = (
        daemon.json(*train("fraud", *WHOLE, "--class-weights", option))
        for option in ("none", "balanced", weights))
    assert balanced["report"]["loss_digest"] == listed["report"]["loss_digest"]
    assert balanced["report"]["loss_digest"] != plain["report"]["loss_digest"]
    assert "class-weights" in daemon.hearth("job", "show", listed["id"]).out

    def found(job):
        """The share of the rare nodes that is predicted."""
        folder = tmp_path / job["id"]
        daemon.hearth("export", job["id"], "--to", str(folder))
        logits = pyg_logits(folder, fraud.test_idx)
        return (logits.argmax(axis=1) == 1)[fraud.node_label[fraud.test_idx] == 1].mean()
    assert found(balanced) > found(plain)


@pytest.mark.parametrize("name, weights", [("fraud", "balanced"), ("labels", "1,2,3,4,50,60")])
def test_trainers_and_strategies_share_the_weights(daemon, name, weights):
    options = ("--class-weights", weights, "--dropout", "0", "--metric", "average_precision")
    one = daemon.json(*train(name, *options))["report"]
    for strategy in ("mmap", "gnndrive", "ginex"):
        other = daemon.json(*train(name, *options, "--strategy", strategy))["report"]
        assert other["loss_digest"] == one["loss_digest"]
        assert other["test_metric"] == one["test_metric"]
    for trainers in ("2", "3"):
        shared = daemon.json(*train(name, *options, "--trainers", trainers))["report"]
        for expected, epoch in zip(one["epochs"], shared["epochs"], strict=True):
            assert epoch["loss"] == pytest.approx(expected["loss"], abs=1e-4)
            assert epoch["valid_metric"] == pytest.approx(expected["valid_metric"], abs=0.02)


def test_options_that_do_not_fit_are_refused_by_name(daemon):
    for options, words in (
            (("--metric", "auc"), '--metric: "auc" is not auto or one of accuracy'),
            (("--class-weights", "1,0"), '--class-weights: "1,0" is not one of none, balanced or')):
        assert words in daemon.hearth(*train("fraud", *options), code=2).err
    for name, options, words in (
            ("fraud", ("--metric", "mse"),
             "--metric: must be accuracy, roc_auc or average_precision"),
            ("fraud", ("--class-weights", "1,2,3"),
             "--class-weights: must have an entry for each of the 2 classes, not 3"),
            ("labels", ("--class-weights", "balanced"), "--class-weights: must be none, or"),
            ("labels", ("--metric", "accuracy"), "--metric: must be micro_f1, roc_auc or")):
        assert words in refused(daemon, *train(name, *options))


def test_a_sweep_searches_weights_and_is_judged_by_the_metric(daemon):
    base = [option for option in train("fraud") if option != "train"]
    done = daemon.json("sweep", "submit", *base, "--metric", "average_precision", "--algorithm",
                       "grid", "--space", "class-weights=none|balanced|1,9")
    assert (done["state"], done["metric"]) == ("SWEEP_DONE", "average_precision")
    digests = set()
    for trial in done["trials"]:
        report = daemon.json("job", "show", trial["jobs"][0])["report"]
        digests.add(report["loss_digest"])
        assert trial["metric"] == max(epoch["valid_metric"] for epoch in report["epochs"])
    assert len(digests) == 3
    assert done["best_metric"] == max(trial["metric"] for trial in done["trials"])


def test_weights_may_not_be_changed_when_a_job_is_resumed(daemon):
    job = daemon.json(*train("fraud", "--epochs", "100000", "--class-weights", "balanced"),
                      "--detach")["id"]
    daemon.wait_for_batches(job, 1)
    daemon.json("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    assert "class-weights" in daemon.hearth("job", "resume", job, "--class-weights", "none",
                                            code=2).err
