"""The client whose calls wait for their results."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Iterator, Optional

from hearth.blocking import blocking, iterating, of_client, on_id
from hearth.calls import Calls
from hearth.connection import OnSilence
from hearth.graphs import DatasetRecord
from hearth.jobs import JobRecord
from hearth.servers import choose
from hearth.sweeps import SweepRecord
from hearth.transport import BlockingTransport, BothWays
from hearth.v1 import feeds_pb2


class _Calls(Calls["Job", "Dataset", "Sweep"]):
    """The calls over the blocking transport."""


class Client:
    """The daemon's datasets, jobs, sweeps and plans. Thread-safe; connects at the first call.

    - A submission, a resumption or a deletion carries a random request id and is repeated with
      it, so a broken connection never makes two jobs.
    - Watches go on after the last event seen when the daemon comes back from a restart.
    - When the daemon has not answered for 10 s, the logger "hearth" warns, and again when it
      answers; `on_silence` replaces that: it is called with the seconds so far, on any thread,
      and with 0.0 when the daemon answers again.

    The daemon is chosen as `hearth` does: by `server` ("host:port" or "unix:path") or `context`
    (see `hearth context`), by HEARTH_SERVER or HEARTH_CONTEXT, by the context in use, on the
    socket in the default data directory, at 127.0.0.1:7600. With `ca`, the connection is
    encrypted; `cert` and `key` are the client's own certificate, and `token_file` holds a token.
    These are paths, by default of HEARTH_CA, HEARTH_CERT, HEARTH_KEY and HEARTH_TOKEN_FILE.

    Errors are HearthError. `timeout` bounds one call, in seconds. A call tries for `patience`
    seconds, and a watch for `watch_patience` seconds, to reach the daemon.
    """

    def __init__(self, server: Optional[str] = None, *, context: Optional[str] = None,
                 ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
                 token_file: Optional[str] = None, timeout: float = 60.0,
                 patience: float = 10.0, watch_patience: float = 120.0,
                 on_silence: Optional[OnSilence] = None) -> None:
        self._transport = BlockingTransport(
            choose(server, context, ca, cert, key, token_file), timeout)
        self._calls = _Calls(self._transport, patience, watch_patience, on_silence, Job, Dataset,
                             Sweep)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    @property
    def server(self) -> str:
        """"host:port" of the daemon."""
        return self._calls.server

    @property
    def watch_patience(self) -> float:
        """Seconds for which a watch tries to reach the daemon."""
        return self._calls.watch_patience

    close = blocking(of_client(_Calls.close))

    datasets = blocking(of_client(_Calls.datasets))
    dataset = blocking(of_client(_Calls.dataset))
    import_dataset = blocking(of_client(_Calls.import_dataset))
    copy_dataset = blocking(of_client(_Calls.copy_dataset))
    upload = blocking(of_client(_Calls.upload))
    uploads = blocking(of_client(_Calls.uploads))
    delete_upload = blocking(of_client(_Calls.delete_upload))
    generate_dataset = blocking(of_client(_Calls.generate_dataset))
    export_dataset = blocking(of_client(_Calls.export_dataset))
    verify_dataset = blocking(of_client(_Calls.verify_dataset))
    delete_dataset = blocking(of_client(_Calls.delete_dataset))

    train = blocking(of_client(_Calls.train))
    submit = blocking(of_client(_Calls.submit))
    prepare = blocking(of_client(_Calls.prepare))
    explain = blocking(of_client(_Calls.explain))
    evaluate = blocking(of_client(_Calls.evaluate))
    submit_feed = blocking(of_client(_Calls.submit_feed))
    put_nodes = blocking(of_client(_Calls.put_nodes))
    attach_feed = blocking(of_client(_Calls.attach_feed))

    def stream_feed(self, messages: Iterator[feeds_pb2.FeedUp]
                    ) -> BothWays[feeds_pb2.FeedDown]:
        """Takes the batches of a feed job over the network, as hearth.torch does. The first of
        the messages says hello, with a ticket of attach_feed."""
        return self._transport.both_ways("Feeds/Stream", messages, feeds_pb2.FeedDown)

    export = blocking(of_client(_Calls.export))
    download_model = blocking(of_client(_Calls.download_model))
    jobs = blocking(of_client(_Calls.jobs))
    job = blocking(of_client(_Calls.job))
    watch = iterating(of_client(_Calls.watch))
    logs = blocking(of_client(_Calls.logs))
    wait = blocking(of_client(_Calls.wait))
    progress = blocking(of_client(_Calls.progress))
    track = blocking(of_client(_Calls.track))
    result = blocking(of_client(_Calls.result))
    report = blocking(of_client(_Calls.report))
    cancel = blocking(of_client(_Calls.cancel))
    adopt = blocking(of_client(_Calls.adopt))
    resume = blocking(of_client(_Calls.resume))
    delete = blocking(of_client(_Calls.delete))

    sweep = blocking(of_client(_Calls.sweep))
    sweeps = blocking(of_client(_Calls.sweeps))
    sweep_show = blocking(of_client(_Calls.sweep_show))
    sweep_watch = iterating(of_client(_Calls.sweep_watch))
    sweep_wait = blocking(of_client(_Calls.sweep_wait))
    sweep_progress = blocking(of_client(_Calls.sweep_progress))
    sweep_track = blocking(of_client(_Calls.sweep_track))
    sweep_epochs = blocking(of_client(_Calls.sweep_epochs))
    sweep_best = blocking(of_client(_Calls.sweep_best))
    sweep_pause = blocking(of_client(_Calls.sweep_pause))
    sweep_resume = blocking(of_client(_Calls.sweep_resume))
    sweep_stop = blocking(of_client(_Calls.sweep_stop))
    sweep_delete = blocking(of_client(_Calls.sweep_delete))
    add_trial = blocking(of_client(_Calls.add_trial))
    stop_trial = blocking(of_client(_Calls.stop_trial))
    continue_trial = blocking(of_client(_Calls.continue_trial))

    plans = blocking(of_client(_Calls.plans))
    plan = blocking(of_client(_Calls.plan))
    delete_plan = blocking(of_client(_Calls.delete_plan))
    status = blocking(of_client(_Calls.status))
    members = blocking(of_client(_Calls.members))
    drain = blocking(of_client(_Calls.drain))
    backup = blocking(of_client(_Calls.backup))
    tokens = blocking(of_client(_Calls.tokens))
    create_token = blocking(of_client(_Calls.create_token))
    revoke_token = blocking(of_client(_Calls.revoke_token))


@dataclass(frozen=True, repr=False)
class Job(JobRecord):
    """A job as of the last call, with the client's calls about it as methods."""

    refresh = blocking(on_id(_Calls.job))
    watch = iterating(on_id(_Calls.watch))
    wait = blocking(on_id(_Calls.wait))
    progress = blocking(on_id(_Calls.progress))
    track = blocking(on_id(_Calls.track))
    logs = blocking(on_id(_Calls.logs))
    result = blocking(on_id(_Calls.result))
    evaluate = blocking(on_id(_Calls.evaluate))
    export = blocking(on_id(_Calls.export))
    download_model = blocking(on_id(_Calls.download_model))
    cancel = blocking(on_id(_Calls.cancel))
    resume = blocking(on_id(_Calls.resume))
    delete = blocking(on_id(_Calls.delete))


