"""The Python client against the real daemon: jobs, sweeps, kills, and the same figures as the
command line's."""

from __future__ import annotations

import csv
import re
import sys
import threading
from pathlib import Path

import pytest

from daemon import TIRELESS, wait_for
from jobs import LONG_EPOCHS, LONG_OPTIONS as LONG, QUICK_OPTIONS as QUICK

pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import grpc  # noqa: E402

import hearth  # noqa: E402
from hearth.jobs import EpochFinished, JobState, StateChanged  # noqa: E402
from hearth.sweeps import EpochsReported, ReplicaEnded, SweepState, TrialState  # noqa: E402


@pytest.fixture(scope="module")
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    return daemon


def test_a_job_is_that_of_the_command_line(daemon, client, tmp_path):
    job = client.train(QUICK)
    events = list(client.watch(job.id))
    report = client.result(job.id)
    shown = daemon.json("job", "show", job.id)
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})
    assert events[-1].state is JobState.SUCCEEDED
    assert [event.epoch for event in events if isinstance(event, EpochFinished)] == list(
        report.epochs)
    assert report.loss_digest == shown["report"]["loss_digest"]
    assert report.test_metric == shown["report"]["test_metric"]
    assert [epoch.valid_metric for epoch in report.epochs] == [
        epoch["valid_metric"] for epoch in shown["report"]["epochs"]]
    by_flags = daemon.json("train", *(word for name, value in job.options.items() for word in (
        f"--{name.replace('_', '-')}", value)))
    assert by_flags["report"]["loss_digest"] == report.loss_digest
    folder = client.export(job.id, str(tmp_path / "model"))
    assert (Path(folder) / "model.safetensors").exists()
    assert job.id in {one.id for one in client.jobs(JobState.SUCCEEDED)}
    client.delete(job.id)
    with pytest.raises(hearth.NotFound):
        client.job(job.id)


@pytest.mark.parametrize("options, field, words", [
    ({"epoch": 3}, "epoch", "did you mean epochs?"),
    ({"hidden": 0}, "hidden", "is not a whole number from 1 to 65536"),
    ({"lr_warmup_epochs": 2}, "lr_warmup_epochs", "must be less than epochs (2), not 2"),
    ({"model": "gat", "heads": 3}, "hidden", "must be a multiple of heads (3), not 32"),
])
def test_bad_options_are_refused_by_field(client, options, field, words):
    before = len(client.jobs())
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.train({**QUICK, **options})
    assert refused.value.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.field == field
    assert words in refused.value.message
    assert len(client.jobs()) == before


def test_an_unknown_dataset(client):
    with pytest.raises(hearth.NotFound, match='there is no dataset "x"; there are: planted'):
        client.train({**QUICK, "dataset": "x"})


def test_cancel_and_resume(client, undisturbed):
    job = client.train(LONG)
    for event in client.watch(job.id):
        if isinstance(event, EpochFinished):
            client.cancel(job.id)
    assert client.wait(job.id).state is JobState.CANCELLED
    with pytest.raises(hearth.JobFailed, match="was cancelled"):
        client.result(job.id)
    resumed = client.resume(job.id, train_threads=1)
    assert resumed.options["train_threads"] == "1"
    with pytest.raises(hearth.HearthError) as refused:
        client.resume(job.id)
    assert refused.value.code == grpc.StatusCode.FAILED_PRECONDITION
    report = client.result(job.id)
    assert report.loss_digest == undisturbed["loss_digest"]
    assert [epoch.epoch for epoch in report.epochs] == list(range(1, LONG_EPOCHS + 1))


def test_a_watch_outlives_kill_9_and_sigterm(fresh, undisturbed):
    with hearth.Client(fresh.address) as client:
        job = client.train(LONG)
        events, kills = [], 0
        for event in client.watch(job.id):
            events.append(event)
            if isinstance(event, EpochFinished) and kills < 3:
                (fresh.stop if kills == 1 else fresh.kill)()
                fresh.start()
                kills += 1
        assert kills == 3
        assert client.result(job.id).loss_digest == undisturbed["loss_digest"]
    sequences = [event.sequence for event in events]
    assert sequences == sorted(set(sequences))
    assert [event.epoch.epoch for event in events if isinstance(event, EpochFinished)] == list(
        range(1, LONG_EPOCHS + 1))


def test_a_daemon_that_does_not_answer(fresh):
    told: list[float] = []
    silent, answers = threading.Event(), threading.Event()

    def on_silence(seconds):
        told.append(seconds)
        (silent if seconds else answers).set()

    def restart_when_told():
        silent.wait(120)
        fresh.kill()
        fresh.start()

    with hearth.Client(fresh.address, on_silence=on_silence) as client:
        job = client.train(LONG)
        restart = threading.Thread(target=restart_when_told)
        restart.start()
        frozen = False
        for event in client.watch(job.id):
            if isinstance(event, EpochFinished) and not frozen:
                fresh.freeze()
                frozen = True
        restart.join()
        assert answers.is_set()
        assert client.result(job.id).epochs[-1].epoch == LONG_EPOCHS
    assert told[0] >= 10 and told[1] == 0


