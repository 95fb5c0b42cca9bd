"""Private daemons and datasets of folders, as far as no hearthd is needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth import private  # noqa: E402
from hearth.private import dataset_name, find_program  # noqa: E402
from hearth.v1 import datasets_pb2, jobs_pb2  # noqa: E402


def make_program(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return str(path)


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Folders of an environment and of PATH, without programs."""
    monkeypatch.delenv("HEARTHD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "scripts"))
    return tmp_path


def test_hearthd_is_that_of_the_environment_before_that_of_the_path(environment, monkeypatch):
    for folder in ("path", "scripts", "venv"):
        program = make_program(environment / folder / "hearthd")
        assert find_program("hearthd") == program
    other = make_program(environment / "other/daemon")
    monkeypatch.setenv("HEARTHD", other)
    assert find_program("hearthd") == other
    monkeypatch.chdir(environment)
    monkeypatch.setenv("HEARTHD", "other/daemon")
    assert find_program("hearthd") == other


def test_without_hearthd_the_error_tells_how_to_get_it(environment, monkeypatch):
    (environment / "path").mkdir()
    (environment / "path/hearthd").write_text("not executable")
    with pytest.raises(hearth.HearthError) as missing:
        find_program("hearthd")
    assert missing.value.code is grpc.StatusCode.NOT_FOUND
    assert "HEARTHD names one" in missing.value.message
    monkeypatch.setenv("HEARTHD", str(environment / "path/hearthd"))
    with pytest.raises(hearth.HearthError, match="HEARTHD names .*path/hearthd, which is no"):
        find_program("hearthd")
    # Not the current folder, where an interpreter does not know its own.
    monkeypatch.delenv("HEARTHD")
    monkeypatch.setattr(sys, "executable", "")
    make_program(environment / "hearthd")
    monkeypatch.chdir(environment)
    with pytest.raises(hearth.HearthError):
        find_program("hearthd")


def test_a_daemon_that_cannot_be_started_leaves_no_descriptors(environment):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with pytest.raises(hearth.HearthError, match="there is no hearthd"):
            hearth.PrivateDaemon(environment / "data")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_data_directory_is_a_short_path_of_this_user(environment, monkeypatch):
    (environment / "link").symlink_to(environment / "elsewhere")
    with pytest.raises(hearth.HearthError, match="link: is not a folder of this user"):
        hearth.PrivateDaemon(environment / "link")
    (environment / "data").mkdir(mode=0o700)
    (environment / "data/hearthd.input").write_text("")
    with pytest.raises(hearth.HearthError, match="hearthd.input: is not a named pipe"):
        hearth.PrivateDaemon(environment / "data")
    with pytest.raises(hearth.InvalidRequest, match="at most 95 bytes") as too_long:
        hearth.PrivateDaemon(environment / ("x" * 100))
    assert too_long.value.field == "data_dir"
    monkeypatch.setenv("TMPDIR", str(environment))
    with pytest.raises(hearth.HearthError, match="there is no hearthd"):
        hearth.PrivateDaemon()
    made = environment / f"hearth-{os.geteuid()}"
    assert made.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "papers"
    (made / "split").mkdir(parents=True)
    (made / "a.npy").write_bytes(b"12")
    (made / "split/b.npy").write_bytes(b"3")
    return made


def test_a_name_is_of_the_source_as_it_is(folder):
    name = dataset_name(folder, {})
    assert name.startswith("papers-") and name == dataset_name(folder, {})
    (folder / ".hidden").write_text("x")
    (folder / ".cache").mkdir()
    (folder / ".cache/x").write_text("x")
    assert dataset_name(folder, {}) == name
    names = {name, dataset_name(folder, {"undirected": True}), dataset_name(folder / "split", {})}
    os.utime(folder / "split/b.npy", ns=(1, 1))
    names.add(dataset_name(folder, {}))
    (folder / "split/b.npy").write_bytes(b"34")
    os.utime(folder / "split/b.npy", ns=(1, 1))
    names.add(dataset_name(folder, {}))
    (folder / "split/b.npy").rename(folder / "b.npy")
    names.add(dataset_name(folder, {}))
    (folder / "link.npy").symlink_to("nowhere")
    names.add(dataset_name(folder, {}))
    names.add(dataset_name(folder.rename(folder.with_name("other")), {}))
    assert len(names) == 8


@pytest.mark.parametrize("file, stem", [
    ("graph.txt.gz", "graph.txt.gz"), ("my graph", "my-graph"), ("..x", "x"), ("ünï", "n"),
    ("-_", "graph"), ("x" * 200, "x" * 100), (os.fsdecode(b"a\xff"), "a")])
def test_a_name_is_one_that_the_daemon_takes(tmp_path, file, stem):
    (tmp_path / file).write_text("0 1\n")
    name = dataset_name(tmp_path / file, {})
    assert name.rpartition("-")[0].rstrip("-") == stem
    assert len(name) <= 128


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(hearth.HearthError, match="no such folder or file") as missing:
        dataset_name(tmp_path / "none", {})
    assert missing.value.code is grpc.StatusCode.NOT_FOUND


class Imports:
    """A daemon that has `datasets`, and makes one of each import that `answer` takes."""

    def __init__(self, daemon):
        self.datasets = []
        self.pending = []
        self.requests = []
        self.answer = lambda spec: None
        daemon.answers.update({
            "ListDatasets": lambda _: datasets_pb2.ListDatasetsResponse(
                datasets=[datasets_pb2.Dataset(name=name) for name in self.datasets]),
            "ListJobs": lambda _: jobs_pb2.ListJobsResponse(jobs=self.pending),
            "GetJob": self.job, "SubmitJob": self.submit,
            "GetDataset": lambda request: datasets_pb2.Dataset(name=request.name)})

    def submit(self, request):
        spec = getattr(request.spec, "import")
        self.requests.append(spec)
        self.answer(spec)
        self.datasets.append(spec.name)
        return jobs_pb2.Job(id="import-1", state="SUCCEEDED", spec=request.spec)

    def job(self, request):
        """The pending job has ended with a dataset, once it is asked for."""
        for job in self.pending:
            self.datasets.append(getattr(job.spec, "import").name)
        self.pending = []
        return jobs_pb2.Job(id=request.id, state="SUCCEEDED")

    def pend(self, name):
        job = jobs_pb2.Job(id="import-7", state="RUNNING")
        getattr(job.spec, "import").name = name
        self.pending.append(job)


@pytest.fixture
def imports(daemon):
    return Imports(daemon)


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def test_a_dataset_is_imported_in_place_once(client, imports, folder):
    name = hearth.dataset_of(client, folder, undirected=True)
    assert hearth.dataset_of(client, folder, undirected=True) == name
    (spec,) = imports.requests
    assert (spec.name, spec.path, spec.in_place) == (name, str(folder), True)
    assert spec.edges.add_reverse


def test_what_cannot_be_used_in_place_is_copied(client, imports, folder):
    def refuse(spec):
        if spec.in_place:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "in Fortran order")
    imports.answer = refuse
    with pytest.raises(hearth.InvalidRequest, match="in Fortran order"):
        hearth.dataset_of(client, folder, in_place=True)
    hearth.dataset_of(client, folder)
    assert [spec.in_place for spec in imports.requests] == [True, True, False]


