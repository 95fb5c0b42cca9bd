"""Results made of the daemon's answers: datasets, plans, reports of every kind, logs."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402
from google.protobuf.empty_pb2 import Empty  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth.jobs import Logged  # noqa: E402
from hearth.v1 import admin_pb2, datasets_pb2, jobs_pb2, plans_pb2, spec_pb2  # noqa: E402

PAPERS = datasets_pb2.Dataset(
    name="papers", fingerprint="f00d", size_bytes=9, warnings=["odd"], node_types=[
        {"name": "paper", "num_nodes": 7, "feature_dim": 3, "feature_dtype": "float16",
         "label_kind": "MULTI_LABEL", "label_width": 2, "num_train": 4},
        {"name": "author", "num_nodes": 5}], edge_types=[
        {"name": "author:writes:paper", "source_type": "author", "destination_type": "paper",
         "num_edges": 11}])


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


@pytest.fixture
def jobs_end(daemon):
    """Jobs succeed at once, with these reports."""
    reports = {}

    def submit(request):
        kind = request.spec.WhichOneof("kind")
        return jobs_pb2.Job(id=f"{kind}-1", state="SUCCEEDED", spec=request.spec,
                            report=reports.get(kind))

    submitted = []

    def get(_):
        return submit(submitted[-1])

    def answer(request):
        submitted.append(request)
        return submit(request)

    daemon.answers.update(SubmitJob=answer, GetJob=get, GetDataset=lambda _: PAPERS)
    return reports, submitted


def test_a_dataset(daemon, client):
    daemon.answers.update(GetDataset=lambda _: PAPERS, DeleteDataset=lambda _: Empty(),
                          ListDatasets=lambda _: datasets_pb2.ListDatasetsResponse(
                              datasets=[PAPERS]))
    (dataset,) = client.datasets()
    assert dataset == client.dataset("papers") == dataset.refresh()
    assert (dataset.num_nodes, dataset.num_edges, dataset.warnings) == (12, 11, ("odd",))
    paper, author = dataset.node_types
    assert (paper.label_kind, author.label_kind) == ("multi-label", "")
    assert dataset.edge_types[0].source_type == "author"
    dataset.delete()
    assert daemon.requests[-1].name == "papers" and len(daemon.requests[-1].request_id) == 36


def test_a_copy_has_no_client(daemon, client):
    daemon.answers["GetDataset"] = lambda _: PAPERS
    copied = pickle.loads(pickle.dumps(client.dataset("papers")))
    assert copied == client.dataset("papers")
    with pytest.raises(hearth.HearthError, match="papers is a copy without a client") as refused:
        copied.delete()
    assert refused.value.code == grpc.StatusCode.FAILED_PRECONDITION


def test_imports_exports_and_checks_are_jobs(client, jobs_end, tmp_path):
    reports, submitted = jobs_end
    reports.update(export_dataset={"export": {"path": "/out"}},
                   verify={"verify": {"files": 3, "bytes": 7}})
    made = client.import_dataset("papers", tmp_path / "raw", undirected=True, priority=3)
    assert made.name == "papers"
    assert submitted[-1].priority == 3
    assert getattr(submitted[-1].spec, "import").path == str(tmp_path / "raw")
    assert client.copy_dataset("papers", "host-b").name == "papers"
    assert getattr(submitted[-1].spec, "import") == spec_pb2.ImportSpec(name="papers",
                                                                        from_member="host-b")
    client.copy_dataset("papers", "host-b", share="own")
    assert getattr(submitted[-1].spec, "import").share == "own"
    assert client.generate_dataset("papers", nodes=10, edges=20).num_nodes == 12
    assert submitted[-1].spec.generate.num_edges == 20
    assert made.export(tmp_path / "out", "graphbolt") == "/out"
    assert submitted[-1].spec.export_dataset.destination == str(tmp_path / "out")
    report = made.verify()
    assert (report.files, report.bytes) == (3, 7)


def test_forecasts_and_plans(client, jobs_end):
    reports, submitted = jobs_end
    reports.update(
        explain={"explain": {"memory_bytes": 5, "memory": [{"owner": "cache", "bytes": 5}],
                             "rows_needed": 9, "notes": ["small"]}},
        prepare={"prepare": {"preparation": {"plan": "abc", "reused": True}}})
    forecast = client.explain(dataset="papers", strategy="ginex")
    assert (forecast.memory, forecast.notes) == ({"cache": 5}, ("small",))
    assert forecast.bytes_read is None
    prepared = client.prepare({"dataset": "papers"}, strategy="ginex")
    assert prepared.preparation.plan == "abc" and prepared.partition is None
    job = client.submit("explain", dataset="papers")
    assert (job.kind, job.dataset, job.model) == ("explain", "papers", "")
    assert submitted[-1].spec.explain.train.data.dataset == "papers"


def test_a_job_that_fails_says_why(daemon, client):
    failed = jobs_pb2.Job(id="import-1", state="FAILED", spec={"import": {"name": "papers"}},
                          error={"code": 3, "message": "/raw: no such folder"})
    daemon.answers["SubmitJob"] = daemon.answers["GetJob"] = lambda _: failed
    with pytest.raises(hearth.JobFailed, match="import-1: /raw: no such folder"):
        client.import_dataset("papers", "/raw")
    daemon.answers["SubmitJob"] = refuse
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.import_dataset("papers", "/raw")
    assert refused.value.field == "source"


def refuse(_):
    raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "bad", [("import.path", "must be absolute")])


def test_jobs_are_found_by_what_they_are_of(daemon, client):
    daemon.answers["ListJobs"] = lambda _: jobs_pb2.ListJobsResponse(jobs=[
        jobs_pb2.Job(id="train-1", state="RUNNING", sweep="sweep-1",
                     spec={"train": {"data": {"dataset": "papers"}}}),
        jobs_pb2.Job(id="verify-2", state="RUNNING", spec={"verify": {"dataset": "papers"}}),
        jobs_pb2.Job(id="import-3", state="RUNNING", spec={"import": {"name": "other"}})])
    assert [job.id for job in client.jobs("running", dataset="papers")] == ["train-1", "verify-2"]
    assert [job.id for job in client.jobs(kind="import")] == ["import-3"]
    assert [job.id for job in client.jobs(sweep="sweep-1")] == ["train-1"]
    assert list(daemon.requests[0].states) == [jobs_pb2.RUNNING]
    with pytest.raises(hearth.InvalidRequest, match='"runing" is not one of queued'):
        client.jobs("runing")


def test_logs(daemon, client):
    events = [jobs_pb2.JobEvent(sequence=1, state={"state": "RUNNING"}),
              jobs_pb2.JobEvent(sequence=2, progress={"phase": "training"}),
              jobs_pb2.JobEvent(sequence=3, log={"severity": "INFO", "text": "hot rows"})]

    def watch(_):
        yield from events
        raise AssertionError("the log so far has an end")

    daemon.answers.update(
        GetJob=lambda _: jobs_pb2.Job(id="train-1", state="RUNNING", last_sequence=3),
        WatchJob=watch, TailJob=lambda request: jobs_pb2.TailJobResponse(
            events=events[-request.count:]))
    assert [event.sequence for event in client.logs("train-1")] == [1, 3]
    (line,) = client.job("train-1").logs(tail=1)
    assert isinstance(line, Logged) and str(line) == "hot rows"
    with pytest.raises(hearth.InvalidRequest) as refused:
        client.logs("train-1", tail=2000)
    assert refused.value.field == "tail"


def test_uploads(daemon, client):
    half = datasets_pb2.Upload(id="upload-1", name="papers", owner="token:ann", num_files=3,
                               received_bytes=5, size_bytes=10)
    half.expire_time.FromSeconds(1_700_000_000)
    used = datasets_pb2.Upload(id="upload-2", name="wiki", job_id="import-7")
    daemon.answers.update(
        ListUploads=lambda _: datasets_pb2.ListUploadsResponse(uploads=[half, used]),
        DeleteUpload=lambda _: Empty())
    first, second = client.uploads()
    assert (first.id, first.name, first.owner, first.num_files) == (
        "upload-1", "papers", "token:ann", 3)
    assert (first.received_bytes, first.size_bytes, first.expire_time.year) == (5, 10, 2023)
    assert (second.job_id, second.expire_time) == ("import-7", None)
    client.delete_upload("upload-1")
    assert daemon.requests[-1].id == "upload-1" and daemon.requests[-1].request_id


def test_plans(daemon, client):
    plan = plans_pb2.Plan(name="abc", strategy="ginex", state="WHOLE", datasets=["papers"],
                          properties=[{"name": "batches", "value": "410"}])
    daemon.answers.update(ListPlans=lambda _: plans_pb2.ListPlansResponse(plans=[plan]),
                          GetPlan=lambda _: plan, DeletePlan=lambda _: Empty())
    assert client.plans() == (client.plan("abc"),)
    assert client.plan("abc").properties == {"batches": "410"}
    assert client.plan("abc").state == "whole"
    client.delete_plan("abc")
    assert daemon.requests[-1].name == "abc"


def test_members_of_a_cluster(daemon, client):
    daemon.answers.update(ListMembers=lambda _: admin_pb2.ListMembersResponse(members=[
        {"name": "host-a", "address": "192.0.2.1:7610", "round_trip_seconds": 0.5, "state": {
            "version": "1", "datasets": [{"name": "papers", "fingerprint": "f00d"}]}},
        {"name": "host-b", "error": "connection refused"}]))
    here, away = client.members()
    assert (here.name, here.version, here.datasets) == ("host-a", "1", {"papers": "f00d"})
    assert here.error == "" and here.round_trip_seconds == 0.5
    assert (away.error, away.version, away.datasets) == ("connection refused", "", {})


def test_a_rank_is_adopted(daemon, client):
    daemon.answers.update(AdoptJob=lambda request: jobs_pb2.Job(id="train-7", state="QUEUED"))
    assert client.adopt("rank-12").id == "train-7"
    assert daemon.requests[-1].id == "rank-12"


def test_the_daemon(daemon, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    token = {"name": "ann", "role": "USER"}
    daemon.answers.update(
        GetStatus=lambda _: admin_pb2.Status(version="1", datasets=2, caller_role="OPERATOR"),
        SetDraining=lambda request: admin_pb2.Status(draining=request.draining),
        Backup=lambda request: admin_pb2.BackupReport(path=request.destination),
        ListTokens=lambda _: admin_pb2.ListTokensResponse(tokens=[token]),
        CreateToken=lambda _: admin_pb2.NewToken(token=token, secret="hearth_1"),
        RevokeToken=lambda _: admin_pb2.Token(**token))
    assert (client.status().datasets, client.status().caller_role) == (2, "operator")
    assert client.drain().draining and not client.drain(False).draining
    assert client.backup("copy") == str(tmp_path / "copy")
    assert client.tokens()[0].role == "user"
    assert client.create_token("ann", "viewer") == "hearth_1"
    assert daemon.requests[-1].role == 1
    assert client.revoke_token("ann").expire_time is None
    with pytest.raises(hearth.InvalidRequest, match="viewer, user, operator"):
        client.create_token("ann", "boss")
