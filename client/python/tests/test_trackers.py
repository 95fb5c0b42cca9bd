"""Calls of trackers of experiments; no epoch is logged twice."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth.v1 import jobs_pb2, report_pb2, sweeps_pb2  # noqa: E402

STATE = {"sequence": 1, "state": {"state": "RUNNING"}}


class Recorder:
    """A tracker that keeps its runs in memory."""

    def __init__(self):
        self.runs = {}

    def begin(self, info):
        run = self.runs.setdefault(info.identity, Recorded())
        run.infos.append(info)
        return run


class Recorded:
    def __init__(self):
        self.infos, self.epochs, self.ends = [], [], []

    @property
    def last_epoch(self):
        return self.epochs[-1][0] if self.epochs else 0

    def log_epoch(self, epoch, figures):
        self.epochs.append((epoch, dict(figures)))

    def end(self, state, facts):
        self.ends.append((state, dict(facts)))


def epoch(number, loss=0.5):
    return report_pb2.EpochReport(
        epoch=number, loss=loss, metric="accuracy", valid_metric=0.25, seconds=2, batches=3,
        rows_needed=100, bytes_needed=800, bytes_read=0,
        hits=[{"level": "cpu_cache", "rows": 40}], phases=[{"name": "inspect", "seconds": 1}],
        stages=[{"name": "sample", "threads": 2, "busy_seconds": 1, "starved_seconds": 2,
                 "blocked_seconds": 3}])


def job(epochs, state="SUCCEEDED", **more):
    message = jobs_pb2.Job(state=state, **{"id": "train-1", **more})
    message.create_time.seconds = 7
    message.spec.train.data.dataset = "papers"
    message.spec.train.data.epochs = 3
    message.spec.train.trains.add().sage.hidden = 8
    message.report.train.epochs.extend(epoch(number) for number in epochs)
    message.report.train.metric = "accuracy"
    message.report.train.kept_epoch = len(epochs)
    message.report.train.loss_digest = "d1"
    if state == "SUCCEEDED":
        message.report.train.test_metric = 0.75
    return message


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def test_a_job(daemon, client):
    daemon.answers.update(GetJob=lambda _: job([1, 2]), WatchJob=lambda _: iter([
        jobs_pb2.JobEvent(**STATE), jobs_pb2.JobEvent(sequence=2, epoch=epoch(1)),
        jobs_pb2.JobEvent(sequence=3, epoch=epoch(2)),
        jobs_pb2.JobEvent(sequence=4, state={"state": "SUCCEEDED"})]))
    one, other = Recorder(), Recorder()
    ended = client.job("train-1").track(one, other)
    assert ended.state.value == "SUCCEEDED"
    (run,) = one.runs.values()
    (info,) = run.infos
    assert (info.name, info.group) == ("train-1", "")
    assert (info.options["epochs"], info.options["hidden"]) == ("3", "8")
    assert info.tags["hearth.dataset"] == "papers"
    assert [number for number, _ in run.epochs] == [1, 2]
    assert run.epochs[0][1] == {
        "loss": 0.5, "valid_accuracy": 0.25, "epoch_seconds": 2.0,
        "io/rows_needed": 100.0, "io/bytes_needed": 800.0, "io/bytes_read": 0.0,
        "stages/sample/busy_seconds": 1.0, "stages/sample/starved_seconds": 2.0,
        "stages/sample/blocked_seconds": 3.0, "phases/inspect_seconds": 1.0,
        "hit_ratio/cpu_cache": 0.4}
    ((state, facts),) = run.ends
    assert state == "SUCCEEDED"
    assert facts["test_accuracy"] == 0.75 and facts["loss_digest"] == "d1"
    assert [run.epochs for run in other.runs.values()] == [run.epochs]


def test_no_epoch_twice(daemon, client):
    """The daemon is lost, the program ends, and another one tracks the job that was resumed."""
    first = [jobs_pb2.JobEvent(sequence=2, epoch=epoch(1)),
             jobs_pb2.JobEvent(sequence=3, epoch=epoch(2))]
    rest = [jobs_pb2.JobEvent(sequence=4, epoch=epoch(3)),
            jobs_pb2.JobEvent(sequence=5, state={"state": "SUCCEEDED"})]

    def watch(request):
        if request.from_sequence == 1 and len(daemon.requests) < 4:
            yield from first
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "gone")
        yield from [event for event in first + rest if event.sequence >= request.from_sequence]

    daemon.answers.update(GetJob=lambda _: job([1, 2, 3]), WatchJob=watch)
    recorder = Recorder()
    client.track("train-1", recorder)
    client.track("train-1", recorder)
    (run,) = recorder.runs.values()
    assert [number for number, _ in run.epochs] == [1, 2, 3]
    assert len(run.infos) == len(run.ends) == 2


def test_jobs_of_two_daemons_are_two_runs(daemon, client):
    made = iter([7, 7, 8, 8])

    def get(_):
        message = job([])
        message.create_time.seconds = next(made)
        return message

    daemon.answers.update(GetJob=get, WatchJob=lambda _: iter([
        jobs_pb2.JobEvent(sequence=4, state={"state": "SUCCEEDED"})]))
    recorder = Recorder()
    client.track("train-1", recorder)
    client.track("train-1", recorder)
    assert len(recorder.runs) == 2


def test_a_job_that_fails(daemon, client):
    failed = job([1], state="FAILED", error={"code": 8, "message": "no memory"})
    daemon.answers.update(GetJob=lambda _: failed, WatchJob=lambda _: iter([
        jobs_pb2.JobEvent(sequence=4, state={"state": "FAILED"})]))
    recorder = Recorder()
    assert client.track("train-1", recorder).error.message == "no memory"
    ((state, facts),) = next(iter(recorder.runs.values())).ends
    assert (state, facts["error"]) == ("FAILED", "no memory")


def test_trials_of_a_sweep_are_runs_with_the_means_of_their_replicas(daemon, client):
    """Two trials of two replicas; the second replica of trial 2 is late."""
    jobs = {f"train-{trial}{replica}": (trial, replica)
            for trial in (1, 2) for replica in (0, 1)}
    done = dict.fromkeys(jobs, 0)

    def get(request):
        trial, replica = jobs[request.id]
        message = job([], state="RUNNING", id=request.id, sweep="sweep-1", trial=trial,
                      replica=replica)
        message.report.train.epochs.extend(
            epoch(number, loss=trial + 2 * replica) for number in range(1, done[request.id] + 1))
        return message

    def results(*ids):
        found = []
        for id in ids:
            done[id] += 1
            found.append({"trial": jobs[id][0], "replica": jobs[id][1], "epoch": done[id],
                          "loss": 1, "job": id})
        return {"metric": "accuracy", "results": found}

    def watch(_):
        yield sweeps_pb2.SweepEvent(sequence=1, results=results("train-10", "train-20"))
        yield sweeps_pb2.SweepEvent(sequence=2, results=results("train-11", "train-20"))
        yield sweeps_pb2.SweepEvent(sequence=3, results=results("train-21"))
        yield sweeps_pb2.SweepEvent(sequence=4, state={"state": "SWEEP_DONE"})

    sweep = sweeps_pb2.Sweep(id="sweep-1", state="SWEEP_DONE", metric="accuracy", trials=[
        {"number": 1, "state": "TRIAL_SUCCEEDED", "metric": 0.5, "test_metric": 0.25},
        {"number": 2, "state": "TRIAL_STOPPED", "reason": "worse"},
        {"number": 3, "state": "TRIAL_PENDING"}])
    sweep.spec.seeds = 2
    daemon.answers.update(GetSweep=lambda _: sweep, WatchSweep=watch, GetJob=get)
    recorder = Recorder()
    client.sweep_show("sweep-1").track(recorder)
    first, second = sorted(recorder.runs.values(), key=lambda run: run.infos[0].name)
    assert first.infos[0].name == "sweep-1 trial 1"
    assert second.infos[0].group == "sweep-1" and second.infos[0].options["hidden"] == "8"
    assert [(number, figures["loss"]) for number, figures in first.epochs] == [(1, 2.0)]
    assert [(number, figures["loss"]) for number, figures in second.epochs] == [(1, 3.0)]
    assert first.ends == [("SUCCEEDED", {"rank": 0.0, "epochs": 0.0, "best_accuracy": 0.5,
                                         "test_accuracy": 0.25})]
    assert second.ends[0][1]["reason"] == "worse"


@pytest.mark.parametrize("name, module, package, arguments", [
    ("Mlflow", "mlflow", "mlflow-skinny", ()), ("Wandb", "wandb", "wandb", ()),
    ("TensorBoard", "tensorboardX", "tensorboardX", ("runs",))])
def test_what_is_missing_says_how_to_get_it(monkeypatch, name, module, package, arguments):
    import hearth.trackers
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=f"pip install {package}$"):
        getattr(hearth.trackers, name)(*arguments)
