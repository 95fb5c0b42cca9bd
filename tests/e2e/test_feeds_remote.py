"""Batches over the network (hearth.torch with a daemon's TCP address): those of the socket, bit for
bit, and whatever becomes of the script, the daemon or the caller's rights."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from daemon import HEARTH, TIRELESS, Daemon, wait_for
from test_feeds import (BATCHES, LOADER, NATIVE, drain, end, expected, fresh,  # noqa: F401
                        newest_feed, slots_of, socket_of, taken)

import grpc  # noqa: E402
import torch  # noqa: E402

import hearth  # noqa: E402
import hearth.torch  # noqa: E402
from feed_client import digest, taken_through_kills  # noqa: E402
from hearth.errors import HearthError  # noqa: E402
from hearth.v1 import feeds_pb2  # noqa: E402


@pytest.fixture
def client(daemon):
    with hearth.Client(daemon.address) as made:
        yield made


def begin(daemon, epochs=2, pause=0.0, **options) -> subprocess.Popen:
    """A script beside the test, as if elsewhere."""
    arguments = {"server": daemon.address, "loader": {**LOADER, **options}, "epochs": epochs,
                 "pause": pause}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("feed_client.py")), json.dumps(arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("strategy", ["memory", "gnndrive"])
def test_batches_are_those_of_the_socket(daemon, client, expected, strategy):  # noqa: F811
    assert taken(client, strategy=strategy) == expected[:2]
    job = client.job(newest_feed(daemon)).wait()
    assert job.state.value == "SUCCEEDED" and job.feed_report().passes[0].batches == 2 * BATCHES
    wait_for(lambda: not slots_of(daemon), "all slots to be free")


def test_batches_of_a_heterograph_are_those_of_the_socket(daemon, client, typed_folder):
    daemon.json("dataset", "import", "typed", "--format", "graphbolt", "--source",
                str(typed_folder))

    def tensors(of):
        with hearth.torch.NeighborLoader(of, dataset="typed", num_neighbors=[4, 3],
                                         batch_size=100, strategy="memory") as loader:
            return [{f"{kind} {name}": value.clone() for kind in batch.node_types + batch.edge_types
                     for name, value in batch[kind].items() if torch.is_tensor(value)}
                    for batch in loader]

    with hearth.Client(socket_of(daemon)) as near:
        by_socket, by_stream = tensors(near), tensors(client)
    assert len(by_socket) == len(by_stream) == 12 and len(by_stream[0]) > 10
    for one, other in zip(by_socket, by_stream):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_script_that_hoards_gets_all_batches(client, expected):  # noqa: F811
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
        hoard = list(loader)
        assert [digest(batch) for batch in loader] == expected[1]
        assert [digest(batch) for batch in hoard] == expected[0]


def test_a_pass_is_left_and_the_next_one_begins(client, expected):  # noqa: F811
    with hearth.torch.NeighborLoader(client, **LOADER, strategy="gnndrive") as loader:
        for epoch in range(3):
            assert digest(next(iter(loader))) == expected[epoch][0]
        assert [digest(batch) for batch in loader] == expected[3]


def test_a_daemon_that_is_killed_changes_no_batch(fresh, expected):  # noqa: F811
    daemon = fresh()
    assert taken_through_kills(daemon, daemon.address, epochs=2, **LOADER,
                               strategy="gnndrive") == expected[:2]
    daemon.wait_for_state(newest_feed(daemon), "SUCCEEDED")


def test_a_daemon_that_stops_does_not_wait_for_streams(fresh, expected):  # noqa: F811
    daemon, restarts = fresh(), []

    def restart():
        daemon.stop()
        daemon.start()

    with hearth.Client(daemon.address) as client:
        with hearth.torch.NeighborLoader(client, **LOADER, strategy="memory") as loader:
            found = []
            for batch in loader:
                if len(found) == 3:
                    restarts.append(threading.Thread(target=restart))
                    restarts[0].start()
                found.append(digest(batch))
            restarts[0].join()
    assert found == expected[0]


def test_a_script_that_is_killed_leaves_nothing_behind(fresh):  # noqa: F811
    daemon = fresh("--feed-patience", "2s")
    script = begin(daemon, epochs=100, pause=0.05)
    for _ in range(10):
        script.stdout.readline()
    assert slots_of(daemon)
    script.kill()
    script.communicate()
    daemon.wait_for_state(newest_feed(daemon), "CANCELLED")
    wait_for(lambda: not slots_of(daemon), "all slots to be free")


def test_a_script_that_is_stopped_gives_way_and_goes_on(fresh, expected):  # noqa: F811
    daemon = fresh("--max-running-jobs", "1", "--convoy-members", "1")
    script = begin(daemon, epochs=2, pause=0.02)
    read = [script.stdout.readline() for _ in range(5)]
    script.send_signal(signal.SIGSTOP)
    job = newest_feed(daemon)
    other = daemon.json(*NATIVE, "--detach")["id"]
    daemon.wait_for_state(other, "SUCCEEDED")
    # Another stream is served as ever.
    with hearth.Client(daemon.address) as client:
        assert taken(client, epochs=1, strategy="memory") == expected[:1]
    assert daemon.state(job) == "WAITING"
    script.send_signal(signal.SIGCONT)
    assert end(script, read) == expected[:2]
    daemon.wait_for_state(job, "SUCCEEDED")


# Who gets in.

class Guarded(Daemon):
    """Asks for tokens over TCP; has one of each role, and another user's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data", *TIRELESS)
        self.tokens = {name: folder / f"{name}.token" for name in ("viewer", "user", "other")}
        for name, path in self.tokens.items():
            self._near("admin", "token", "create", name, "--role",
                       "user" if name == "other" else name, "--to", str(path))

    def _near(self, *arguments: str) -> None:
        subprocess.run([HEARTH, "--server", socket_of(self), *arguments], check=True,
                       capture_output=True)

    def revoke(self, name: str) -> None:
        self._near("admin", "token", "revoke", name)

    def client(self, name: str, **more) -> hearth.Client:
        return hearth.Client(self.address, token_file=str(self.tokens[name]), **more)

    def stream(self, name: str, ticket: bytes) -> grpc.StatusCode:
        """How a stream ends that shows a ticket, once it is welcome."""
        authorization = f"Bearer {self.tokens[name].read_text().strip()}" if name else "none"
        with grpc.insecure_channel(self.address) as channel:
            call = channel.stream_stream(
                "/hearth.v1.Feeds/Stream",
                request_serializer=feeds_pb2.FeedUp.SerializeToString,
                response_deserializer=feeds_pb2.FeedDown.FromString)(
                    iter([feeds_pb2.FeedUp(hello={"ticket": ticket})]), timeout=60,
                    metadata=[("authorization", authorization)])
            with contextlib.suppress(grpc.RpcError):
                list(call)
            return call.code()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, graph_folder):
    with contextlib.closing(Guarded(tmp_path_factory.mktemp("guarded"))) as daemon:
        with hearth.Client(socket_of(daemon)) as near:
            near.import_dataset("planted", source=str(graph_folder), format="numpy")
        yield daemon


