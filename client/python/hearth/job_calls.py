"""The calls about jobs, of both clients (hearth.blocking)."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path
from typing import (TYPE_CHECKING, AsyncGenerator, Callable, Generic, Iterable, Iterator, Mapping,
                    Optional, Union)

import grpc
from google.protobuf.empty_pb2 import Empty

from hearth import transfers
from hearth.connection import Connection, new_request_id
from hearth.errors import JobFailed, invalid
from hearth.jobs import (AnyJob, EvaluateReport, ExplainReport, FeedAddress, JobEvent, JobState,
                         PrepareReport, Progressed, TrainReport, evaluation_from, event_from,
                         explanation_from, job_from, job_state, prepare_from)
from hearth.options.kinds import job_spec, option_of
from hearth.options.specs import change_options, merged, option_named_by
from hearth.options.values import Value
from hearth.progress import JobProgress, Progress
from hearth.rows import Rows
from hearth.v1 import feeds_pb2, jobs_pb2, spec_pb2

if TYPE_CHECKING:
    from hearth.trackers.tracker import Tracker

_JOBS_PER_PAGE = 200
_LONGEST_TAIL = 1000
# Bytes of one message of put_nodes, a multiple of 8.
_NODES_BYTES = 512 << 10
Options = Mapping[str, Value]


class JobCalls(Generic[AnyJob]):
    """The daemon's jobs."""

    def __init__(self, connection: Connection, type_of_job: type[AnyJob]) -> None:
        self._connection = connection
        self._type_of_job = type_of_job

    async def train(self, options: Optional[Options] = None, /, *, priority: int = 0,
                    **more: Value) -> AnyJob:
        """Puts a train job into the queue. Options have the names of `hearth train`'s flags and
        job files, with `_` or `-` (client/guide/options.md lists them), or are paths of fields
        ("adam.learning_rate"); they are given as a mapping, as keywords, or both."""
        return await self.submit("train", merged(options, more), priority=priority)

    async def submit(self, kind: str, options: Optional[Options] = None, /, *,
                     priority: int = 0, **more: Value) -> AnyJob:
        """Puts a job of any kind into the queue: train, prepare, explain, import, generate,
        export_dataset, verify, export, evaluate or feed. Options have the names of the command line's
        flags; arguments without a flag are `name`, `dataset` or `job`. Relative paths start
        where the program runs."""
        spec = job_spec(kind, merged(options, more))
        return self._job(await self._submit(kind, spec, priority))

    async def prepare(self, options: Optional[Options] = None, /, *, priority: int = 0,
                      **more: Value) -> PrepareReport:
        """Makes the plan of a train job with the same options, or with `partition=True` only its
        partition; returns when the plan is made. Raises JobFailed."""
        job = await self._done("prepare", merged(options, more), priority)
        return prepare_from(job.message.report.prepare)

    async def explain(self, options: Optional[Options] = None, /, *, priority: int = 0,
                      **more: Value) -> ExplainReport:
        """Forecasts the reads, seconds, memory and disk of a train job with the same options,
        without training. Raises JobFailed."""
        job = await self._done("explain", merged(options, more), priority)
        return explanation_from(job.message.report.explain)

    async def evaluate(self, id: str, *, priority: int = 0) -> EvaluateReport:
        """Evaluates the model of a train job on the test nodes, without training, as the job
        itself does at its end; returns the result. Raises JobFailed if it fails."""
        job = await self._done("evaluate", {"job": id}, priority)
        return evaluation_from(job.message.report.evaluate)

    async def submit_feed(self, options: Options, nodes: Iterable[spec_pb2.FeedNodes] = (), *,
                          priority: int = 0) -> AnyJob:
        """Puts a feed job into the queue, as hearth.torch does. It waits for the `nodes` that
        take the place of splits: put_nodes sends them."""
        spec = job_spec("feed", options)
        spec.feed.nodes.extend(nodes)
        return self._job(await self._submit("feed", spec, priority))

    async def put_nodes(self, id: str, sha256: str, ids: bytes) -> None:
        """Sends the nodes of a feed job that have this digest: ids among the nodes of the target
        type, 8 bytes each, little-endian. Does nothing if the job has them."""
        def messages() -> Iterator[feeds_pb2.PutNodesRequest]:
            yield feeds_pb2.PutNodesRequest(id=id, sha256=sha256)
            for begin in range(0, len(ids), _NODES_BYTES):
                yield feeds_pb2.PutNodesRequest(ids=ids[begin:begin + _NODES_BYTES])

        async def attempt(_: Callable[[], None]) -> feeds_pb2.PutNodesResponse:
            return await self._connection.send("Feeds/PutNodes", messages(),
                                               feeds_pb2.PutNodesResponse)

        await self._connection.resume(attempt)

    async def attach_feed(self, id: str, rank: int = 0, stream: bool = False) -> FeedAddress:
        """Lets this process take the batches of a feed job, as hearth.torch does: by a socket, if
        it speaks to the daemon over its Unix socket, or by a `stream`. `rank` is that of the
        process among the job's trainers."""
        answer = await self._connection.call(
            "Feeds/AttachFeed", feeds_pb2.AttachFeedRequest(id=id, rank=rank, stream=stream),
            feeds_pb2.AttachFeedResponse)
        return FeedAddress(answer.path, answer.ticket)

    async def export(self, id: str, destination: Union[str, os.PathLike[str]], *,
                     priority: int = 0) -> str:
        """Writes the model of a train job to a folder on the daemon's machine, which must not
        exist yet; returns its path once it is written."""
        options = {"job": id, "to": os.fspath(destination)}
        return (await self._done("export", options, priority)).message.report.export.path

    async def download_model(self, id: str, path: Union[str, os.PathLike[str]], *,
                             replace: bool = False,
                             on_progress: Optional[transfers.Progress] = None) -> str:
        """Writes the model of a train job to the new folder `path` on this machine, with the
        files of `export`; returns its absolute path. Until the model is complete, the folder is
        named PATH.part, and an interrupted download goes on from there. FileExistsError if
        `path` exists, unless `replace` allows to replace the model in it."""
        folder = Path(os.path.abspath(path))
        await transfers.download_model(self._connection, id, folder, replace, on_progress)
        return str(folder)

    async def jobs(self, *states: Union[JobState, str], kind: Optional[str] = None,
                   dataset: Optional[str] = None, sweep: Optional[str] = None) -> Rows[AnyJob]:
        """Jobs, the newest first; optionally only those in `states` ("running", ...), or of a
        `kind`, `dataset` or `sweep`."""
        request = jobs_pb2.ListJobsRequest(
            page_size=_JOBS_PER_PAGE, states=[_state_named(state).value for state in states])
        jobs: list[AnyJob] = []
        while True:
            page = await self._connection.call("Jobs/ListJobs", request,
                                               jobs_pb2.ListJobsResponse)
            jobs += map(self._job, page.jobs)
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        return Rows(job for job in jobs if kind in (None, job.kind)
                    and dataset in (None, job.dataset) and sweep in (None, job.sweep))

    async def job(self, id: str) -> AnyJob:
        """One job in its current state."""
        return self._job(await self._get(id))

    async def watch(self, id: str, from_sequence: int = 1) -> AsyncGenerator[JobEvent, None]:
        """The events of a job in order, from a sequence number on, until it has ended. After a
        restart of the daemon it goes on after the last event seen."""
        async def has_ended() -> bool:
            return job_state((await self._get(id)).state).has_ended

        events = self._connection.watch(
            "Jobs/WatchJob", jobs_pb2.WatchJobRequest(id=id, from_sequence=from_sequence),
            jobs_pb2.JobEvent,
            is_end=lambda event: (event.WhichOneof("payload") == "state"
                                  and job_state(event.state.state).has_ended),
            has_ended=has_ended)
        async with aclosing(events):
            async for message in events:
                event = event_from(message)
                if event is not None:
                    yield event

    async def logs(self, id: str, *, tail: Optional[int] = None) -> Rows[JobEvent]:
        """The log of a job so far: its states, epochs and lines, without progress; with `tail`
        only so many of the last ones, at most 1000."""
        if tail is not None:
            if not 1 <= tail <= _LONGEST_TAIL:
                raise invalid("tail", f"{tail} is not a whole number from 1 to {_LONGEST_TAIL}")
            answer = await self._connection.call(
                "Jobs/TailJob", jobs_pb2.TailJobRequest(id=id, count=tail),
                jobs_pb2.TailJobResponse)
            found = map(event_from, answer.events)
            return Rows(event for event in found if event is not None)
        last = (await self._get(id)).last_sequence
        events: list[JobEvent] = []
        if last:
            async with aclosing(self.watch(id)) as watched:
                async for event in watched:
                    if not isinstance(event, Progressed):
                        events.append(event)
                    if event.sequence >= last:
                        break
        return Rows(events)

    async def wait(self, id: str) -> AnyJob:
        """Waits for the end of a job, with or without success, and returns the job."""
        job = await self.job(id)
        if not job.state.has_ended:
            async with aclosing(self.watch(id, job.last_sequence + 1)) as events:
                async for _ in events:
                    pass
            job = await self.job(id)
        return job

    async def progress(self, id: str) -> AnyJob:
        """Shows the progress of a job until it has ended, and returns it: a bar (tqdm, in a
        terminal or a notebook), or a line for each state, epoch and line of the log without tqdm
        and where the output is a file. An interrupt leaves the job alone."""
        return await self._follow(id, progress=True)

    async def track(self, id: str, *trackers: Tracker, progress: bool = False) -> AnyJob:
        """Follows a job until it has ended, and returns it: its options, epochs and result go to
        trackers of experiments (hearth.trackers). No epoch is logged twice, also when the daemon
        restarts, the job is resumed, or the same job is tracked again."""
        return await self._follow(id, *trackers, progress=progress)

    async def _follow(self, id: str, *trackers: Tracker, progress: bool) -> AnyJob:
        from hearth.trackers.following import JobRuns
        job = await self.job(id)
        runs = JobRuns(job, trackers)
        with JobProgress(job.id) if progress else Progress[JobEvent](job.id) as shown:
            async with aclosing(self.watch(id)) as events:
                async for event in events:
                    shown.take(event)
                    runs.take(event)
            job = await self.job(id)
            runs.end(job)
        return job

    async def result(self, id: str) -> TrainReport:
        """The report of a train job once it has succeeded. Raises JobFailed if it does not."""
        return (await self._succeeded(id)).train_report()

    async def report(self, id: str) -> TrainReport:
        """The report of a train job so far."""
        return (await self.job(id)).train_report()

    async def cancel(self, id: str) -> AnyJob:
        """Asks a job to stop at the next batch. No error if it has ended."""
        request = jobs_pb2.CancelJobRequest(id=id)
        return self._job(await self._connection.call("Jobs/CancelJob", request, jobs_pb2.Job))

    async def resume(self, id: str, options: Optional[Options] = None, /,
                     **more: Value) -> AnyJob:
        """Queues a failed or cancelled job again, from its last checkpoint, optionally with other
        values of options that change no result (cpu_cache, samplers, ...)."""
        request = jobs_pb2.ResumeJobRequest(request_id=new_request_id(), id=id)
        values = merged(options, more)
        if values:
            request.spec.CopyFrom((await self._get(id)).spec)
            change_options(values, request.spec)
        return self._job(await self._connection.call("Jobs/ResumeJob", request, jobs_pb2.Job,
                                                     option_named_by))

    async def adopt(self, id: str) -> AnyJob:
        """Goes on, as leader, with a job of several machines whose leader will not come back, from
        the checkpoint that this machine's part, the job `id`, has kept."""
        return self._job(await self._connection.call(
            "Jobs/AdoptJob", jobs_pb2.AdoptJobRequest(id=id), jobs_pb2.Job))

    async def delete(self, id: str) -> None:
        """Deletes a job that has ended, with its events, checkpoints and model."""
        request = jobs_pb2.DeleteJobRequest(id=id, request_id=new_request_id())
        await self._connection.call("Jobs/DeleteJob", request, Empty)

    async def _submit(self, kind: str, spec: spec_pb2.JobSpec, priority: int) -> jobs_pb2.Job:
        request = jobs_pb2.SubmitJobRequest(request_id=new_request_id(), spec=spec,
                                            priority=priority)
        return await self._connection.call("Jobs/SubmitJob", request, jobs_pb2.Job,
                                           lambda path: option_of(kind, path))

    async def _done(self, kind: str, options: Options, priority: int) -> AnyJob:
        """Submits a job of a kind; returns it once it has succeeded."""
        job = await self._submit(kind, job_spec(kind, options), priority)
        return await self._succeeded(job.id)

    async def _get(self, id: str) -> jobs_pb2.Job:
        return await self._connection.call("Jobs/GetJob", jobs_pb2.GetJobRequest(id=id),
                                           jobs_pb2.Job)

    async def _succeeded(self, id: str) -> AnyJob:
        job = await self.wait(id)
        if job.error is not None:
            raise JobFailed(id, job.error.code, f"{id}: {job.error.message}")
        if job.state is not JobState.SUCCEEDED:
            raise JobFailed(id, grpc.StatusCode.CANCELLED, f"{id} was cancelled")
        return job

    def _job(self, message: jobs_pb2.Job) -> AnyJob:
        return job_from(message, self._type_of_job, self)


def _state_named(state: Union[JobState, str]) -> JobState:
    try:
        return JobState(state.upper())
    except ValueError:
        words = ", ".join(one.value.lower() for one in JobState)
        raise invalid("state", f'"{state}" is not one of {words}') from None
