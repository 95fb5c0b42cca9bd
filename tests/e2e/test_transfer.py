"""Models that are downloaded and graphs that are uploaded, through kills of either side."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterator

import pytest

from daemon import PATIENCE_SECONDS, Daemon, wait_for
from graphs import planted_graph
from jobs import QUICK
from memory_disk import mounted
from test_access import Guarded

pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import grpc  # noqa: E402

import floods  # noqa: E402
import hearth  # noqa: E402
from hearth.blocking import run  # noqa: E402
from hearth.v1 import datasets_pb2, jobs_pb2  # noqa: E402

_ROOT = Path(__file__).parents[2]
# A model of some 50 MB, of which no buffer on the way holds the half. So large a one takes long
# to train: it sees few nodes.
_LARGE = (*QUICK[:-2], "--dataset", "small", "--fanouts", "2,2,2", "--hidden", "2048",
          "--epochs", "1", "--skip-test", "true")


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory) -> Path:
    return planted_graph(num_nodes=100).write(tmp_path_factory.mktemp("small") / "graph")


@pytest.fixture(scope="module")
def trained(daemon, small_folder) -> str:
    daemon.import_graph("small", small_folder)
    return daemon.json(*_LARGE)["id"]


@pytest.fixture(scope="module")
def exported(daemon, trained, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "model"
    daemon.json("export", trained, "--to", str(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Downloads.

def test_a_download_is_an_export(daemon, trained, exported, tmp_path):
    folder = tmp_path / "model"
    assert daemon.json("job", "download", trained, "--to", str(folder)) == {
        "job": trained, "path": str(folder)}
    assert contents(folder) == contents(exported)
    refused = daemon.hearth("job", "download", trained, "--to", str(folder), code=1)
    assert "--force" in refused.err
    (folder / "model.safetensors").write_text("old")
    (folder / "notes").write_text("mine")
    assert str(folder) in daemon.hearth("job", "download", trained, "--to", str(folder),
                                        "--force").out
    assert contents(folder) == {**contents(exported), "notes": b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def killed_at(daemon, size: int, *arguments: str) -> None:
    """Runs a client that the kernel ends when a file of its becomes larger than `size`."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # noqa: E731
    ended = subprocess.run(daemon.command(*arguments), preexec_fn=limit, capture_output=True,
                           check=False)
    assert ended.returncode == -signal.SIGXFSZ


def test_a_killed_client_goes_on_where_it_was(daemon, trained, exported, tmp_path):
    command = ("job", "download", trained, "--to", str(tmp_path / "model"))
    part = tmp_path / "model.part/model.safetensors"
    killed_at(daemon, 8 << 20, *command)
    assert part.stat().st_size == 8 << 20
    # A part that is there is not sent again: a wrong byte of it stays, and is found.
    with open(part, "r+b") as file:
        file.write(b"\xff")
    assert "SHA-256" in daemon.hearth(*command, code=1).err
    assert not (tmp_path / "model").exists()
    killed_at(daemon, 8 << 20, *command)
    daemon.hearth(*command)
    assert contents(tmp_path / "model") == contents(exported)


@pytest.fixture
def own_daemon(start_daemon, graph_folder, small_folder) -> Daemon:
    daemon = start_daemon()
    daemon.import_graph("planted", graph_folder)
    daemon.import_graph("small", small_folder)
    return daemon


