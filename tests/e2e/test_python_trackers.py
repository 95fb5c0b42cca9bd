"""MLflow, Weights & Biases and TensorBoard as they are published, with the real daemon and
without a network (`--full trackers`)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon import TIRELESS, wait_for

pytestmark = pytest.mark.full("trackers")
CLIENT = Path(__file__).parents[2] / "client/python"
sys.path.append(str(CLIENT))

EPOCHS = 4
QUICK = {"dataset": "planted", "strategy": "gnndrive", "model": "sage", "fanouts": [5, 5],
         "hidden": 16, "batch_size": 64, "epochs": EPOCHS, "lr": 0.01, "seed": 1}
FIGURES = {"loss", "valid_accuracy", "epoch_seconds", "io/bytes_read", "io/rows_needed",
           "stages/sample/busy_seconds", "stages/train/busy_seconds", "hit_ratio/cpu_cache"}


@pytest.fixture(scope="module")
def client(daemon):
    import hearth
    with hearth.Client(daemon.address) as made:
        yield made


@pytest.fixture
def fresh(start_daemon, graph_folder):
    import hearth
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    with hearth.Client(daemon.address) as made:
        yield daemon, made


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return f"file:{tmp_path / 'mlruns'}"


def history(store, run, name):
    import mlflow
    return [(one.step, one.value)
            for one in mlflow.MlflowClient(store).get_metric_history(run.info.run_id, name)]


def runs_in(store):
    import mlflow
    found = mlflow.MlflowClient(store)
    experiment = found.get_experiment_by_name("hearth")
    return found.search_runs([experiment.experiment_id])


def test_a_job_in_mlflow(client, mlflow_store):
    import hearth.trackers
    job = client.train(QUICK).track(hearth.trackers.Mlflow(mlflow_store))
    (run,) = runs_in(mlflow_store)
    assert run.info.status == "FINISHED" and run.info.run_name == job.id
    assert run.data.params == dict(job.options)
    assert run.data.tags["hearth.job"] == job.id
    assert FIGURES <= set(run.data.metrics)
    expected = [(epoch.epoch, epoch.valid_metric) for epoch in job.report.epochs]
    assert history(mlflow_store, run, "valid_accuracy") == expected
    assert run.data.metrics["test_accuracy"] == job.report.test_metric
    assert run.data.tags["hearth.loss_digest"] == job.report.loss_digest


def test_a_job_that_is_tracked_through_kills_and_programs_has_each_epoch_once(fresh, mlflow_store):
    import hearth.trackers
    daemon, client = fresh
    tracker = hearth.trackers.Mlflow(mlflow_store)

    class Killing:
        """Kills the daemon after the second epoch."""

        last_epoch = 0

        def begin(self, info):
            return self

        def log_epoch(self, epoch, figures):
            self.last_epoch = epoch
            if epoch == 2:
                daemon.kill()
                daemon.start()

        def end(self, state, facts):
            pass

    job = client.train({**QUICK, "epochs": 6})
    client.track(job.id, tracker, Killing())
    again = [sys.executable, "-c", "import sys, hearth.trackers; hearth.Client(sys.argv[1]).track("
             "sys.argv[2], hearth.trackers.Mlflow(sys.argv[3]))", daemon.address, job.id,
             mlflow_store]
    subprocess.run(again, check=True, cwd=CLIENT)
    (run,) = runs_in(mlflow_store)
    assert [step for step, _ in history(mlflow_store, run, "loss")] == [1, 2, 3, 4, 5, 6]
    assert run.info.status == "FINISHED"


def test_a_cancelled_job_goes_on_with_its_run(client, mlflow_store):
    import hearth.trackers
    tracker = hearth.trackers.Mlflow(mlflow_store)
    job = client.train({**QUICK, "epochs": 200})
    for event in job.watch():
        if hasattr(event, "epoch") and getattr(event.epoch, "epoch", 0) == 2:
            job.cancel()
    job.track(tracker)
    (run,) = runs_in(mlflow_store)
    assert run.info.status == "KILLED"
    before = history(mlflow_store, run, "loss")
    assert 2 <= len(before) < 200
    client.track(job.resume().id, tracker)
    (run,) = runs_in(mlflow_store)
    after = history(mlflow_store, run, "loss")
    assert run.info.status == "FINISHED"
    assert after[:len(before)] == before
    assert [step for step, _ in after] == list(range(1, 201))


def test_a_sweep_in_mlflow(client, mlflow_store):
    import hearth.trackers
    sweep = client.sweep(QUICK, space={"lr": [0.01, 0.001]}, algorithm="grid", seeds=2)
    done = sweep.track(hearth.trackers.Mlflow(mlflow_store))
    runs = sorted(runs_in(mlflow_store), key=lambda run: run.info.run_name)
    assert [run.info.run_name for run in runs] == [f"{sweep.id} trial {i}" for i in (1, 2)]
    for run, trial in zip(runs, done.trials, strict=True):
        assert float(run.data.params["lr"]) == trial.parameters["lr"]
        steps = history(mlflow_store, run, "valid_accuracy")
        assert [step for step, _ in steps] == list(range(1, EPOCHS + 1))
        assert max(value for _, value in steps) == pytest.approx(trial.metric)
        assert run.data.metrics["best_accuracy"] == trial.metric
    best = runs[done.best_trial - 1]
    assert best.data.metrics["test_accuracy"] == done.best_test_metric


@pytest.fixture
def wandb_folder(tmp_path, monkeypatch):
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = tmp_path / "wandb-runs"
    folder.mkdir()
    return folder


def wandb_log(content):
    """The records of a transaction log: LevelDB's format behind a header of 7 bytes."""
    at, parts = 7, []
    while at < len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(content[at + 4:at + 6], "little"), content[at + 6]
        parts.append(content[at + 7:at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # The whole record, or its last part.
            yield b"".join(parts)
            parts = []


def wandb_records(folder, ends):
    """History rows, config and summary of each run, read from its transaction log, once `ends`
    runs have ended there: its writer is another process."""
    return wait_for(lambda: read_wandb_records(folder, ends), "wandb to write its logs")


def read_wandb_records(folder, ends):
    from wandb.proto import wandb_internal_pb2
    runs, ended = {}, 0
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for data in wandb_log(path.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                name = record.run.display_name
                run = runs.setdefault(name, {"history": [], "config": {}, "summary": {}})
                run["config"].update({one.key: json.loads(one.value_json)
                                      for one in record.run.config.update})
            elif kind == "history":
                run["history"].append({(one.key or "/".join(one.nested_key)):
                                       json.loads(one.value_json)
                                       for one in record.history.item})
            elif kind == "summary":
                run["summary"].update({(one.key or "/".join(one.nested_key)):
                                       json.loads(one.value_json)
                                       for one in record.summary.update})
            ended += kind == "exit"
    return runs if ended == ends else None


def test_a_job_in_wandb(client, wandb_folder):
    import hearth.trackers
    tracker = hearth.trackers.Wandb(mode="offline", dir=str(wandb_folder))
    job = client.train(QUICK).track(tracker)
    run = wandb_records(wandb_folder, 1)[job.id]
    assert run["config"]["lr"] == job.options["lr"]
    assert [row["epoch"] for row in run["history"]] == list(range(1, EPOCHS + 1))
    assert [row["_step"] for row in run["history"]] == list(range(1, EPOCHS + 1))
    assert [row["valid_accuracy"] for row in run["history"]] == [
        epoch.valid_metric for epoch in job.report.epochs]
    assert FIGURES <= set(run["history"][0])
    assert run["summary"]["test_accuracy"] == job.report.test_metric
    # The same tracker once more: the run goes on, and no epoch is logged again. Its folder has
    # the second of its beginning in its name.
    ended = int(time.time())
    wait_for(lambda: int(time.time()) > ended, "another second")
    client.track(job.id, tracker)
    assert len(wandb_records(wandb_folder, 2)[job.id]["history"]) == EPOCHS


def test_a_sweep_in_wandb(client, wandb_folder):
    import hearth.trackers
    sweep = client.sweep(QUICK, space={"lr": [0.01, 0.001]}, algorithm="grid")
    sweep.track(hearth.trackers.Wandb(mode="offline", dir=str(wandb_folder)))
    runs = wandb_records(wandb_folder, 2)
    assert sorted(runs) == [f"{sweep.id} trial {i}" for i in (1, 2)]
    assert {len(run["history"]) for run in runs.values()} == {EPOCHS}


def scalars_of(folder):
    """(step, value) by tag, of all event files of a folder."""
    from tensorboardX.proto import event_pb2
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content, at = path.read_bytes(), 0
        while at < len(content):
            length = int.from_bytes(content[at:at + 8], "little")
            event = event_pb2.Event.FromString(content[at + 12:at + 12 + length])
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
                else:
                    found.setdefault(value.tag, []).append(
                        (event.step, value.tensor.string_val[0].decode()))
            at += 12 + length + 4
    return found


def test_a_job_in_tensorboard(client, tmp_path):
    import hearth.trackers
    job = client.train(QUICK).track(hearth.trackers.TensorBoard(tmp_path))
    scalars = scalars_of(tmp_path / job.id)
    assert FIGURES <= set(scalars)
    assert scalars["loss"] == [(epoch.epoch, pytest.approx(epoch.loss, rel=1e-6))
                               for epoch in job.report.epochs]
    ((_, options),) = next(values for tag, values in scalars.items()
                           if tag.startswith("options"))
    assert "| hidden | 16 |" in options
    client.track(job.id, hearth.trackers.TensorBoard(tmp_path))
    assert len(scalars_of(tmp_path / job.id)["loss"]) == EPOCHS


def test_a_sweep_in_tensorboard(client, tmp_path):
    import hearth.trackers
    sweep = client.sweep(QUICK, space={"lr": [0.01, 0.001]}, algorithm="grid")
    sweep.track(hearth.trackers.TensorBoard(tmp_path))
    for trial in (1, 2):
        scalars = scalars_of(tmp_path / f"{sweep.id}-trial-{trial}")
        assert [step for step, _ in scalars["loss"]] == list(range(1, EPOCHS + 1))
