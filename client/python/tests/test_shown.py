"""Results as people see them: short texts, small tables, frames, progress."""

from __future__ import annotations

import html.parser
import io
import sys
from datetime import datetime, timezone

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

from hearth.client import Dataset, Job, Sweep  # noqa: E402
from hearth.daemon import plan_from, status_from  # noqa: E402
from hearth.graphs import dataset_from, upload_from  # noqa: E402
from hearth.jobs import event_from, job_from  # noqa: E402
from hearth.progress import JobProgress, SweepProgress  # noqa: E402
from hearth.rows import Rows, figure  # noqa: E402
from hearth.sweeps import event_from as sweep_event_from  # noqa: E402
from hearth.sweeps import sweep_from  # noqa: E402
from hearth.v1 import (admin_pb2, datasets_pb2, jobs_pb2, plans_pb2,  # noqa: E402
                       report_pb2, sweeps_pb2)

HOSTILE = "<script>alert('x')</script>"


def epoch(number):
    return report_pb2.EpochReport(
        epoch=number, loss=0.5 / number, metric="accuracy", valid_metric=0.5, seconds=2,
        rows_needed=100, hits=[{"level": "cpu_cache", "rows": 40}],
        phases=[{"name": "inspect", "seconds": 1}], stages=[
            {"name": "sample", "threads": 2, "busy_seconds": 1, "starved_seconds": 2},
            {"name": "train", "threads": 1, "busy_seconds": 3}])