def test_an_import_of_another_process_is_awaited(client, imports, folder):
    imports.pend(dataset_name(folder, {}))
    imports.pend("another")
    assert hearth.dataset_of(client, folder) in imports.datasets
    assert not imports.requests


@pytest.mark.parametrize("code", ["ALREADY_EXISTS", "FAILED_PRECONDITION"])
def test_an_import_that_another_process_submits_meanwhile_is_awaited(client, imports, folder,
                                                                     code):
    def refuse(spec):
        if len(imports.requests) == 2:
            imports.pend(spec.name)
        raise Refusal(grpc.StatusCode[code], "is being made")
    imports.answer = refuse
    assert hearth.dataset_of(client, folder) in imports.datasets
    assert len(imports.requests) == 2


def test_refusals_that_stay_are_told(client, imports, folder, monkeypatch):
    monkeypatch.setattr(private, "_POLL_SECONDS", 0)
    def refuse(spec):
        raise Refusal(imports.code, "for a reason")
    imports.answer = refuse
    for code, times in ((grpc.StatusCode.FAILED_PRECONDITION, 10),
                        (grpc.StatusCode.PERMISSION_DENIED, 1)):
        imports.code = code
        imports.requests.clear()
        with pytest.raises(hearth.HearthError, match="for a reason"):
            hearth.dataset_of(client, folder)
        assert len(imports.requests) == times