class KillAtHalf:
    """Kills the daemon with half of the bytes done, and starts it again."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.was_killed = False

    def __call__(self, done: int, total: int) -> None:
        assert done <= total
        if not self.was_killed and done >= total // 2:
            self.was_killed = True
            self.daemon.kill()
            self.daemon.start()


def test_a_download_outlives_a_kill_of_the_daemon(own_daemon, tmp_path):
    job = own_daemon.json(*_LARGE)["id"]
    own_daemon.json("export", job, "--to", str(tmp_path / "exported"))
    kill = KillAtHalf(own_daemon)
    with hearth.Client(own_daemon.address) as client:
        path = client.download_model(job, str(tmp_path / "model"), on_progress=kill)
        assert kill.was_killed
        assert contents(Path(path)) == contents(tmp_path / "exported")
        with pytest.raises(FileExistsError):
            client.download_model(job, path)
        client.download_model(job, path, replace=True)
        with pytest.raises(hearth.NotFound):
            client.download_model("train-99", str(tmp_path / "none"))


def has_grown(path: Path) -> bool:
    try:
        return path.stat().st_size > 4 << 20
    except OSError:
        return False


def test_the_command_line_outlives_a_kill_of_the_daemon(own_daemon, other_folder, tmp_path):
    """Where the kill comes too late, nothing is left to go on with: that must do no harm."""
    def killed(client: subprocess.Popen, file: Callable[[], Iterator[Path]]) -> None:
        wait_for(lambda: client.poll() is not None or any(map(has_grown, file())),
                 "bytes to come", poll_seconds=0.001)
        own_daemon.kill()
        own_daemon.start()
        out, err = client.communicate(timeout=PATIENCE_SECONDS)
        assert client.returncode == 0, out + err

    flags = ("--source", str(other_folder), "--format", "numpy")
    killed(own_daemon.begin("dataset", "upload", "sent", *flags),
           lambda: (own_daemon.data_dir / "uploads").glob("*/incoming"))
    nothing_staged(own_daemon)
    check_contents(own_daemon, "sent", *flags)
    job = own_daemon.json(*_LARGE)["id"]
    own_daemon.json("export", job, "--to", str(tmp_path / "exported"))
    killed(own_daemon.begin("job", "download", job, "--to", str(tmp_path / "model")),
           lambda: tmp_path.glob("model.part/model.safetensors"))
    assert contents(tmp_path / "model") == contents(tmp_path / "exported")


@pytest.mark.parametrize("damage", [
    lambda file: file.truncate(1000), lambda file: file.write(b"\xff" * 8),
    lambda file: file.truncate(0)], ids=["cut", "header", "empty"])
def test_a_damaged_model_is_named(own_daemon, tmp_path, damage):
    job = own_daemon.json(*QUICK)["id"]
    path = own_daemon.data_dir / "jobs" / job / "model/model.safetensors"
    with open(path, "r+b") as file:
        damage(file)
    refused = own_daemon.hearth("job", "download", job, "--to", str(tmp_path / "model"), code=1)
    assert str(path) in refused.err
    with hearth.Client(own_daemon.address) as client:
        with pytest.raises(hearth.HearthError) as damaged:
            client.download_model(job, str(tmp_path / "model"))
        assert damaged.value.code is grpc.StatusCode.DATA_LOSS
    assert not (tmp_path / "model").exists()


def stream(daemon: Daemon, channel: grpc.Channel, **request) -> Iterator[jobs_pb2.ModelChunk]:
    return channel.unary_stream(
        "/hearth.v1.Jobs/DownloadModel",
        request_serializer=jobs_pb2.DownloadModelRequest.SerializeToString,
        response_deserializer=jobs_pb2.ModelChunk.FromString)(
            jobs_pb2.DownloadModelRequest(**request), timeout=60)


def test_only_the_same_model_goes_on(daemon, trained, exported):
    data = (exported / "model.safetensors").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    with grpc.insecure_channel(daemon.address) as channel:
        model, *chunks = stream(daemon, channel, job_id=trained, offset=1000, sha256=digest)
        assert (model.model.size_bytes, model.model.sha256) == (len(data), digest)
        assert b"".join(chunk.data for chunk in chunks) == data[1000:]
        assert max(len(chunk.data) for chunk in chunks) <= 1 << 20
        assert len(list(stream(daemon, channel, job_id=trained, offset=len(data),
                               sha256=digest))) == 1
        for code, request in {
                "ABORTED": {"offset": 1000, "sha256": "0" * 64},
                "INVALID_ARGUMENT": {"offset": len(data) + 1, "sha256": digest},
        }.items():
            with pytest.raises(grpc.RpcError) as refused:
                list(stream(daemon, channel, job_id=trained, **request))
            assert refused.value.code().name == code
        with pytest.raises(grpc.RpcError) as refused:
            list(stream(daemon, channel, job_id=trained, offset=1))
        assert "sha256" in refused.value.details()


def test_a_client_that_does_not_read_holds_no_more_than_the_file(daemon, trained):
    def opened() -> bool:
        return any(path.endswith("model.safetensors") for path in daemon.descriptors())

    before = daemon.resident_bytes()
    with grpc.insecure_channel(daemon.address) as channel:
        calls = [stream(daemon, channel, job_id=trained) for _ in range(16)]
        for call in calls:
            next(call)
        wait_for(opened, "the downloads to begin")
        # One caller may have no more.
        with pytest.raises(grpc.RpcError) as refused:
            next(stream(daemon, channel, job_id=trained))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        # The models together have 0.8 GB.
        assert daemon.resident_bytes() - before < 200 << 20
        daemon.hearth("status")
        for call in calls:
            call.cancel()
    wait_for(lambda: not opened(), "the downloads to end")


def test_only_a_job_with_a_model_is_downloaded(daemon, tmp_path):
    imported = next(job["id"] for job in daemon.json("job", "list")["jobs"]
                    if job["spec"]["import"])
    for job in ("train-999", imported, "../../etc"):
        refused = daemon.hearth("job", "download", job, "--to", str(tmp_path / "x"), code=1)
        assert job in refused.err
    assert not list(tmp_path.iterdir())


def test_a_client_that_pings_at_data_downloads_unharmed(daemon, trained, exported, tell):
    client = floods.MeasuringClient(daemon.address, b"/hearth.v1.Jobs/DownloadModel", 2048)
    chunks = [jobs_pb2.ModelChunk.FromString(message)
              for message in client.call(jobs_pb2.DownloadModelRequest(job_id=trained))]
    model = b"".join(chunk.data for chunk in chunks)
    assert model == (exported / "model.safetensors").read_bytes()
    assert hashlib.sha256(model).hexdigest() == chunks[0].model.sha256
    tell(f"{client.pings} PINGs")


# Uploads.

def staged(daemon: Daemon) -> list[Path]:
    return list((daemon.data_dir / "uploads").iterdir())


def nothing_staged(daemon: Daemon) -> None:
    wait_for(lambda: not staged(daemon), "the staged files to go")


def check_contents(daemon: Daemon, name: str, *flags: str) -> None:
    """A dataset that was uploaded is the one that an import of `flags` makes. It has to have the
    same name: checksums are seeded with it."""
    def fingerprint() -> str:
        return daemon.json("dataset", "show", name)["fingerprint"]

    uploaded = fingerprint()
    daemon.hearth("dataset", "delete", name)
    daemon.json("dataset", "import", name, *flags)
    assert fingerprint() == uploaded


def test_an_upload_is_an_import(daemon, graph_folder):
    flags = ("--source", str(graph_folder), "--format", "numpy")
    job = daemon.json("dataset", "upload", "sent", *flags)
    assert job["state"] == "SUCCEEDED" and job["spec"]["import"]["path"] == ""
    nothing_staged(daemon)
    check_contents(daemon, "sent", *flags)
    refused = daemon.hearth("dataset", "upload", "sent", "--source", str(graph_folder), code=1)
    assert "sent" in refused.err
    assert job["spec"]["import"]["upload"] in daemon.hearth("job", "show", job["id"]).out
    # The job was not interrupted, and what it read is gone.
    daemon.hearth("job", "resume", job["id"], code=1)


def test_a_planetoid_graph_is_uploaded(daemon, tmp_path):
    raw = os.environ.get("HEARTH_PLANETOID_RAW", "")
    if not (Path(raw) / "ind.cora.graph").exists():
        pytest.skip("HEARTH_PLANETOID_RAW does not name a folder with ind.cora.*")
    folder = tmp_path / "cora"
    subprocess.run([sys.executable, "-m", "hearth.datasets.planetoid", "--raw", raw, "--name",
                    "cora", "--output", str(folder), "--normalize-features"], check=True,
                   env={**os.environ, "PYTHONPATH": str(_ROOT / "client/python")})
    daemon.json("dataset", "upload", "cora", "--source", str(folder))
    check_contents(daemon, "cora", "--source", str(folder))


def test_one_file_is_uploaded(daemon, tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("7 8\n8 9\n9 7\n")
    flags = ("--source", str(edges), "--format", "edge-list", "--relabel")
    daemon.json("dataset", "upload", "edges", *flags)
    check_contents(daemon, "edges", *flags)
    with hearth.Client(daemon.address) as client:
        client.upload("edges-python", str(edges), format="edge-list", relabel=True)
    check_contents(daemon, "edges-python", *flags)


def test_an_upload_outlives_a_kill_of_the_daemon(own_daemon, other_folder):
    kill = KillAtHalf(own_daemon)
    with hearth.Client(own_daemon.address) as client:
        job = client.upload("sent", str(other_folder), format="numpy", on_progress=kill)
    assert kill.was_killed and job.state.name == "SUCCEEDED"
    nothing_staged(own_daemon)
    check_contents(own_daemon, "sent", "--source", str(other_folder))


def announcement(folder: Path, name: str) -> datasets_pb2.BeginUploadRequest:
    request = datasets_pb2.BeginUploadRequest(name=name)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        request.files.add(path=path.name, size_bytes=len(data),
                          sha256=hashlib.sha256(data).hexdigest())
    return request


class Sender:
    """The calls of an upload, one by one."""

    def __init__(self, daemon: Daemon, token: str = "") -> None:
        self._channel = grpc.insecure_channel(daemon.address)
        self._metadata = [("authorization", f"Bearer {token}")] if token else []

    def begin(self, request: datasets_pb2.BeginUploadRequest) -> datasets_pb2.Upload:
        return self._channel.unary_unary(
            "/hearth.v1.Datasets/BeginUpload",
            request_serializer=datasets_pb2.BeginUploadRequest.SerializeToString,
            response_deserializer=datasets_pb2.Upload.FromString)(
                request, metadata=self._metadata, timeout=60)

    def send(self, id: str, offset: int, data: bytes) -> datasets_pb2.Upload:
        step = 512 << 10
        return self.send_chunks(
            datasets_pb2.UploadChunk(id=id, offset=offset + at, data=data[at:at + step])
            for at in range(0, max(1, len(data)), step))

    def send_chunks(self, chunks: Iterator[datasets_pb2.UploadChunk]) -> datasets_pb2.Upload:
        return self._channel.stream_unary(
            "/hearth.v1.Datasets/SendUpload",
            request_serializer=datasets_pb2.UploadChunk.SerializeToString,
            response_deserializer=datasets_pb2.Upload.FromString)(
                chunks, metadata=self._metadata, timeout=60)


def test_what_a_client_left_is_gone_on_with(own_daemon, other_folder):
    request = announcement(other_folder, "sent")
    everything = b"".join((other_folder / file.path).read_bytes() for file in request.files)
    sender = Sender(own_daemon)
    upload = sender.begin(request)
    assert upload.size_bytes == len(everything)
    assert sender.send(upload.id, 0, everything[:9_999_999]).received_bytes == 9_999_999
    own_daemon.kill()
    own_daemon.start()
    assert sender.begin(request).received_bytes == 9_999_999
    with pytest.raises(grpc.RpcError) as refused:
        sender.send(upload.id, 10_000_000, b"x")
    assert refused.value.code() == grpc.StatusCode.OUT_OF_RANGE
    job = own_daemon.json("dataset", "upload", "sent", "--source", str(other_folder))
    assert job["spec"]["import"]["upload"] == upload.id
    check_contents(own_daemon, "sent", "--source", str(other_folder))


def test_a_failed_import_removes_what_came(daemon, tmp_path):
    (tmp_path / "notes.txt").write_text("no graph")
    failed = daemon.hearth("dataset", "upload", "nothing", "--source", str(tmp_path), code=1)
    assert "INVALID_ARGUMENT" in failed.err
    nothing_staged(daemon)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ".", "", "a//b", "a\n"])
def test_files_stay_below_their_folder(daemon, path):
    request = datasets_pb2.BeginUploadRequest(name="far")
    request.files.add(path=path, size_bytes=1, sha256="0" * 64)
    with pytest.raises(grpc.RpcError) as refused:
        Sender(daemon).begin(request)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "files[0].path" in refused.value.details()
    assert not staged(daemon)


def test_bytes_must_be_those_announced(start_daemon, graph_folder):
    daemon = start_daemon()
    request = announcement(graph_folder, "sent")
    sender = Sender(daemon)
    upload = sender.begin(request)
    for code, data in {"ABORTED": bytes(request.files[0].size_bytes),
                       "OUT_OF_RANGE": bytes(upload.size_bytes + 1)}.items():
        with pytest.raises(grpc.RpcError) as refused:
            sender.send(upload.id, 0, data)
        assert refused.value.code().name in (code, "ABORTED")
    assert sender.begin(request).received_bytes == 0


def test_the_limit_is_kept(start_daemon, graph_folder):
    small = start_daemon("--upload-limit", "100KiB")
    refused = small.hearth("dataset", "upload", "sent", "--source", str(graph_folder), code=1)
    assert "--upload-limit" in refused.err
    assert not staged(small)
    none = start_daemon("--upload-limit", "0")
    refused = none.hearth("dataset", "upload", "sent", "--source", str(graph_folder), code=1)
    assert "takes no uploads" in refused.err


def test_a_disk_that_is_too_small_says_so(other_folder, tmp_path):
    with mounted(tmp_path / "disk", 24 << 20) as disk:
        daemon = Daemon(disk / "data", elsewhere=tmp_path)
        try:
            refused = daemon.hearth("dataset", "upload", "sent", "--source", str(other_folder),
                                    code=1)
            assert "are free on the daemon's disk" in refused.err
            assert not staged(daemon)
            daemon.hearth("status")
        finally:
            daemon.kill()


def test_an_abandoned_upload_goes(start_daemon, graph_folder):
    daemon = start_daemon("--upload-patience", "1s")
    Sender(daemon).begin(announcement(graph_folder, "sent"))
    nothing_staged(daemon)


def test_uploads_are_listed_and_deleted(own_daemon, other_folder, graph_folder):
    sender = Sender(own_daemon)
    half = sender.begin(announcement(other_folder, "sent"))
    first = (other_folder / sorted(os.listdir(other_folder))[0]).read_bytes()
    sender.send(half.id, 0, first[:-1])
    assert len(first) > 1
    whole = sender.begin(announcement(graph_folder, "all"))
    sender.send(whole.id, 0, b"".join(path.read_bytes()
                                      for path in sorted(graph_folder.iterdir())))
    for is_restarted in (False, True):
        if is_restarted:
            own_daemon.kill()
            own_daemon.start()
        uploads = own_daemon.json("dataset", "uploads", "list")["uploads"]
        assert [(one["id"], one["name"], one["owner"], one["num_files"], one["received_bytes"],
                 one["size_bytes"], one["job_id"]) for one in uploads] == [
            (whole.id, "all", "local", len(os.listdir(graph_folder)), whole.size_bytes,
             whole.size_bytes, ""),
            (half.id, "sent", "local", len(os.listdir(other_folder)), len(first) - 1,
             half.size_bytes, "")]
        assert all(one["expire_time"] for one in uploads)
    assert half.id in own_daemon.hearth("dataset", "uploads", "list").out

    with hearth.Client(own_daemon.address) as client:
        assert [one.id for one in client.uploads()] == [whole.id, half.id]
        client.delete_upload(half.id)
        with pytest.raises(hearth.NotFound):
            client.delete_upload(half.id)
    own_daemon.hearth("dataset", "uploads", "delete", whole.id)
    refused = own_daemon.hearth("dataset", "uploads", "delete", whole.id, code=1)
    assert "there is no upload" in refused.err
    assert not staged(own_daemon)
    assert own_daemon.json("dataset", "uploads", "list") == {"uploads": []}

    async def of_asyncio() -> None:
        again = sender.begin(announcement(graph_folder, "all"))
        async with hearth.AsyncClient(own_daemon.address) as client:
            assert [one.id for one in await client.uploads()] == [again.id]
            await client.delete_upload(again.id)
            assert not await client.uploads()

    asyncio.run(of_asyncio())


def test_an_upload_is_deleted_while_it_is_sent(own_daemon, other_folder):
    request = announcement(other_folder, "sent")
    everything = b"".join((other_folder / file.path).read_bytes() for file in request.files)
    sender = Sender(own_daemon)
    upload = sender.begin(request)

    def received() -> int:
        return own_daemon.json("dataset", "uploads", "list")["uploads"][0]["received_bytes"]

    def chunks() -> Iterator[datasets_pb2.UploadChunk]:
        yield datasets_pb2.UploadChunk(id=upload.id, data=everything[:1000])
        wait_for(lambda: received() == 1000, "the first bytes to come")
        own_daemon.hearth("dataset", "uploads", "delete", upload.id)
        for at in range(1000, len(everything), 512 << 10):
            yield datasets_pb2.UploadChunk(offset=at, data=everything[at:at + (512 << 10)])

    with pytest.raises(grpc.RpcError) as refused:
        sender.send_chunks(chunks())
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    assert "deleted" in refused.value.details()
    assert not staged(own_daemon)
    # The same files can be sent again.
    own_daemon.json("dataset", "upload", "sent", "--source", str(other_folder))


def test_uploads_are_their_owners(tmp_path, start_daemon, graph_folder, exported):
    # Without folders that users may name: what they send needs none.
    daemon = start_daemon()
    guarded = Guarded(daemon, tmp_path)
    guarded.make_token("ann", "user")
    guarded.make_token("bob", "user")
    request = announcement(graph_folder, "sent")
    everything = b"".join((graph_folder / file.path).read_bytes() for file in request.files)
    ann, bob = (Sender(daemon, guarded.secret(name)) for name in ("ann", "bob"))
    upload = ann.begin(request)
    with pytest.raises(grpc.RpcError) as refused:
        bob.send(upload.id, 0, everything)
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert "token:ann" in refused.value.details()
    # The same files are another upload where another one sends them.
    bobs = bob.begin(request).id
    assert bobs != upload.id
    for name in ("viewer", "bob"):
        listed = guarded.call_as(name, "dataset", "uploads", "list", "--output", "json").json
        assert {(one["id"], one["owner"]) for one in listed["uploads"]} == {
            (upload.id, "token:ann"), (bobs, "token:bob")}
        refused = guarded.call_as(name, "dataset", "uploads", "delete", upload.id, code=1)
        assert ("token:ann" if name == "bob" else "asks for the role user") in refused.err
    guarded.call_as("bob", "dataset", "uploads", "delete", bobs)
    bobs = bob.begin(request).id
    guarded.call_as("operator", "dataset", "uploads", "delete", bobs)
    ann.send(upload.id, 0, everything)
    with hearth.Client(daemon.address, token_file=str(guarded.token_file("bob"))) as client:
        with pytest.raises(hearth.HearthError) as stolen:
            spec = jobs_pb2.SubmitJobRequest().spec
            getattr(spec, "import").name = "stolen"
            getattr(spec, "import").upload = upload.id
            run(client._calls._submit("import", spec, 0))
        assert stolen.value.code == grpc.StatusCode.PERMISSION_DENIED
    guarded.call_as("ann", "dataset", "upload", "sent", "--source", str(graph_folder))
    guarded.call_as("viewer", "dataset", "upload", "x", "--source", str(graph_folder), code=1)
    job = guarded.call_as("ann", *QUICK[:1], "--dataset", "sent", *QUICK[3:], "--output",
                          "json").json["id"]
    guarded.call_as("viewer", "job", "download", job, "--to", str(tmp_path / "model"), code=1)
    guarded.call_as("bob", "job", "download", job, "--to", str(tmp_path / "model"))
    assert {(line["method"], line["caller"], line["result"]) for line in guarded.audit()} >= {
        ("Datasets/SendUpload", "token:bob", "PERMISSION_DENIED"),
        ("Datasets/DeleteUpload", "token:bob", "PERMISSION_DENIED"),
        ("Datasets/DeleteUpload", "token:viewer", "PERMISSION_DENIED"),
        ("Datasets/DeleteUpload", "token:bob", "OK"),
        ("Datasets/DeleteUpload", "token:operator", "OK"),
        ("Datasets/SendUpload", "token:ann", "OK"), ("Datasets/BeginUpload", "token:ann", "OK"),
        ("Jobs/DownloadModel", "token:bob", "OK"),
        ("Jobs/DownloadModel", "token:viewer", "PERMISSION_DENIED")}