def train_job(name="papers", epochs=2):
    message = jobs_pb2.Job(id="train-1", state="RUNNING", owner=name)
    message.spec.train.data.dataset = name
    message.spec.train.data.memory.SetInParent()
    message.spec.train.trains.add().sage.hidden = 8
    message.report.train.epochs.extend(map(epoch, range(1, epochs + 1)))
    message.create_time.FromDatetime(datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    return job_from(message, Job)


def dataset(name="papers"):
    return dataset_from(datasets_pb2.Dataset(
        name=name, warnings=[name], node_types=[{"name": name, "num_nodes": 7}],
        edge_types=[{"name": f"{name}:r:{name}", "num_edges": 9}]), Dataset)


def sweep(name="papers"):
    message = sweeps_pb2.Sweep(id="sweep-1", state="SWEEP_RUNNING", best_trial=1,
                               counts=[{"state": "TRIAL_FAILED", "trials": 1}],
                               trials=[{"number": 1, "state": "TRIAL_FAILED", "reason": name,
                                        "parameters": [{"name": "lr", "value": name}]}])
    message.spec.train.data.dataset = name
    message.spec.asha.SetInParent()
    return sweep_from(message, Sweep)


class Checker(html.parser.HTMLParser):
    """The tags and the texts of cells; every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self._open = set(), [], []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("make", [
    lambda: train_job(HOSTILE), lambda: dataset(HOSTILE), lambda: sweep(HOSTILE),
    lambda: Rows([train_job(HOSTILE)]), lambda: Rows([dataset(HOSTILE)]),
    lambda: Rows([sweep(HOSTILE)]), lambda: sweep(HOSTILE).trials,
    lambda: dataset(HOSTILE).node_types,
    lambda: Rows([upload_from(datasets_pb2.Upload(name=HOSTILE))]),
    lambda: plan_from(plans_pb2.Plan(name=HOSTILE, state="WHOLE")),
    lambda: status_from(admin_pb2.Status(warnings=[HOSTILE]))])
def test_tables_are_escaped(make):
    page = Checker(make()._repr_html_())
    assert "table" in page.tags and page.tags <= {"table", "tr", "th", "td", "p"}
    assert any(HOSTILE in text for text in page.texts)


def test_tables_are_small():
    page = Checker(Rows([train_job()] * 100)._repr_html_())
    assert sum("train-1" in text for text in page.texts) == 60
    assert page.texts[-1] == "and 40 more"
    assert Rows([])._repr_html_() == "<p>none</p>"
    assert {"running", "sage", "2", "2026-01-02 03:04:05"} <= set(
        Checker(train_job()._repr_html_()).texts)


def test_texts_are_short():
    job = "Job(id='train-1', kind='train', state='running', dataset='papers', model='sage')"
    assert repr(train_job()) == job
    assert repr(dataset()) == "Dataset(name='papers', num_nodes=7, num_edges=9, size_bytes=0)"
    assert repr(sweep()) == ("Sweep(id='sweep-1', state='running', dataset='papers', "
                             "algorithm='asha', num_trials=1)")
    assert repr(Rows([train_job()])) == f"({job},)"
    status = status_from(admin_pb2.Status(version="0.1.0", data_dir="/srv/x", datasets=2))
    assert repr(status) == ("Status(version='0.1.0', data_dir='/srv/x', draining=False, "
                            "datasets=2, jobs_running=0)")


def test_frames_of_a_job():
    pytest.importorskip("pandas", reason="pandas is not installed")
    job = train_job()
    frame = job.epochs_frame()
    assert list(frame["loss"]) == [0.5, 0.25]
    assert list(frame["hits.cpu_cache"]) == [40, 40]
    assert list(frame["phases.inspect"]) == [1, 1]
    stages = job.stages_frame()
    assert list(stages["name"]) == ["sample", "train"] * 2
    assert list(stages["epoch"]) == [1, 1, 2, 2]
    assert list(stages["busy_seconds"]) == [1, 3, 1, 3]


def events():
    made = [jobs_pb2.JobEvent(sequence=1, state={"state": "RUNNING"}),
            jobs_pb2.JobEvent(sequence=2, progress={
                "phase": "training", "done": 3, "total": 9, "epoch": 1, "epochs": 2, "loss": 1}),
            jobs_pb2.JobEvent(sequence=3, epoch=epoch(1)),
            jobs_pb2.JobEvent(sequence=4, log={"severity": "WARNING", "text": "slow"}),
            jobs_pb2.JobEvent(sequence=5, progress={"phase": "copying", "done": 1}),
            jobs_pb2.JobEvent(sequence=6, state={"state": "FAILED", "error": {
                "code": 8, "message": "no memory"}})]
    return [event_from(one) for one in made]


LINES = ["train-1: running", "train-1: epoch 1: loss 0.5000, accuracy 0.5000, 2.0 s",
         "train-1: warning: slow", "train-1: failed: no memory"]


def test_progress_of_a_file_is_lines():
    output = io.StringIO()
    with JobProgress("train-1", output) as progress:
        for event in events():
            progress.take(event)
    assert output.getvalue().splitlines() == LINES


def test_texts_of_others_command_no_terminal():
    output = io.StringIO()
    with JobProgress("train-1", output) as progress:
        progress.take(event_from(jobs_pb2.JobEvent(sequence=1, log={
            "severity": "INFO", "text": "\x1b[2Jgone\nné"})))
    assert output.getvalue() == "train-1: \\x1b[2Jgone\\x0ané\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_in_a_terminal_is_a_bar():
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    output = Terminal()
    with JobProgress("train-1", output) as progress:
        for event in events():
            progress.take(event)
    shown = output.getvalue()
    assert all(line in shown for line in LINES)
    assert "train-1 epoch 1/2 training" in shown and "3/9" in shown and "loss=1.0000" in shown


def test_progress_without_tqdm_is_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    output = Terminal()
    with JobProgress("train-1", output) as progress:
        for event in events():
            progress.take(event)
    assert output.getvalue().splitlines() == LINES


def sweep_events():
    lr = [{"name": "lr", "value": "0.1"}]
    made = [sweeps_pb2.SweepEvent(sequence=1, state={"state": "SWEEP_RUNNING"}),
            sweeps_pb2.SweepEvent(sequence=2, added={"trial": 1, "parameters": lr}),
            sweeps_pb2.SweepEvent(sequence=3, added={"trial": 2, "parameters": lr}, decisions=[
                {"trial": 1, "action": "START"}]),
            sweeps_pb2.SweepEvent(sequence=4, results={"metric": "accuracy", "results": [
                {"trial": 1, "epoch": 1, "loss": 0.5, "metric": 0.25},
                {"trial": 2, "epoch": 1, "loss": 0.75}]}, decisions=[
                    {"trial": 2, "action": "STOP", "reason": "worse than \x1b"}]),
            sweeps_pb2.SweepEvent(sequence=5, ended={"trial": 1, "state": "SUCCEEDED"}),
            sweeps_pb2.SweepEvent(sequence=6, test={"trial": 1}),
            sweeps_pb2.SweepEvent(sequence=7, tested={"state": "SUCCEEDED", "test_metric": 0.5}),
            sweeps_pb2.SweepEvent(sequence=8, state={"state": "SWEEP_DONE"})]
    return [sweep_event_from(one) for one in made]


SWEEP_LINES = ["sweep-1: running", "sweep-1: trial 1: lr=0.1", "sweep-1: trial 2: lr=0.1",
               "sweep-1: trial 1: epoch 1: loss 0.5000, accuracy 0.2500",
               "sweep-1: trial 2: epoch 1: loss 0.7500",
               "sweep-1: trial 2 is stopped: worse than \\x1b",
               "sweep-1: trial 1: replica 0 succeeded", "sweep-1: trial 1 is tested as the best one",
               "sweep-1: test of replica 0 succeeded: 0.5000", "sweep-1: done"]


def test_trials_that_take_a_result_are_told_and_have_no_jobs_to_wait_for():
    output = io.StringIO()
    with SweepProgress(sweep(), output) as progress:
        for one in (sweeps_pb2.SweepEvent(sequence=1, state={"state": "SWEEP_RUNNING",
                                                             "same_as": [0, 1, 0]}),
                    sweeps_pb2.SweepEvent(sequence=2, added={"trial": 4, "same_as": 3, "parameters": [
                        {"name": "lr", "value": "0.1"}]})):
            progress.take(sweep_event_from(one))
    assert output.getvalue().splitlines() == [
        "sweep-1: running", "sweep-1: trial 2: same as trial 1",
        "sweep-1: trial 4: lr=0.1; same as trial 3"]


@pytest.mark.parametrize("value, text", [
    (0, "0.0000"), (0.69314, "0.6931"), (4.714e19, "4.714e+19"), (1.2345e-5, "1.234e-05"),
    (float("nan"), "nan")])
def test_losses_of_any_size_have_few_digits(value, text):
    assert figure(value) == text


def test_progress_of_a_sweep_in_a_file_is_lines():
    output = io.StringIO()
    with SweepProgress(sweep(), output) as progress:
        for event in sweep_events():
            progress.take(event)
    assert output.getvalue().splitlines() == SWEEP_LINES


def test_progress_of_a_sweep_in_a_terminal_is_a_bar_of_its_jobs():
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    output = Terminal()
    with SweepProgress(sweep(), output) as progress:
        for event in sweep_events():
            progress.take(event)
    shown = output.getvalue()
    assert all(line in shown for line in SWEEP_LINES)
    assert "sweep-1 jobs" in shown and "2/2" in shown
    assert shown.index("0/2") < shown.index("1/2") < shown.index("2/2")


def test_a_job_that_does_not_train_has_no_frames():
    job = job_from(jobs_pb2.Job(id="verify-1", state="RUNNING",
                                spec={"verify": {"dataset": "papers"}}), Job)
    from hearth import HearthError
    for frame in (job.epochs_frame, job.stages_frame):
        with pytest.raises(HearthError, match="verify-1 is not a train job"):
            frame()
    assert repr(job) == "Job(id='verify-1', kind='verify', state='running', dataset='papers')"
