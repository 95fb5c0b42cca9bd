"""Results made of the daemon's answers: jobs, reports, sweeps and frames."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth import jobs, sweeps  # noqa: E402
from hearth.jobs import EpochFinished, JobState, Logged  # noqa: E402
from hearth.options.specs import train_spec  # noqa: E402
from hearth.rows import Rows  # noqa: E402
from hearth.sweeps import (EpochResult, EpochsReported, EvaluationBegun,  # noqa: E402
                           EvaluationEnded, ReplicaEnded, SweepState,  # noqa: E402
                           TrialAdded, TrialState, TrialStopped)
from hearth.v1 import (feeds_pb2, jobs_pb2, report_pb2, spec_pb2,  # noqa: E402
                       sweeps_pb2)

SPEC = spec_pb2.JobSpec(train=train_spec({"dataset": "papers", "strategy": "ginex",
                                          "epochs": 2}))
EPOCHS = [report_pb2.EpochReport(epoch=1, loss=0.5, metric="accuracy", valid_metric=0.75,
                                 bytes_read=0),
          report_pb2.EpochReport(epoch=2, loss=0.25, metric="accuracy", valid_metric=0.5)]


def train_job(**fields):
    job = jobs_pb2.Job(id="train-1", spec=SPEC, last_sequence=5, **fields)
    job.report.train.epochs.extend(EPOCHS)
    job.report.train.metric = "accuracy"
    job.create_time.FromDatetime(datetime(2026, 1, 2, tzinfo=timezone.utc))
    return job


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def test_a_job(daemon, client):
    daemon.answers["GetJob"] = lambda _: train_job(state="RUNNING", sweep="sweep-2", trial=3)
    job = client.job("train-1")
    assert (job.id, job.kind, job.state) == ("train-1", "train", JobState.RUNNING)
    assert (job.sweep, job.trial, job.held) == ("sweep-2", 3, False)
    assert job.create_time == datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert job.end_time is None and job.error is None
    assert job.options["strategy"] == "ginex" and job.options["epochs"] == "2"
    assert [epoch.loss for epoch in job.report.epochs] == [0.5, 0.25]
    # Absent is not zero.
    assert [epoch.bytes_read for epoch in job.report.epochs] == [0, None]
    assert job.report.best_epoch.epoch == 1
    assert job.report.test_metric is None
    with pytest.raises(AttributeError):
        job.state = JobState.FAILED
    assert pickle.loads(pickle.dumps(job)) == job == copy.deepcopy(job)


def test_the_best_epoch_of_targets_has_the_least_error():
    report = report_pb2.TrainReport(metric="mse", epochs=EPOCHS)
    assert jobs.report_from(report).best_epoch.epoch == 2
    assert jobs.report_from(report_pb2.TrainReport(metric="mse")).best_epoch is None


def test_jobs_come_page_by_page(daemon, client):
    def page(request):
        number = int(request.page_token or 0)
        return jobs_pb2.ListJobsResponse(
            jobs=[jobs_pb2.Job(id=f"train-{9 - number}", state="FAILED",
                               error={"code": 8, "message": "no memory"})],
            next_page_token=str(number + 1) if number < 2 else "")

    daemon.answers["ListJobs"] = page
    found = client.jobs(JobState.FAILED, JobState.CANCELLED)
    assert [job.id for job in found] == ["train-9", "train-8", "train-7"]
    assert found[0].error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [list(request.states) for request in daemon.requests] == [
        [jobs_pb2.FAILED, jobs_pb2.CANCELLED]] * 3


def test_a_result_is_waited_for(daemon, client):
    states = iter(["RUNNING", "SUCCEEDED"])
    daemon.answers["GetJob"] = lambda _: train_job(state=next(states))
    daemon.answers["WatchJob"] = lambda request: iter(
        [jobs_pb2.JobEvent(sequence=request.from_sequence, state={"state": "SUCCEEDED"})])
    assert client.result("train-1").epochs[1].loss == 0.25
    (watch,) = (one for one in daemon.requests if isinstance(one, jobs_pb2.WatchJobRequest))
    assert watch.from_sequence == 6


@pytest.mark.parametrize("state, error, code, words", [
    ("FAILED", {"code": 9, "message": "the loss diverged"},
     grpc.StatusCode.FAILED_PRECONDITION, "train-1: the loss diverged"),
    ("CANCELLED", None, grpc.StatusCode.CANCELLED, "train-1 was cancelled"),
])
def test_a_result_that_does_not_come(daemon, client, state, error, code, words):
    daemon.answers["GetJob"] = lambda _: train_job(state=state, error=error)
    with pytest.raises(hearth.JobFailed) as failed:
        client.result("train-1")
    assert (failed.value.job, failed.value.code, str(failed.value)) == ("train-1", code, words)
    again = pickle.loads(pickle.dumps(failed.value))
    assert (again.job, again.code, str(again)) == ("train-1", code, words)


def test_errors_outlive_other_processes():
    error = hearth.InvalidRequest(grpc.StatusCode.INVALID_ARGUMENT, "lr: bad",
                                  [hearth.errors.Violation("lr", "bad")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.field, str(again)) == (error.code, "lr", "lr: bad")


def test_a_job_of_another_kind_has_no_report(daemon, client):
    daemon.answers["GetJob"] = lambda _: jobs_pb2.Job(
        id="verify-1", state="SUCCEEDED", spec={"verify": {"dataset": "papers"}})
    with pytest.raises(hearth.HearthError, match="verify-1 is not a train job"):
        client.report("verify-1")
    assert client.job("verify-1").options == {}


def test_a_resumption_changes_the_spec_that_the_job_has(daemon, client):
    daemon.answers["GetJob"] = lambda _: train_job(state="FAILED")
    daemon.answers["ResumeJob"] = lambda request: train_job(state="QUEUED")
    client.resume("train-1", cpu_cache="64MiB")
    spec = daemon.requests[-1].spec.train
    assert spec.data.budgets.cpu_cache_bytes == 64 << 20
    assert spec.data.epochs == 2 and spec.data.HasField("ginex")
    client.resume("train-1")
    assert not daemon.requests[-1].HasField("spec")


def test_an_export_is_a_job(daemon, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    submitted = jobs_pb2.Job(id="export-4", state="SUCCEEDED",
                             report={"export": {"path": str(tmp_path / "model")}})
    daemon.answers["SubmitJob"] = daemon.answers["GetJob"] = lambda _: submitted
    assert client.export("train-1", "model") == str(tmp_path / "model")
    export = daemon.requests[0].spec.export
    assert (export.job_id, export.destination) == ("train-1", str(tmp_path / "model"))


def test_events_of_a_job(daemon, client):
    events = [jobs_pb2.JobEvent(sequence=1, epoch=EPOCHS[0]),
              jobs_pb2.JobEvent(sequence=2, log={"severity": "WARNING", "text": "slow"}),
              jobs_pb2.JobEvent(sequence=3),  # An event of a later version.
              jobs_pb2.JobEvent(sequence=4, state={"state": "FAILED", "error": {
                  "code": 15, "message": "damaged"}})]
    daemon.answers["WatchJob"] = lambda _: iter(events)
    epoch, log, end = client.watch("train-1")
    assert isinstance(epoch, EpochFinished) and epoch.epoch.valid_metric == 0.75
    assert isinstance(log, Logged) and (log.severity, log.text) == ("WARNING", "slow")
    assert end.error == jobs.JobError(grpc.StatusCode.DATA_LOSS, "damaged")


def test_states_are_those_of_the_protos():
    def names(enum, prefix=""):
        return {name.removeprefix(prefix) for name in enum.keys()
                if not name.endswith("UNSPECIFIED")}

    assert names(jobs_pb2.JobState) == {state.value for state in JobState}
    assert names(sweeps_pb2.SweepState, "SWEEP_") == {state.value for state in SweepState}
    assert names(sweeps_pb2.TrialState, "TRIAL_") == {state.value for state in TrialState}


def sweep_with(*settings, state="SWEEP_RUNNING"):
    return sweeps_pb2.Sweep(id="sweep-1", state=state, metric="accuracy", best_trial=2,
                            last_sequence=3, best_metric=0.75, spec={"asha": {"eta": 3}}, trials=[
                                {"number": number + 1, "state": "TRIAL_STOPPED", "metric": 0.5,
                                 "parameters": one, "jobs": [f"train-{number}"]}
                                for number, one in enumerate(settings)])


LR = [{"name": "lr", "value": "0.01"}, {"name": "batch-size", "value": "64"},
      {"name": "fanouts", "value": "5,5"}]


def test_a_sweep(daemon, client):
    daemon.answers["GetSweep"] = lambda _: sweep_with([], LR)
    sweep = client.sweep_show("sweep-1")
    assert (sweep.state, sweep.algorithm, sweep.best_metric) == (SweepState.RUNNING, "asha", 0.75)
    assert sweep.trials[1].parameters == {"lr": 0.01, "batch_size": 64, "fanouts": "5,5"}
    assert sweep.trials[1].state is TrialState.STOPPED and sweep.trials[1].jobs == ("train-1",)
    assert client.sweep_best("sweep-1") == sweep.trials[1]
    daemon.answers["GetSweep"] = lambda _: sweeps_pb2.Sweep(id="sweep-1", state="SWEEP_RUNNING")
    with pytest.raises(hearth.HearthError, match="sweep-1 has no trial with a result") as none:
        client.sweep_best("sweep-1")
    assert none.value.code == grpc.StatusCode.FAILED_PRECONDITION


def test_the_test_of_the_best_trial(daemon, client):
    tested = sweep_with([], LR, state="SWEEP_DONE")
    tested.best_test_metric = 0.5
    tested.trials[1].test_metric = 0.5
    tested.trials[1].test_jobs.append("evaluate-9")
    tested.trials[1].shared_with.append(1)
    daemon.answers["GetSweep"] = lambda _: tested
    sweep = client.sweep_show("sweep-1")
    assert (sweep.best_test_metric, sweep.test_fault) == (0.5, "")
    assert sweep.trials[0].test_metric is None
    best = sweep.trials[1]
    assert (best.test_metric, best.test_jobs, best.shared_with) == (0.5, ("evaluate-9",), (1,))


def test_a_model_is_evaluated(daemon, client):
    def job(_):
        return jobs_pb2.Job(id="evaluate-2", state="SUCCEEDED", spec={"evaluate": {
            "job_id": "train-1"}}, report={"evaluate": {
                "metric": "accuracy", "test_metric": 0.25, "kept_epoch": 3}})

    daemon.answers.update(SubmitJob=job, GetJob=job)
    report = client.evaluate("train-1")
    assert (report.metric, report.test_metric, report.kept_epoch) == ("accuracy", 0.25, 3)
    assert daemon.requests[0].spec.evaluate.job_id == "train-1"


def test_events_of_a_sweep(daemon, client):
    results = [{"trial": 1, "epoch": 1, "metric": 0.5, "loss": 2, "job": "train-1"},
               {"trial": 2, "replica": 1, "epoch": 1, "loss": 1, "job": "train-2"}]
    events = [
        sweeps_pb2.SweepEvent(sequence=1, added={"trial": 2, "parameters": LR}, decisions=[
            {"trial": 2, "replica": 1, "action": "START"}]),
        sweeps_pb2.SweepEvent(sequence=2, results={"metric": "accuracy", "results": results}),
        sweeps_pb2.SweepEvent(sequence=3, ended={"trial": 2, "state": "FAILED", "reason": "why"}),
        sweeps_pb2.SweepEvent(sequence=4, stop={"trial": 1}),
        sweeps_pb2.SweepEvent(sequence=5, test={"trial": 2}),
        sweeps_pb2.SweepEvent(sequence=6, tested={"replica": 1, "state": "SUCCEEDED",
                                                  "test_metric": 0.5})]
    daemon.answers["WatchSweep"] = lambda _: iter(events)
    daemon.answers["GetSweep"] = lambda _: sweep_with([], state="SWEEP_STOPPED")
    added, reported, ended, stopped, begun, tested = client.sweep_watch("sweep-1")
    assert isinstance(added, TrialAdded) and added.parameters["lr"] == 0.01
    assert added.decisions == (sweeps.Decision(2, 1, "START", ""),)
    assert isinstance(reported, EpochsReported) and reported.results == Rows([
        EpochResult(1, 0, 1, 0.5, 2.0, "train-1"), EpochResult(2, 1, 1, None, 1.0, "train-2")])
    assert isinstance(ended, ReplicaEnded) and (ended.state, ended.reason) == (
        JobState.FAILED, "why")
    assert ended.test_metric is None
    assert isinstance(stopped, TrialStopped) and stopped.trial == 1
    assert isinstance(begun, EvaluationBegun) and (begun.trial, begun.fault) == (2, "")
    assert isinstance(tested, EvaluationEnded)
    assert (tested.replica, tested.state, tested.test_metric) == (1, JobState.SUCCEEDED, 0.5)
    assert client.sweep_epochs("sweep-1") == reported.results


def test_a_refused_space(daemon, client):
    def refuse(_):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "bad",
                      [("space[1]", "batch-size must have a value"),
                       ("train.data.epochs", "must be at most 100000")])

    daemon.answers["SubmitSweep"] = refuse
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.sweep(dataset="papers", space={"lr": [1], "batch_size": []})
    assert [one.field for one in refused.value.violations] == ["space batch_size", "epochs"]


def test_options_of_a_file_and_keywords(daemon, client):
    daemon.answers["SubmitSweep"] = lambda request: sweeps_pb2.Sweep(id="sweep-1",
                                                                     state="SWEEP_RUNNING")
    file = {"dataset": "papers", "batch-size": 32, "algorithm": "grid",
            "space": {"lr": [0.01, 0.1], "fanouts": ["5,5", "3,3"]}}
    client.sweep(file, space={"lr": "0.5"}, batch_size=64)
    spec = daemon.requests[-1].spec
    assert spec.train.data.batch_size == 64 and spec.WhichOneof("algorithm") == "grid"
    assert {one.name: list(one.choice.values) for one in spec.space} == {
        "lr": ["0.5"], "fanouts": ["5,5", "3,3"]}
    daemon.answers["SubmitJob"] = lambda request: jobs_pb2.Job(state="QUEUED", spec=request.spec)
    assert client.train({"dataset": "papers", "batch-size": 32},
                        batch_size=16).options["batch_size"] == "16"


def test_trials_of_several_programs_get_numbers_of_their_own(daemon, client):
    others = [LR]

    def add(request):
        if request.number != len(others) + 1:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "number", [("number", "must be 3")])
        return sweep_with(*others, request.parameters)

    def show(_):
        shown = sweep_with(*others)
        if len(others) == 1:
            others.append(LR)  # Another program is faster.
        return shown

    daemon.answers.update(AddTrial=add, GetSweep=show)
    assert client.add_trial("sweep-1", lr=0.5).number == 3
    numbers = [request.number for request in daemon.requests
               if isinstance(request, sweeps_pb2.AddTrialRequest)]
    assert numbers == [2, 3]


def test_a_trial_that_cannot_be(daemon, client):
    def refuse(_):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "bad",
                      [("parameters[1].value", 'heads: "0" is not ...')])

    daemon.answers.update(AddTrial=refuse, GetSweep=lambda _: sweep_with())
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.add_trial("sweep-1", {"lr": 0.5, "heads": 0})
    assert refused.value.field == "heads"
    with pytest.raises(hearth.InvalidRequest, match="hiden: is not an option") as refused:
        client.add_trial("sweep-1", hiden=8)
    assert refused.value.field == "hiden"


def test_frames(daemon, client):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    daemon.answers["GetSweep"] = lambda _: sweep_with(LR, LR)
    frame = client.sweep_show("sweep-1").trials.frame()
    assert list(frame["parameters.lr"]) == [0.01, 0.01]
    assert list(frame["state"]) == ["STOPPED", "STOPPED"]
    assert pandas.api.types.is_float_dtype(frame["metric"])
    daemon.answers["ListJobs"] = lambda _: jobs_pb2.ListJobsResponse(
        jobs=[train_job(state="SUCCEEDED"), jobs_pb2.Job(id="verify-1", state="QUEUED")])
    frame = client.jobs().frame()
    assert list(frame["options.strategy"])[:1] == ["ginex"]
    assert frame["report.test_metric"].isna().all()
    assert "report" not in frame.columns and "message" not in frame.columns
    assert list(Rows(client.jobs()[0].report.epochs).frame()["loss"]) == [0.5, 0.25]


def hearth_pyg():
    import hearth.pyg
    return hearth.pyg


@pytest.mark.parametrize("module, importing, package", [
    ("pandas", lambda: Rows([EpochResult(1, 0, 1, None, 1.0, "")]).frame(), "pandas"),
    ("optuna", lambda: __import__("hearth.optuna"), "optuna"),
    ("torch_geometric", lambda: hearth_pyg().read_folder("x"), "torch_geometric"),
    ("torch", lambda: hearth_pyg().write_folder(None, "x"), "torch"),
    ("ray", lambda: __import__("hearth.ray"), r"'ray\[tune\]'"),
])
def test_what_is_optional_says_how_to_get_it(monkeypatch, module, importing, package):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"hearth.{module}", raising=False)
    with pytest.raises(ImportError, match=f"pip install {package}$"):
        importing()


def test_what_is_missing_says_how_to_get_it():
    package = Path(hearth.__file__).parents[1]
    for module in ("grpc", "hearth.v1"):
        program = f"import sys; sys.modules['{module}'] = None; import hearth; hearth.Client"
        done = subprocess.run([sys.executable, "-c", program], cwd=package, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 1
        assert "pip install grpcio protobuf" in done.stderr.splitlines()[-1]


def test_the_package_offers_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        hearth.Cleint
    assert set(hearth.__all__) >= {"Client", "HearthError", "LogUniform"}
    assert all(getattr(hearth, name) for name in hearth.__all__)


def test_a_feed(daemon, client):
    spec = {"feed": {"data": {"dataset": "papers", "batch_size": 64, "subgraph": {}}}}
    job = jobs_pb2.Job(id="feed-1", state="RUNNING", spec=spec)
    feed = job.report.feed
    feed.train.passes, feed.train.sum.batches, feed.train.sum.bytes_read = 2, 14, 4096
    feed.wait_seconds, feed.script_seconds, feed.copied_batches = 1.5, 3, 5
    feed.epochs.extend(EPOCHS)
    daemon.answers["GetJob"] = lambda _: job
    daemon.answers["AttachFeed"] = lambda request: feeds_pb2.AttachFeedResponse(
        path="/data/feed.sock", ticket=request.id.encode())
    shown = client.job("feed-1")
    assert (shown.kind, shown.dataset, shown.report) == ("feed", "papers", None)
    assert (shown.options["batch_size"], shown.options["sampler"]) == ("64", "subgraph")
    report = shown.feed_report()
    train, valid, _ = report.passes
    assert (train.split, train.passes, train.batches, train.bytes_read) == ("train", 2, 14, 4096)
    assert (valid.passes, valid.bytes_read) == (0, None)
    assert (report.wait_seconds, report.copied_batches) == (1.5, 5)
    assert [epoch.loss for epoch in report.epochs] == [0.5, 0.25]
    assert client.attach_feed("feed-1") == jobs.FeedAddress("/data/feed.sock", b"feed-1")
    daemon.answers["GetJob"] = lambda _: train_job(state="RUNNING")
    with pytest.raises(hearth.HearthError, match="train-1 is not a feed job"):
        client.job("train-1").feed_report()
