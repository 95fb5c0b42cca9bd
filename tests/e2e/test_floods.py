"""Nobody floods the daemon out of service: descriptors, HTTP/2, half-sent requests, watchers and a
long queue. What decides are counts, memory and recovery; times are only told."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import threading
import time
from typing import Callable, Iterator, Optional

import pytest

from daemon import Daemon
from jobs import ENDLESS

pytest.importorskip("grpc", reason="grpcio is not installed")

import grpc  # noqa: E402

import floods  # noqa: E402
from hearth.v1 import admin_pb2, jobs_pb2, spec_pb2  # noqa: E402

MOST_GROWTH_BYTES = 128 << 20
# Memory that the daemon keeps after its first calls is not the flood's.
WARM_CALLS = 50

full = pytest.mark.full("floods")


def sizes(quick: object, whole: object) -> list:
    """A quick size for tier 1, and a whole one for the part `floods` of tier 2."""
    return [quick, pytest.param(whole, marks=full)]


def status_of(channel: grpc.Channel) -> Callable[[], admin_pb2.Status]:
    call = floods.method(channel, "Admin/GetStatus", admin_pb2.Status)
    return lambda: call(admin_pb2.GetStatusRequest(), timeout=10)


class Watched:
    """The memory of a daemon during a flood."""

    def __init__(self, daemon: Daemon) -> None:
        with grpc.insecure_channel(daemon.address) as channel:
            for _ in range(WARM_CALLS):
                status_of(channel)()
        daemon.metrics()
        self._daemon = daemon
        self._before = self.most = daemon.resident_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            self.most = max(self.most, self._daemon.resident_bytes())

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.most - self._before

    @property
    def figures(self) -> str:
        return f"resident {self._before >> 20} MiB before, {self.most >> 20} MiB at most"


class FewDescriptors(Daemon):
    """A daemon with 256 descriptors, which it cannot raise."""

    prefix = ("prlimit", "--nofile=256:256")


def metrics_of(address: str) -> int:
    """A scrape; the bytes that it gave."""
    connection = http.client.HTTPConnection(address, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        return len(answer.read())


def test_connections_that_say_nothing_do_not_use_up_descriptors(tmp_path, tell):
    with contextlib.closing(FewDescriptors(tmp_path / "data")) as daemon:
        idlers = []
        with floods.calling(grpc.insecure_channel(daemon.address)) as old:
            for beginning in (b"", floods.PREFACE[:10], floods.opening()):
                idlers.append(floods.Idlers(daemon.address, 100, beginning))
            # Others get in meanwhile, and over again.
            for _ in range(5):
                daemon.hearth("status")
                metrics_of(daemon.metrics_address)
        assert not old.failures
        assert len(daemon.descriptors()) < 256
        for group in idlers:
            group.close()
        begin = time.monotonic()
        daemon.hearth("status")
        tell(f"throughout: {old.figures}; a new client after the flood: "
             f"{time.monotonic() - begin:.2f} s")


@pytest.mark.parametrize("seconds", sizes(5, 60))
def test_calls_that_are_given_up_at_once_cost_no_memory(start_daemon, tell, seconds):
    daemon = start_daemon()
    with Watched(daemon) as watched, \
            floods.calling(grpc.insecure_channel(daemon.address)) as client:
        calls, connections = floods.Attack(daemon.address, seconds, 2).end()
    tell(f"{calls} calls given up by {connections} connections; {watched.figures}; "
         f"another client: {client.figures}")
    assert calls > 0 and connections > 2, "the flood was not noticed"
    assert "reset" in daemon.log
    assert watched.growth <= MOST_GROWTH_BYTES
    assert not client.failures


@pytest.mark.parametrize("port", ["grpc", "metrics"])
@pytest.mark.parametrize("count, seconds", [(300, 6), pytest.param(900, 60, marks=full)])
def test_requests_that_never_end_keep_nobody_out(start_daemon, tell, port, count, seconds):
    """Slow loris: each sends a byte now and then, and comes back when it is closed."""
    daemon = start_daemon()
    address = daemon.address if port == "grpc" else daemon.metrics_address
    beginning = floods.PREFACE[:4] if port == "grpc" else b"GET /metrics HTTP/1.1\r\nHost: "
    with Watched(daemon) as watched, \
            floods.calling(grpc.insecure_channel(daemon.address)) as client:
        scraper = floods.Worker(lambda: metrics_of(daemon.metrics_address))
        with contextlib.closing(floods.Idlers(address, count, beginning)) as idlers:
            end = time.monotonic() + seconds
            renewed = 0
            while time.monotonic() < end:
                renewed += idlers.drip(b"1" if port == "metrics" else b"")
                daemon.hearth("status")
        scraper.end()
    tell(f"{count} connections, {renewed} made anew; {watched.figures}; "
         f"another client: {client.figures}; scrapes: {scraper.figures}")
    assert renewed > 0
    assert watched.growth <= MOST_GROWTH_BYTES
    assert not client.failures and not scraper.failures


def test_a_request_of_the_metrics_port_has_a_bounded_size(start_daemon):
    daemon = start_daemon()
    with floods.connect(daemon.metrics_address) as connection, \
            contextlib.suppress(ConnectionError):
        connection.sendall(b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 10_000)
        assert b" 200 " not in connection.recv(100)
    assert metrics_of(daemon.metrics_address)


@pytest.fixture
def busy(start_daemon, graph_folder) -> Callable[..., tuple[Daemon, spec_pb2.JobSpec]]:
    """Starts daemons whose only place is taken, with a job that has to wait for it."""
    def start(*flags: str) -> tuple[Daemon, spec_pb2.JobSpec]:
        daemon = start_daemon(*flags)
        daemon.import_graph("planted", graph_folder)
        blocker = daemon.json(*ENDLESS, "--detach")["id"]
        daemon.wait_for_state(blocker, "RUNNING")
        with grpc.insecure_channel(daemon.address) as channel:
            get = floods.method(channel, "Jobs/GetJob", jobs_pb2.Job)
            spec = get(jobs_pb2.GetJobRequest(id=blocker)).spec
        # Other data: it shares no pass with the one that runs.
        spec.train.data.data_seed += 1
        return daemon, spec
    return start


def list_jobs(daemon: Daemon, state: int) -> Iterator[jobs_pb2.Job]:
    token = ""
    with grpc.insecure_channel(daemon.address) as channel:
        page = floods.method(channel, "Jobs/ListJobs", jobs_pb2.ListJobsResponse)
        while True:
            answer = page(jobs_pb2.ListJobsRequest(states=[state], page_size=1000,
                                                   page_token=token))
            yield from answer.jobs
            token = answer.next_page_token
            if not token:
                return


@pytest.mark.parametrize("count", sizes(2_000, 100_000))
def test_a_long_queue_is_taken_kept_and_listed(busy, tell, count):
    daemon, spec = busy("--max-queued-jobs", "200000", "--max-queued-jobs-per-user", "200000")
    seconds, in_all = floods.Submitters(daemon.address, spec, count).end()
    tell(f"{count / in_all:.0f} submits/s: {floods.figures_of(seconds)}")
    begin = time.monotonic()
    metrics_of(daemon.metrics_address)
    scrape = time.monotonic() - begin
    daemon.kill()
    begin = time.monotonic()
    daemon.start()
    restart = time.monotonic() - begin
    begin = time.monotonic()
    queued = sum(1 for _ in list_jobs(daemon, jobs_pb2.QUEUED))
    tell(f"{count} queued: scrape {1000 * scrape:.0f} ms, restart {restart:.1f} s, all pages "
         f"{time.monotonic() - begin:.1f} s, resident {daemon.resident_bytes() >> 20} MiB")
    # The one that ran goes on, or is queued before it does.
    assert count <= queued <= count + 1


class Submitting:
    """Submits equal jobs by several threads until the daemon is gone; the ids that it answered."""

    def __init__(self, daemon: Daemon, spec: spec_pb2.JobSpec, at_a_time: int) -> None:
        self.ids: list[str] = []
        self._channel = grpc.insecure_channel(daemon.address)
        self._submit = floods.method(self._channel, "Jobs/SubmitJob", jobs_pb2.Job)
        self._spec = spec
        self._threads = [threading.Thread(target=self._work) for _ in range(at_a_time)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            while True:
                self.ids.append(self._submit(jobs_pb2.SubmitJobRequest(spec=self._spec),
                                             timeout=60).id)

    def end(self) -> None:
        for thread in self._threads:
            thread.join()
        self._channel.close()


@pytest.mark.parametrize("kills", sizes(3, 50))
def test_submits_that_were_answered_outlive_kill_9_and_a_lost_database(busy, tell, kills):
    daemon, spec = busy()
    random_ = random.Random(kills)
    answered: list[str] = []
    for kill in range(kills):
        submitting = Submitting(daemon, spec, 8)
        time.sleep(random_.uniform(0, 0.6))
        daemon.kill()
        submitting.end()
        answered += submitting.ids
        folders = set(os.listdir(daemon.data_dir / "jobs"))
        assert set(answered) <= folders
        if kill % 2 == 1:  # The folders alone tell of them.
            for name in ("hearth.db", "hearth.db-wal", "hearth.db-shm"):
                (daemon.data_dir / name).unlink(missing_ok=True)
        daemon.start()
        states = [jobs_pb2.QUEUED, jobs_pb2.PREPARING, jobs_pb2.RUNNING]
        assert set(answered) <= {job.id for state in states for job in list_jobs(daemon, state)}
    assert len(set(answered)) == len(answered)
    assert not (daemon.data_dir / "lost+found").exists()
    tell(f"{len(answered)} answered submits")


def test_a_full_queue_names_its_limits(busy):
    daemon, spec = busy("--max-queued-jobs", "8", "--max-queued-jobs-per-user", "5")
    with grpc.insecure_channel(daemon.address) as channel:
        submit = floods.method(channel, "Jobs/SubmitJob", jobs_pb2.Job)
        for _ in range(4):
            submit(jobs_pb2.SubmitJobRequest(spec=spec))
        with pytest.raises(grpc.RpcError) as refused:
            submit(jobs_pb2.SubmitJobRequest(spec=spec))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "--max-queued-jobs-per-user is 5" in refused.value.details()
        # By the Unix socket it is somebody else.
        as_user = grpc.insecure_channel(f"unix:{daemon.data_dir}/hearth.sock")
        with as_user:
            submit = floods.method(as_user, "Jobs/SubmitJob", jobs_pb2.Job)
            kept = [submit(jobs_pb2.SubmitJobRequest(spec=spec, request_id=f"kept-{i}")).id
                    for i in range(3)]
            with pytest.raises(grpc.RpcError) as refused:
                submit(jobs_pb2.SubmitJobRequest(spec=spec))
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "--max-queued-jobs is 8" in refused.value.details()
            # A repeated request is no new job.
            again = submit(jobs_pb2.SubmitJobRequest(spec=spec, request_id="kept-0"))
            assert again.id == kept[0]
            daemon.hearth("job", "cancel", kept[0])
            assert submit(jobs_pb2.SubmitJobRequest(spec=spec)).id


def test_a_spec_has_a_bounded_size(busy):
    daemon, spec = busy()
    spec.train.data.target = "a" * (64 << 10)
    with grpc.insecure_channel(daemon.address) as channel:
        submit = floods.method(channel, "Jobs/SubmitJob", jobs_pb2.Job)
        with pytest.raises(grpc.RpcError) as refused:
            submit(jobs_pb2.SubmitJobRequest(spec=spec))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "more than 65536" in refused.value.details()


@pytest.mark.parametrize("count", sizes(500, 10_000))
def test_watchers_hear_of_the_end_however_many_they_are(busy, tell, count):
    daemon, spec = busy()
    per_channel = 500
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(
            daemon.address, options=[("grpc.use_local_subchannel_pool", 1)]))
            for _ in range((count + per_channel - 1) // per_channel)]
        job = floods.method(channels[0], "Jobs/SubmitJob", jobs_pb2.Job)(
            jobs_pb2.SubmitJobRequest(spec=spec)).id
        before = daemon.resident_bytes()
        ended = threading.Semaphore(0)
        watches = []
        for i in range(count):
            watch = channels[i % len(channels)].unary_stream(
                "/hearth.v1.Jobs/WatchJob",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=None)(jobs_pb2.WatchJobRequest(id=job))
            watch.add_done_callback(lambda _: ended.release())
            watches.append(watch)
        for watch in watches:
            assert jobs_pb2.JobEvent.FromString(next(watch)).state.state == jobs_pb2.QUEUED
        held = daemon.resident_bytes()
        with floods.calling(grpc.insecure_channel(daemon.address)) as client:
            begin = time.monotonic()
            daemon.hearth("job", "cancel", job)
            for watch in watches:
                last: Optional[bytes] = None
                for last in watch:
                    pass
                assert jobs_pb2.JobEvent.FromString(last).state.state == jobs_pb2.CANCELLED
            told = time.monotonic() - begin
        tell(f"{count} watchers: {(held - before) >> 20} MiB more; all told of the end within "
             f"{told:.1f} s; another client: {client.figures}")
        assert not client.failures