@dataclass(frozen=True, repr=False)
class Dataset(DatasetRecord):
    """A dataset as of the last call, with the client's calls about it as methods."""

    refresh = blocking(on_id(_Calls.dataset))
    export = blocking(on_id(_Calls.export_dataset))
    verify = blocking(on_id(_Calls.verify_dataset))
    delete = blocking(on_id(_Calls.delete_dataset))


@dataclass(frozen=True, repr=False)
class Sweep(SweepRecord):
    """A sweep as of the last call, with the client's calls about it as methods."""

    refresh = blocking(on_id(_Calls.sweep_show))
    watch = iterating(on_id(_Calls.sweep_watch))
    wait = blocking(on_id(_Calls.sweep_wait))
    progress = blocking(on_id(_Calls.sweep_progress))
    track = blocking(on_id(_Calls.sweep_track))
    epochs = blocking(on_id(_Calls.sweep_epochs))
    best = blocking(on_id(_Calls.sweep_best))
    pause = blocking(on_id(_Calls.sweep_pause))
    resume = blocking(on_id(_Calls.sweep_resume))
    stop = blocking(on_id(_Calls.sweep_stop))
    delete = blocking(on_id(_Calls.sweep_delete))
    add_trial = blocking(on_id(_Calls.add_trial))
    stop_trial = blocking(on_id(_Calls.stop_trial))
    continue_trial = blocking(on_id(_Calls.continue_trial))
