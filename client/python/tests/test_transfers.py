"""Downloads and uploads through breaks, and changes of files meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import threading

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402

import hearth  # noqa: E402
from fake_daemon import Refusal  # noqa: E402
from hearth import transfers  # noqa: E402
from hearth.v1 import datasets_pb2, jobs_pb2  # noqa: E402

MODEL = bytes(range(256)) * 10
UNAVAILABLE = Refusal(grpc.StatusCode.UNAVAILABLE, "going down")


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def sent(request, data=MODEL, piece=100, until=None):
    """Messages of the daemon, which break after `until` bytes."""
    yield jobs_pb2.ModelChunk(model=jobs_pb2.Model(
        size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), config="{}"))
    for at in range(request.offset, len(data), piece):
        if until is not None and at >= until:
            raise UNAVAILABLE
        yield jobs_pb2.ModelChunk(data=data[at:at + piece])


def model_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


WHOLE = {"model.safetensors": MODEL, "config.json": b"{}"}


def test_a_download(daemon, client, tmp_path):
    daemon.answers["DownloadModel"] = sent
    seen = []
    path = client.download_model("train-1", str(tmp_path / "model"),
                                 on_progress=lambda done, total: seen.append((done, total)))
    assert path == str(tmp_path / "model")
    assert model_in(tmp_path / "model") == WHOLE
    assert seen[-1] == (len(MODEL), len(MODEL)) and not (tmp_path / "model.part").exists()


def test_a_broken_download_goes_on(daemon, client, tmp_path):
    breaks = [500, 700, None]
    daemon.answers["DownloadModel"] = lambda request: sent(request, until=breaks.pop(0))
    client.download_model("train-1", str(tmp_path / "model"))
    assert [request.offset for request in daemon.requests] == [0, 500, 700]
    assert {request.sha256 for request in daemon.requests[1:]} == {
        hashlib.sha256(MODEL).hexdigest()}
    assert model_in(tmp_path / "model") == WHOLE


def test_another_program_goes_on(daemon, client, tmp_path):
    daemon.answers["DownloadModel"] = lambda request: sent(request, until=500)
    with hearth.Client(daemon.address, watch_patience=0) as hasty:
        with pytest.raises(hearth.Unavailable):
            hasty.download_model("train-1", str(tmp_path / "model"))
    daemon.answers["DownloadModel"] = sent
    client.download_model("train-1", str(tmp_path / "model"))
    assert daemon.requests[-1].offset == 500
    assert model_in(tmp_path / "model") == WHOLE


def test_a_model_that_changes_is_begun_anew(daemon, client, tmp_path):
    def answer(request):
        if request.offset:
            raise Refusal(grpc.StatusCode.ABORTED, "another model now")
        return sent(request, until=500 if len(daemon.requests) == 1 else None)

    daemon.answers["DownloadModel"] = answer
    client.download_model("train-1", str(tmp_path / "model"))
    assert [request.offset for request in daemon.requests] == [0, 500, 0]
    assert model_in(tmp_path / "model") == WHOLE


def test_a_damaged_part_is_found(daemon, client, tmp_path):
    part = tmp_path / "model.part"
    part.mkdir()
    (part / "sha256").write_text(hashlib.sha256(MODEL).hexdigest())
    (part / "model.safetensors").write_bytes(b"x" * 500)
    daemon.answers["DownloadModel"] = sent
    with pytest.raises(hearth.HearthError, match="SHA-256"):
        client.download_model("train-1", str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
    client.download_model("train-1", str(tmp_path / "model"))
    assert model_in(tmp_path / "model") == WHOLE


def test_what_is_there_stays(daemon, client, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/notes").write_bytes(b"mine")
    daemon.answers["DownloadModel"] = sent
    with pytest.raises(FileExistsError):
        client.download_model("train-1", str(tmp_path / "model"))
    assert not daemon.requests
    client.download_model("train-1", str(tmp_path / "model"), replace=True)
    assert model_in(tmp_path / "model") == {**WHOLE, "notes": b"mine"}


class Taker:
    """The daemon's side of an upload; breaks when it has had `breaks` bytes, once each."""

    def __init__(self, daemon, *breaks):
        self.announced = None
        self.data = bytearray()
        self.spec = None
        self._breaks = list(breaks)
        daemon.answers["BeginUpload"] = self._begin
        daemon.answers["SendUpload"] = self._send
        daemon.answers["SubmitJob"] = self._submit
        daemon.answers["GetJob"] = lambda _: self._job()

    def _begin(self, request):
        self.announced = request
        return self._upload()

    def _upload(self):
        return datasets_pb2.Upload(
            id="upload-1", received_bytes=len(self.data),
            size_bytes=sum(file.size_bytes for file in self.announced.files))

    def _send(self, chunks):
        for chunk in chunks:
            assert chunk.offset == len(self.data)
            self.data += chunk.data
            if self._breaks and len(self.data) >= self._breaks[0]:
                self._breaks.pop(0)
                raise UNAVAILABLE
        return self._upload()

    def _submit(self, request):
        self.spec = getattr(request.spec, "import")
        return self._job()

    def _job(self):
        return jobs_pb2.Job(id="import-1", state="SUCCEEDED")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "source/deep").mkdir(parents=True)
    (tmp_path / "source/b").write_bytes(b"b" * 1_200_000)
    (tmp_path / "source/deep/a").write_bytes(b"a" * 10)
    (tmp_path / "source/z").write_bytes(b"")
    return tmp_path / "source"


