"""The client for programs of asyncio."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Optional

from hearth.blocking import on_id
from hearth.calls import Calls
from hearth.connection import OnSilence
from hearth.graphs import DatasetRecord
from hearth.jobs import JobRecord
from hearth.servers import choose
from hearth.sweeps import SweepRecord
from hearth.transport import AsyncTransport


class AsyncClient(Calls["AsyncJob", "AsyncDataset", "AsyncSweep"]):
    """hearth.Client for programs of asyncio: the same calls as coroutines; `watch` and
    `sweep_watch` are asynchronous iterators. Cancelling a task cancels its call, not a job. A
    client belongs to the event loop in which it makes its first call.

    Arguments are as for Client; `on_silence` is called on any thread.
    """

    def __init__(self, server: Optional[str] = None, *, context: Optional[str] = None,
                 ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
                 token_file: Optional[str] = None, timeout: float = 60.0,
                 patience: float = 10.0, watch_patience: float = 120.0,
                 on_silence: Optional[OnSilence] = None) -> None:
        transport = AsyncTransport(choose(server, context, ca, cert, key, token_file), timeout)
        super().__init__(transport, patience, watch_patience, on_silence, AsyncJob, AsyncDataset,
                         AsyncSweep)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]],
                        value: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()


@dataclass(frozen=True, repr=False)
class AsyncJob(JobRecord):
    """A job as of the last call, with the client's calls about it as methods."""

    refresh = on_id(AsyncClient.job)
    watch = on_id(AsyncClient.watch)
    wait = on_id(AsyncClient.wait)
    progress = on_id(AsyncClient.progress)
    track = on_id(AsyncClient.track)
    logs = on_id(AsyncClient.logs)
    result = on_id(AsyncClient.result)
    evaluate = on_id(AsyncClient.evaluate)
    export = on_id(AsyncClient.export)
    download_model = on_id(AsyncClient.download_model)
    cancel = on_id(AsyncClient.cancel)
    resume = on_id(AsyncClient.resume)
    delete = on_id(AsyncClient.delete)


@dataclass(frozen=True, repr=False)
class AsyncDataset(DatasetRecord):
    """A dataset as of the last call, with the client's calls about it as methods."""

    refresh = on_id(AsyncClient.dataset)
    export = on_id(AsyncClient.export_dataset)
    verify = on_id(AsyncClient.verify_dataset)
    delete = on_id(AsyncClient.delete_dataset)


@dataclass(frozen=True, repr=False)
class AsyncSweep(SweepRecord):
    """A sweep as of the last call, with the client's calls about it as methods."""

    refresh = on_id(AsyncClient.sweep_show)
    watch = on_id(AsyncClient.sweep_watch)
    wait = on_id(AsyncClient.sweep_wait)
    progress = on_id(AsyncClient.sweep_progress)
    track = on_id(AsyncClient.sweep_track)
    epochs = on_id(AsyncClient.sweep_epochs)
    best = on_id(AsyncClient.sweep_best)
    pause = on_id(AsyncClient.sweep_pause)
    resume = on_id(AsyncClient.sweep_resume)
    stop = on_id(AsyncClient.sweep_stop)
    delete = on_id(AsyncClient.sweep_delete)
    add_trial = on_id(AsyncClient.add_trial)
    stop_trial = on_id(AsyncClient.stop_trial)
    continue_trial = on_id(AsyncClient.continue_trial)
