"""Options of jobs and sweeps: the same as the command line's; and refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

from hearth import InvalidRequest, LogUniform, Uniform  # noqa: E402
from hearth.options.specs import (SWEEP, TRAIN, change_options, job_options,  # noqa: E402
                                  option_named_by, sweep_spec, train_spec, trial_settings)
from hearth.options.table import path_text, without_indices  # noqa: E402
from hearth.options.values import (parse_byte_size, python_value,  # noqa: E402
                                   value_words)
from hearth.space import Choice, Integers  # noqa: E402
from hearth.v1 import spec_pb2  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "guide/options.md"
BASE = {"dataset": "papers"}


def rows_of_page():
    """Name, values and fields of each option that client/guide/options.md lists."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            yield (cells[0].split("`")[1], cells[2].replace("\\", ""),
                   [without_indices(field) for field in re.findall(r"`([^`]+)`", cells[4])])


def test_the_table_is_that_of_the_command_line():
    rows = list(rows_of_page())
    assert {name for name, _, _ in rows} == set(SWEEP.names)
    seen = set()
    for name, values, fields in rows:
        named = SWEEP.named(name)
        if TRAIN.named(name) is not None and name not in seen:
            named = TRAIN.named(name)
        elif TRAIN.named(name) is not None:
            # The page tells of the jobs' own apart.
            named = replace(named, options=tuple(
                option for option in named.options if option.path[0].name != "train"))
        seen.add(name)
        paths = [path_text(option.path) for option in named.options]
        if named.choice is not None:
            paths.append(".".join(filter(None, [path_text(named.choice.path),
                                                named.choice.oneof.name])))
        assert paths == fields
        assert value_words(named).removeprefix("one of " if named.choice else "") == values


def test_names_and_values_as_python_has_them():
    spec = train_spec({"dataset": "papers", "strategy": "ginex", "cpu_cache": "1.5GiB",
                       "batch-size": 64, "fanouts": [10, -1], "model": "gat", "heads": 2,
                       "optimizer": "adamw", "lr": 1e-3, "weight_decay": 0, "seed": 7,
                       "order": "partition", "membership": True, "clip_norm": "none"})
    assert spec.data.budgets.cpu_cache_bytes == 3 << 29
    assert spec.data.batch_size == 64
    assert list(spec.data.neighbor.fanouts) == [10, -1]
    (train,) = spec.trains
    assert (train.WhichOneof("model"), train.gat.heads) == ("gat", 2)
    assert (train.adamw.learning_rate, train.adamw.weight_decay) == (1e-3, 0.0)
    assert train.adamw.HasField("weight_decay")
    assert (spec.data.data_seed, train.model_seed) == (7, 7)
    assert spec.data.partition.bloom


@pytest.mark.parametrize("sampler", ["neighbor", "subgraph"])
def test_samplers_share_options(sampler):
    spec = train_spec({**BASE, "sampler": sampler, "fanouts": [10, -1], "fanout_of": "cites=5,0"})
    assert spec.data.WhichOneof("sampler") == sampler
    chosen = getattr(spec.data, sampler)
    assert (list(chosen.fanouts), chosen.fanouts_of) == ([10, -1], "cites=5,0")


def test_what_is_not_given_is_the_daemons():
    spec = train_spec(BASE)
    expected = spec_pb2.TrainJobSpec()
    expected.data.dataset = "papers"
    expected.data.neighbor.SetInParent()
    expected.data.auto.SetInParent()
    expected.data.shuffled.SetInParent()
    expected.data.off.SetInParent()
    train = expected.trains.add()
    train.sage.SetInParent()
    train.adam.SetInParent()
    train.constant.SetInParent()
    assert spec == expected


def test_a_common_option_leaves_those_with_a_value_of_their_own():
    spec = train_spec({**BASE, "seed": 3, "model_seed": 4})
    assert (spec.data.data_seed, spec.trains[0].model_seed) == (3, 4)


def test_paths_of_fields():
    spec = train_spec({"data.dataset": "papers", "gat.heads": 8, "trains[0].sgd.momentum": 0.5,
                       "train.data.batch_size": 16, "data.strategy": "mmap"})
    (train,) = spec.trains
    assert (train.gat.heads, train.sgd.momentum) == (8, 0.5)
    assert (spec.data.batch_size, spec.data.WhichOneof("strategy")) == (16, "mmap")


def test_model_none_ignores_options_of_models():
    assert train_spec({**BASE, "model": "none", "heads": 4}).trains[0].HasField("none")


def test_a_limit_may_be_bytes_or_a_multiple():
    disk = {**BASE, "strategy": "diskgnn"}
    assert train_spec({**disk, "disk_limit": "2.5x"}).data.diskgnn.disk_limit_ratio == 2.5
    assert train_spec({**disk, "disk_limit": 4096}).data.diskgnn.disk_limit_bytes == 4096


def test_class_weights_are_a_list_or_balanced():
    assert train_spec({**BASE, "class_weights": "balanced"}).trains[0].balanced_classes
    listed = train_spec({**BASE, "class_weights": [1, 5.5]})
    assert list(listed.trains[0].class_weights.values) == [1, 5.5]
    job = spec_pb2.JobSpec(train=listed)
    assert job_options(job)["class_weights"] == "1,5.5"
    unset = train_spec({**BASE, "class_weights": "none", "metric": "auto"})
    assert unset == train_spec(BASE)
    assert train_spec({**BASE, "metric": "roc_auc"}).trains[0].metric == "roc_auc"


def test_the_metric_of_a_sweep_is_that_of_its_jobs_or_the_loss():
    spec = sweep_spec({**BASE, "metric": "average_precision"}, {"lr": "0.1"})
    assert (spec.train.trains[0].metric, spec.by_loss) == ("average_precision", False)
    spec = sweep_spec({**BASE, "metric": "valid"}, {"lr": "0.1"})
    assert (spec.train.trains[0].metric, spec.by_loss) == ("", False)


@pytest.mark.parametrize("options, field, words", [
    ({"metric": "auc"}, "metric", '"auc" is not auto or one of accuracy, micro_f1, mse'),
    ({"class_weights": [1, 0]}, "class_weights", "is not one of none, balanced or a list of"),
    ({"epoch": 3}, "epoch", "is not an option; did you mean epochs?"),
    ({"x.y": 3}, "x.y", "is not an option"),
    ({"epochs": 0}, "epochs", '"0" is not a whole number from 1 to 100000'),
    ({"epochs": 2.5}, "epochs", '"2.5" is not a whole number'),
    ({"epochs": 2**40}, "epochs", "is not a whole number"),
    ({"epochs": None}, "epochs", "None is not a whole number"),
    ({"lr": -1}, "lr", '"-1" is not a number above 0'),
    ({"lr": float("nan")}, "lr", "is not a number above 0"),
    ({"dropout": 1}, "dropout", '"1" is not a number of at least 0 and below 1'),
    ({"fanouts": [5, 0]}, "fanouts", '"5,0" is not a list of up to 16 whole numbers'),
    ({"fanouts": [5] * 17}, "fanouts", "is not a list of up to 16"),
    ({"strategy": "ginex", "cpu_cache": "lots"}, "cpu_cache", '"lots" is not auto or a size'),
    ({"model": "mlp"}, "model", '"mlp" is not one of sage, gcn, gat, gatv2, gin, none'),
    ({"heads": 2}, "heads", "applies with model gat or gatv2 or rgat only"),
    ({"gat.heads": 2, "model": "gcn"}, "gat.heads", "is of model gat, not gcn"),
    ({"batch_size": 2, "data.batch_size": 3}, "data.batch_size", "is given twice"),
    ({"batch_size": 2, "batch-size": 3}, "batch-size", "is given twice"),
])
def test_what_is_no_option_or_no_value_is_refused(options, field, words):
    with pytest.raises(InvalidRequest) as refused:
        train_spec({**BASE, **options})
    assert refused.value.field == field
    assert words in refused.value.message


def test_the_dataset_is_required():
    with pytest.raises(InvalidRequest, match="dataset: is required: name of an imported"):
        train_spec({"epochs": 3})


def test_options_of_a_job_read_back():
    given = {**BASE, "strategy": "diskgnn", "disk_limit": "2.5x", "cpu_cache": "16KiB",
             "fanouts": "5,5", "lr": "0.01", "refresh": "never", "model": "gcn", "clip_norm": "1"}
    job = spec_pb2.JobSpec(train=train_spec(given))
    options = job_options(job)
    assert {name: options[name] for name in given} == given
    assert train_spec(options) == job.train
    assert not job_options(spec_pb2.JobSpec(verify=spec_pb2.VerifySpec(dataset="papers")))


def test_changed_options_are_those_of_the_jobs_kind():
    job = spec_pb2.JobSpec(train=train_spec({**BASE, "strategy": "ginex"}))
    change_options({"cpu_cache": "1MiB", "samplers": 3}, job)
    assert job.train.data.budgets.cpu_cache_bytes == 1 << 20
    assert job.train.pipeline.samplers == 3
    imported = spec_pb2.JobSpec()
    getattr(imported, "import").name = "papers"
    with pytest.raises(InvalidRequest, match="samplers: is not for a job of kind import"):
        change_options({"samplers": 3}, imported)


def test_spaces():
    spec = sweep_spec({**BASE, "algorithm": "asha", "eta": 4, "trials": 9, "metric": "loss"},
                      {"lr": LogUniform(1e-4, 0.1), "dropout": "uniform:0:0.5:6",
                       "hidden": "int:8:64", "batch_size": Integers(16, 64, 4),
                       "fanouts": [[5, 5], "3,3"], "weight-decay": "0|1e-3",
                       "model": Choice("sage", "gcn"), "lr_gamma": Uniform(0.1, 0.5)})
    assert (spec.asha.eta, spec.trials, spec.by_loss) == (4, 9, True)
    by_name = {parameter.name: parameter for parameter in spec.space}
    assert (by_name["lr"].log_uniform.low, by_name["lr"].log_uniform.high) == (1e-4, 0.1)
    assert (by_name["dropout"].uniform.high, by_name["dropout"].uniform.steps) == (0.5, 6)
    assert (by_name["hidden"].integers.low, by_name["hidden"].integers.high) == (8, 64)
    assert by_name["batch-size"].integers.steps == 4
    assert list(by_name["fanouts"].choice.values) == ["5,5", "3,3"]
    assert list(by_name["weight-decay"].choice.values) == ["0", "1e-3"]
    assert list(by_name["model"].choice.values) == ["sage", "gcn"]
    assert by_name["lr-gamma"].uniform.low == 0.1


@pytest.mark.parametrize("space, field, words", [
    ({"learning": [1]}, "space learning", "is not an option"),
    ({"batch_siez": [1]}, "space batch_siez", "did you mean batch_size?"),
    ({"lr": "log:1"}, "space lr", '"log:1" is not VALUE'),
    ({"lr": "log:a:b"}, "space lr", '"log:a:b" is not VALUE'),
    ({"lr": "1,,2"}, "space lr", '"1,,2" is not VALUE'),
])
def test_spaces_that_make_no_sense(space, field, words):
    with pytest.raises(InvalidRequest) as refused:
        sweep_spec(BASE, space)
    assert refused.value.field == field
    assert words in refused.value.message


def test_parameters_of_trials():
    settings = trial_settings({"lr": 0.25, "batch_size": 64, "fanouts": (5, 5)})
    assert [(one.name, one.value) for one in settings] == [
        ("lr", "0.25"), ("batch-size", "64"), ("fanouts", "5,5")]
    values = {one.name: python_value(TRAIN.named(one.name), one.value) for one in settings}
    assert values == {"lr": 0.25, "batch-size": 64, "fanouts": "5,5"}
    assert python_value(TRAIN.named("reorder"), "true") is True
    assert python_value(None, "7") == "7"


@pytest.mark.parametrize("path, option", [
    ("train.data.batch_size", "batch_size"),
    ("data.neighbor.fanouts[1]", "fanouts"),
    ("trains[0].adam.learning_rate", "lr"),
    ("trains[0].model", "model"),
    ("first_rung", "first_rung"),
    ("space[1].domain", "space hidden"),
    ("parameters[0].value", "batch_size"),
    ("number", "number"),
])
def test_fields_that_the_daemon_names(path, option):
    assert option_named_by(path, ("batch-size", "hidden")) == option


@pytest.mark.parametrize("text, size", [
    ("0", 0), ("12", 12), ("1KiB", 1024), ("1.5 GB", 15 * 10**8), ("2k", 2048), ("1TiB", 2**40),
    ("3mb", 3 * 10**6)])
def test_sizes(text, size):
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1.2.3", "4 QiB", "GiB"])
def test_no_sizes(text):
    with pytest.raises(ValueError):
        parse_byte_size(text)