def test_a_ticket_is_its_callers(guarded):
    with guarded.client("user") as client:
        job = client.submit("feed", dataset="planted", fanouts=[5, 4], sampler="subgraph",
                            strategy="memory").id

        def ticket():
            return client.attach_feed(job, stream=True).ticket

        refused = grpc.StatusCode.PERMISSION_DENIED
        assert guarded.stream("other", ticket()) is refused
        assert guarded.stream("viewer", ticket()) is refused
        assert guarded.stream("", ticket()) is grpc.StatusCode.UNAUTHENTICATED
        assert guarded.stream("user", b"guessed") is refused
        used = ticket()
        assert guarded.stream("user", used) is grpc.StatusCode.OK
        assert guarded.stream("user", used) is refused
        with guarded.client("other") as other, pytest.raises(HearthError, match="belongs to"):
            other.attach_feed(job, stream=True)
        client.cancel(job)


def test_a_revoked_token_ends_a_stream_that_is_idle(guarded):
    with guarded.client("user") as client:
        loader = hearth.torch.NeighborLoader(client, **LOADER, strategy="memory")
        kept, loader_job = [], loader.job.id
        with pytest.raises(HearthError) as refused:
            for batch in loader:
                # All that the script may have: nothing is sent meanwhile.
                kept.append(batch)
                if len(kept) == 4:
                    guarded.revoke("user")
                    wait_for(lambda: can_be_attached(guarded, loader_job), "the stream's end")
        assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
        assert digest(kept[0])
        loader.close()


def can_be_attached(daemon, job) -> bool:
    """Whether the job has no client."""
    with hearth.Client(socket_of(daemon)) as near:
        try:
            return bool(near.attach_feed(job, stream=True).ticket)
        except HearthError as error:
            assert error.code is grpc.StatusCode.ALREADY_EXISTS
            return False


def test_batches_come_over_tls(tmp_path, graph_folder, expected):  # noqa: F811
    certs = tmp_path / "certs"
    make = [HEARTH, "admin", "certs", "--to", str(certs)]
    for more in (["--host", "127.0.0.1"], ["--client", "ann", "--role", "user"]):
        subprocess.run([*make, *more], check=True, capture_output=True)
    with contextlib.closing(Daemon(
            tmp_path / "data", "--tls-cert", str(certs / "server.pem"), "--tls-key",
            str(certs / "server.key"), "--tls-client-ca", str(certs / "ca.pem"))) as daemon:
        with hearth.Client(socket_of(daemon)) as near:
            near.import_dataset("planted", source=str(graph_folder), format="numpy")
        with hearth.Client(daemon.address, ca=str(certs / "ca.pem"),
                           cert=str(certs / "client-ann.pem"),
                           key=str(certs / "client-ann.key")) as client:
            assert taken(client, epochs=1, strategy="memory") == expected[:1]
