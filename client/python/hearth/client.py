"""The client: jobs. Sweeps are in sweep_client.py."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Iterator, Mapping, Optional

import grpc
from google.protobuf.empty_pb2 import Empty

from hearth import transfers
from hearth.connection import Connection, OnSilence, new_request_id
from hearth.errors import HearthError, JobFailed
from hearth.jobs import (EvaluateReport, Job, JobEvent, JobState, TrainReport, evaluation_from,
                         event_from, job_from, job_state)
from hearth.options.specs import change_options, merged, option_named_by, train_spec
from hearth.options.values import Value
from hearth.rows import Rows
from hearth.servers import choose
from hearth.sweep_client import SweepCalls
from hearth.transfers import Progress
from hearth.v1 import jobs_pb2, spec_pb2

_JOBS_PER_PAGE = 200


class Client(SweepCalls):
    """The daemon's jobs and sweeps. Thread-safe; connects at the first call.

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

    Errors are HearthError. `timeout` is the seconds that one call may take, `patience` those for which a
    call, and `watch_patience` those for which a watch, tries to reach the daemon.
    """

    def __init__(self, server: Optional[str] = None, *, context: Optional[str] = None,
                 ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None,
                 token_file: Optional[str] = None, timeout: float = 60.0,
                 patience: float = 10.0, watch_patience: float = 120.0,
                 on_silence: Optional[OnSilence] = None) -> None:
        super().__init__(Connection(choose(server, context, ca, cert, key, token_file), timeout,
                                    patience, watch_patience, on_silence))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    @property
    def server(self) -> str:
        """"host:port" of the daemon."""
        return self._connection.server

    def close(self) -> None:
        """Ends the connection, and calls and watches over it."""
        self._connection.close()

    def train(self, options: Optional[Mapping[str, Value]] = None, /, *, priority: int = 0,
              **more: Value) -> Job:
        """Puts a train job into the queue. Options have the names of `hearth train`'s flags and
        job files, with `_` or `-` (client/OPTIONS.md lists them), or are paths of fields
        ("adam.learning_rate"); they are given as a mapping, as keywords, or both."""
        spec = spec_pb2.JobSpec(train=train_spec(merged(options, more)))
        return job_from(self._submit(spec, priority))

    def jobs(self, *states: JobState) -> Rows[Job]:
        """All jobs in one of `states`, the newest first; without states all jobs."""
        request = jobs_pb2.ListJobsRequest(
            page_size=_JOBS_PER_PAGE,
            states=[state.value for state in states])
        jobs: list[Job] = []
        while True:
            page = self._connection.call("Jobs/ListJobs", request, jobs_pb2.ListJobsResponse)
            jobs += map(job_from, page.jobs)
            request.page_token = page.next_page_token
            if not request.page_token:
                return Rows(jobs)

    def job(self, id: str) -> Job:
        """One job as it stands."""
        return job_from(self._get(id))

    def watch(self, id: str, from_sequence: int = 1) -> Iterator[JobEvent]:
        """The events of a job in order, from a sequence number on, until it has ended."""
        events = self._connection.watch(
            "Jobs/WatchJob", jobs_pb2.WatchJobRequest(id=id, from_sequence=from_sequence),
            jobs_pb2.JobEvent,
            is_end=lambda event: (event.WhichOneof("payload") == "state"
                                  and job_state(event.state.state).has_ended),
            has_ended=lambda: job_state(self._get(id).state).has_ended)
        return (event for event in map(event_from, events) if event is not None)

    def wait(self, id: str) -> Job:
        """The job once it has ended, however."""
        job = self.job(id)
        if not job.state.has_ended:
            for _ in self.watch(id, job.last_sequence + 1):
                pass
            job = self.job(id)
        return job

    def result(self, id: str) -> TrainReport:
        """The report of a train job once it has succeeded. Raises JobFailed if it does not."""
        return _report_of(self._succeeded(id))

    def report(self, id: str) -> TrainReport:
        """The report of a train job so far."""
        return _report_of(self.job(id))

    def cancel(self, id: str) -> Job:
        """Asks a job to stop at the next batch. No error if it has ended."""
        request = jobs_pb2.CancelJobRequest(id=id)
        return job_from(self._connection.call("Jobs/CancelJob", request, jobs_pb2.Job))

    def resume(self, id: str, options: Optional[Mapping[str, Value]] = None, /,
               **more: Value) -> Job:
        """Queues a job that failed or was cancelled once more, from its last checkpoint. It may
        go on with other values of options that change no result (cpu_cache, samplers, ...)."""
        request = jobs_pb2.ResumeJobRequest(request_id=new_request_id(), id=id)
        values = merged(options, more)
        if values:
            request.spec.CopyFrom(self._get(id).spec)
            change_options(values, request.spec)
        return job_from(self._connection.call("Jobs/ResumeJob", request, jobs_pb2.Job,
                                              option_named_by))

    def delete(self, id: str) -> None:
        """Forgets a job that has ended, its events, checkpoints and model."""
        request = jobs_pb2.DeleteJobRequest(id=id, request_id=new_request_id())
        self._connection.call("Jobs/DeleteJob", request, Empty)

    def evaluate(self, id: str, *, priority: int = 0) -> EvaluateReport:
        """Tests the model of a train job on the test nodes, without training, as the job would
        have at its end; returns the result once it is there. Raises JobFailed if it fails."""
        spec = spec_pb2.JobSpec()
        spec.evaluate.job_id = id
        job = self._succeeded(self._submit(spec, priority).id)
        return evaluation_from(job.message.report.evaluate)

    def export(self, id: str, destination: str) -> str:
        """Writes the model of a train job to a folder on the daemon's machine, which must not
        exist yet; returns its path once it is written."""
        spec = spec_pb2.JobSpec()
        spec.export.job_id = id
        spec.export.destination = os.path.abspath(destination)
        return self._succeeded(self._submit(spec, 0).id).message.report.export.path

    def download_model(self, id: str, path: str, *, replace: bool = False,
                       on_progress: Optional[Progress] = None) -> str:
        """Writes the model of a train job to the new folder `path` on this machine, with the
        files of `export`; returns its absolute path. What has come is in PATH.part until all is
        there: a download that was broken off goes on there. FileExistsError if there is
        something, unless the model in it is to be replaced."""
        folder = Path(os.path.abspath(path))
        transfers.download_model(self._connection, id, folder, replace, on_progress)
        return str(folder)

    def upload(self, name: str, source: str, *, format: str = "auto", labels: str = "auto",
               undirected: bool = False, dedup: bool = False, self_loops: str = "keep",
               non_finite: str = "refuse", fill_features: str = "none", bfloat16: bool = False,
               relabel: bool = False, split: str = "", igb_classes: int = 0,
               split_seed: Optional[int] = None, memory_limit_bytes: int = 0, priority: int = 0,
               on_progress: Optional[Progress] = None) -> Job:
        """Sends the graph in the folder or file `source` of this machine to the daemon, and
        imports it as the dataset `name`; returns the import's job once it has succeeded. What
        has come stays with the daemon for a while: an upload that was broken off goes on. The
        options are those of `hearth dataset upload`."""
        spec = spec_pb2.JobSpec()
        wanted = getattr(spec, "import")
        wanted.name = name
        wanted.format = transfers.word("format", format)
        wanted.labels = transfers.word("labels", labels)
        wanted.non_finite = transfers.word("non_finite", non_finite)
        wanted.fill_features = transfers.word("fill_features", fill_features)
        wanted.bfloat16_features = bfloat16
        wanted.memory_limit_bytes = memory_limit_bytes
        wanted.edges.add_reverse = undirected
        wanted.edges.remove_duplicates = dedup
        wanted.edges.self_loops = transfers.word("self_loops", self_loops)
        if relabel:
            wanted.edge_list.relabel = True
        if split:
            wanted.ogb.split = split
        if igb_classes:
            wanted.igb.num_classes = igb_classes
        if split_seed is not None:
            wanted.igb.split_seed = split_seed
        wanted.upload = transfers.upload(self._connection, name, Path(os.path.abspath(source)),
                                         on_progress)
        return self._succeeded(self._submit(spec, priority).id)

    def _submit(self, spec: spec_pb2.JobSpec, priority: int) -> jobs_pb2.Job:
        request = jobs_pb2.SubmitJobRequest(request_id=new_request_id(), spec=spec,
                                            priority=priority)
        return self._connection.call("Jobs/SubmitJob", request, jobs_pb2.Job, option_named_by)

    def _get(self, id: str) -> jobs_pb2.Job:
        return self._connection.call("Jobs/GetJob", jobs_pb2.GetJobRequest(id=id), jobs_pb2.Job)

    def _succeeded(self, id: str) -> Job:
        job = self.wait(id)
        if job.error is not None:
            raise JobFailed(id, job.error.code, f"{id}: {job.error.message}")
        if job.state is not JobState.SUCCEEDED:
            raise JobFailed(id, grpc.StatusCode.CANCELLED, f"{id} was cancelled")
        return job


def _report_of(job: Job) -> TrainReport:
    if job.report is None:
        raise HearthError(grpc.StatusCode.FAILED_PRECONDITION, f"{job.id} is not a train job")
    return job.report