def test_a_sweep_is_that_of_the_command_line(daemon, client, tmp_path, capfd):
    sweep = client.sweep({**QUICK, "epochs": 9}, space={"lr": "log:1e-5:1e-1",
                                                        "hidden": hearth.Integers(8, 32)},
                         algorithm="asha", trials=6)
    done = client.sweep_progress(sweep.id)
    told = capfd.readouterr().err
    # Lines, or a bar with lines above it where a notebook has run before.
    assert f"{sweep.id}: running\n" in told and f"{sweep.id}: done\n" in told
    assert len(re.findall(r": trial \d+: epoch \d+: loss ", told)) == len(
        client.sweep_epochs(sweep.id))
    table = tmp_path / "epochs.csv"
    daemon.hearth("sweep", "show", sweep.id, "--csv", str(table))
    shown = daemon.json("sweep", "show", sweep.id)
    assert done.state is SweepState.DONE
    assert done.best_metric == shown["best_metric"]
    assert [(trial.number, f"TRIAL_{trial.state.value}", trial.epochs, trial.metric, trial.rank,
             trial.reason) for trial in done.trials] == [
                 (trial["number"], trial["state"], trial["epochs"], trial["metric"],
                  trial["rank"], trial["reason"]) for trial in shown["trials"]]
    assert {trial.state for trial in done.trials} == {TrialState.SUCCEEDED, TrialState.STOPPED}
    for trial, other in zip(done.trials, shown["trials"], strict=True):
        assert trial.parameters == {one["name"]: float(one["value"])
                                    for one in other["parameters"]}
    best = client.sweep_best(sweep.id)
    assert best.number == done.best_trial == daemon.json("sweep", "best", sweep.id)["number"]
    assert best.metric == client.report(best.best_job).best_epoch.valid_metric
    assert client.report(best.best_job).test_metric is None
    tested = client.evaluate(best.best_job)
    assert tested.test_metric == best.test_metric == done.best_test_metric > 0
    assert {trial.test_metric for trial in done.trials if trial != best} == {None}
    assert Path(client.export(best.best_job, str(tmp_path / "best")), "config.json").exists()
    with open(table, encoding="utf-8") as file:
        rows = {(int(row["trial"]), int(row["epoch"])): float(row["loss"])
                for row in csv.DictReader(file)}
    epochs = client.sweep_epochs(sweep.id)
    assert {(one.trial, one.epoch): one.loss for one in epochs} == pytest.approx(rows)
    assert sweep.id in {one.id for one in client.sweeps()}
    client.sweep_delete(sweep.id)
    with pytest.raises(hearth.NotFound):
        client.sweep_show(sweep.id)


def test_trials_wait_to_be_judged(client):
    sweep = client.sweep({**QUICK, "epochs": 5}, algorithm="manual", verdict_wait=60)
    first, second = (client.add_trial(sweep.id, lr=rate).number for rate in (0.01, 0.1))
    for event in client.sweep_watch(sweep.id):
        if isinstance(event, EpochsReported):
            for result in event.results:
                if (result.trial, result.epoch) == (second, 2):
                    client.stop_trial(sweep.id, second)
                elif result.epoch < 5:
                    client.continue_trial(sweep.id, result.trial, result.epoch)
        elif isinstance(event, ReplicaEnded) and event.trial == first:
            break
    trials = client.sweep_stop(sweep.id).trials
    assert [trial.epochs for trial in trials] == [5, 2]
    assert [trial.state for trial in trials] == [TrialState.SUCCEEDED, TrialState.STOPPED]
    client.wait(trials[1].jobs[0])
    assert len(client.report(trials[1].jobs[0]).epochs) == 2


@pytest.mark.parametrize("space, field, words", [
    ({"learning": [1, 2]}, "space learning", "is not an option"),
    ({"lr": "log:0:1"}, "space lr", "must be above 0"),
    ({"lr": []}, "space lr", "must have a value"),
    ({"hidden": [8, 0]}, "space hidden", '"0" is not a whole number'),
    ({"samplers": [1, 2]}, "space samplers", "changes no result"),
])
def test_bad_spaces_are_refused_by_field(client, space, field, words):
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.sweep(QUICK, space=space, algorithm="random", trials=2)
    assert refused.value.field == field
    assert words in refused.value.message


def test_trials_by_hand_and_a_pause(fresh):
    with hearth.Client(fresh.address) as client:
        sweep = client.sweep({**QUICK, "epochs": 1000}, algorithm="manual", parallel=2)
        first = client.add_trial(sweep.id, lr=0.01, batch_size=32)
        second = client.add_trial(sweep.id, {"lr": 0.1, "batch-size": 32})
        assert [first.number, second.number] == [1, 2]
        assert second.parameters == {"lr": 0.1, "batch_size": 32}
        with pytest.raises(hearth.InvalidRequest) as refused:
            client.add_trial(sweep.id, lr=-1)
        assert refused.value.field == "lr"
        wait_for(lambda: client.sweep_show(sweep.id).trials[0].epochs, "an epoch")
        assert client.sweep_pause(sweep.id).state is SweepState.PAUSED
        fresh.kill()
        fresh.start()
        assert client.sweep_resume(sweep.id).state is SweepState.RUNNING
        assert client.stop_trial(sweep.id, 1).state is TrialState.STOPPED
        wait_for(lambda: client.sweep_show(sweep.id).trials[1].epochs, "the other to train")
        with pytest.raises(hearth.HearthError) as refused:
            client.sweep_delete(sweep.id)
        assert refused.value.code == grpc.StatusCode.FAILED_PRECONDITION
        assert client.sweep_stop(sweep.id).state is SweepState.STOPPED
        assert client.sweep_wait(sweep.id).trials[1].state is TrialState.STOPPED
        states = [event.state for event in client.sweep_watch(sweep.id)
                  if hasattr(event, "state")]
        assert states == [SweepState.RUNNING, SweepState.PAUSED, SweepState.RUNNING,
                          SweepState.STOPPED]
        job = client.sweep_show(sweep.id).trials[1].jobs[0]
        assert isinstance(list(client.watch(job))[-1], StateChanged)