def test_an_upload(daemon, client, folder):
    taker = Taker(daemon)
    assert client.upload("cora", str(folder), format="edge-list", undirected=True,
                         self_loops="add").id == "import-1"
    assert [(file.path, file.size_bytes) for file in taker.announced.files] == [
        ("b", 1_200_000), ("deep/a", 10), ("z", 0)]
    assert taker.announced.files[1].sha256 == hashlib.sha256(b"a" * 10).hexdigest()
    assert taker.data == b"b" * 1_200_000 + b"a" * 10
    assert (taker.spec.upload, taker.spec.path, taker.spec.name) == ("upload-1", "", "cora")
    assert taker.spec.edges.add_reverse


def test_other_calls_go_on_while_files_are_read(daemon, folder, monkeypatch):
    Taker(daemon)
    other_ran = threading.Event()
    waited = []
    read = transfers._UploadFiles

    def read_later(*arguments):
        waited.append(other_ran.wait(30))
        return read(*arguments)

    monkeypatch.setattr(transfers, "_UploadFiles", read_later)

    async def other():
        other_ran.set()

    async def program():
        async with hearth.AsyncClient(daemon.address) as made:
            await asyncio.gather(made.upload("cora", str(folder)), other())

    asyncio.run(program())
    assert waited == [True]


def test_a_broken_upload_goes_on(daemon, client, folder):
    taker = Taker(daemon, 1, 1_200_000)
    seen = []
    client.upload("cora", str(folder), on_progress=lambda done, total: seen.append(done))
    assert taker.data == b"b" * 1_200_000 + b"a" * 10
    assert max(seen) == 1_200_010


def test_a_daemon_that_is_away_is_waited_for(daemon, folder):
    taker = Taker(daemon)
    begin, refusals = daemon.answers["BeginUpload"], [UNAVAILABLE, UNAVAILABLE]

    def answer(request):
        if refusals:
            raise refusals.pop()
        return begin(request)

    daemon.answers["BeginUpload"] = answer
    # Calls have no patience here; transfers have.
    with hearth.Client(daemon.address, patience=0) as hasty:
        hasty.upload("cora", str(folder))
    assert taker.data == b"b" * 1_200_000 + b"a" * 10


def test_one_file(daemon, client, folder):
    taker = Taker(daemon)
    client.upload("cora", str(folder / "deep/a"))
    assert taker.announced.is_file and taker.announced.files[0].path == "a"


def test_wrong_words_are_told_before_anything_is_sent(daemon, client, folder):
    for option in ({"format": "pickle"}, {"self_loops": "FORMAT_UNSPECIFIED"},
                   {"labels": "many"}):
        with pytest.raises(hearth.InvalidRequest) as wrong:
            client.upload("cora", str(folder), **option)
        assert wrong.value.field == next(iter(option))
    assert not daemon.requests


def test_what_is_no_file_is_named(client, folder):
    (folder / "link").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="link"):
        client.upload("cora", str(folder))
    with pytest.raises(FileNotFoundError, match="none"):
        client.upload("cora", str(folder / "none"))
