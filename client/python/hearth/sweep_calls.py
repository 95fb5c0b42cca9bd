"""The calls about sweeps, of both clients (hearth.blocking)."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, AsyncGenerator, Generic, Mapping, Optional, Union

import grpc
from google.protobuf.empty_pb2 import Empty

from hearth.connection import Connection, new_request_id
from hearth.errors import HearthError, InvalidRequest
from hearth.options.specs import merged, option_named_by, sweep_spec, trial_settings
from hearth.options.values import Value
from hearth.progress import Progress, SweepProgress
from hearth.rows import Rows
from hearth.space import Space
from hearth.sweeps import (AnySweep, EpochResult, EpochsReported, SweepEvent, Trial, event_from,
                           sweep_from, sweep_state)
from hearth.v1 import jobs_pb2, sweeps_pb2

if TYPE_CHECKING:
    from hearth.trackers.tracker import Tracker

SweepOptions = Mapping[str, Union[Value, Mapping[str, Space]]]
_SweepRequest = Union[sweeps_pb2.GetSweepRequest, sweeps_pb2.PauseSweepRequest,
                      sweeps_pb2.ResumeSweepRequest, sweeps_pb2.StopSweepRequest,
                      sweeps_pb2.StopTrialRequest]


class SweepCalls(Generic[AnySweep]):
    """The daemon's sweeps."""

    def __init__(self, connection: Connection, type_of_sweep: type[AnySweep]) -> None:
        self._connection = connection
        self._type_of_sweep = type_of_sweep

    async def sweep(self, options: Optional[SweepOptions] = None, /, *,
                    space: Optional[Mapping[str, Space]] = None, priority: int = 0,
                    **more: Value) -> AnySweep:
        """Begins a search for the best of many models. Options are the options of `train` that
        all trials share, and the options of the search (algorithm, trials, seeds, parallel,
        metric, ...). `space` maps each searched option to its values: a list, a
        hearth.LogUniform or the like, or a text such as "log:1e-4:1e-1"; it may also be among
        the options, as in a file."""
        values: dict[str, Any] = merged(options, more)
        spec = sweep_spec(values, {**values.pop("space", {}), **(space or {})})
        request = sweeps_pb2.SubmitSweepRequest(request_id=new_request_id(), spec=spec,
                                                priority=priority)
        names = tuple(parameter.name for parameter in spec.space)
        return self._sweep(await self._connection.call(
            "Sweeps/SubmitSweep", request, sweeps_pb2.Sweep,
            lambda path: option_named_by(path, names)))

    async def sweeps(self) -> Rows[AnySweep]:
        """All sweeps, the newest first, without their trials."""
        response = await self._connection.call("Sweeps/ListSweeps", sweeps_pb2.ListSweepsRequest(),
                                               sweeps_pb2.ListSweepsResponse)
        return Rows(map(self._sweep, response.sweeps))

    async def sweep_show(self, id: str) -> AnySweep:
        """One sweep with its trials."""
        return await self._of_sweep("GetSweep", sweeps_pb2.GetSweepRequest(id=id))

    async def sweep_watch(self, id: str,
                          from_sequence: int = 1) -> AsyncGenerator[SweepEvent, None]:
        """The events of a sweep in order, from a sequence number on, until it has ended. After a
        restart of the daemon it goes on after the last event seen."""
        async def has_ended() -> bool:
            return (await self.sweep_show(id)).state.has_ended

        events = self._connection.watch(
            "Sweeps/WatchSweep",
            sweeps_pb2.WatchSweepRequest(id=id, from_sequence=from_sequence),
            sweeps_pb2.SweepEvent,
            is_end=lambda event: (event.WhichOneof("payload") == "state"
                                  and sweep_state(event.state.state).has_ended),
            has_ended=has_ended)
        async with aclosing(events):
            async for message in events:
                event = event_from(message)
                if event is not None:
                    yield event

    async def sweep_wait(self, id: str) -> AnySweep:
        """Waits for the end of a sweep and returns it."""
        sweep = await self.sweep_show(id)
        if not sweep.state.has_ended:
            async with aclosing(self.sweep_watch(id, sweep.last_sequence + 1)) as events:
                async for _ in events:
                    pass
            sweep = await self.sweep_show(id)
        return sweep

    async def sweep_progress(self, id: str) -> AnySweep:
        """Shows the progress of a sweep until it has ended, and returns it: a bar of its jobs
        (tqdm, in a terminal or a notebook) with a line for each trial, epoch and end, or the
        lines alone without tqdm and where the output is a file. An interrupt leaves the sweep
        alone."""
        return await self._follow_sweep(id, progress=True)

    async def sweep_track(self, id: str, *trackers: Tracker, progress: bool = False) -> AnySweep:
        """Follows a sweep until it has ended, and returns it: each trial is a run of trackers of
        experiments (hearth.trackers), whose figures are the means over its replicas; a trial that
        takes the result of an equal one has none. No epoch is logged twice."""
        return await self._follow_sweep(id, *trackers, progress=progress)

    async def _follow_sweep(self, id: str, *trackers: Tracker, progress: bool) -> AnySweep:
        from hearth.trackers.following import SweepRuns
        sweep = await self.sweep_show(id)
        runs = SweepRuns(sweep, trackers)
        with SweepProgress(sweep) if progress else Progress[SweepEvent](id) as shown:
            async with aclosing(self.sweep_watch(id)) as events:
                async for event in events:
                    shown.take(event)
                    for job in runs.wanted(event) if trackers else ():
                        runs.take(await self._connection.call(
                            "Jobs/GetJob", jobs_pb2.GetJobRequest(id=job), jobs_pb2.Job))
            sweep = await self.sweep_show(id)
            runs.end(sweep)
        return sweep

    async def sweep_epochs(self, id: str) -> Rows[EpochResult]:
        """All epochs of all trials so far, in the order in which they were finished."""
        last = (await self.sweep_show(id)).last_sequence
        results: list[EpochResult] = []
        if last > 0:
            async with aclosing(self.sweep_watch(id)) as events:
                async for event in events:
                    if isinstance(event, EpochsReported):
                        results += event.results
                    if event.sequence >= last:
                        break
        return Rows(results)

    async def sweep_best(self, id: str) -> Trial:
        """The best trial so far; client.export(trial.best_job, folder) writes its model."""
        sweep = await self.sweep_show(id)
        if sweep.best_trial == 0:
            raise HearthError(grpc.StatusCode.FAILED_PRECONDITION,
                              f"{id} has no trial with a result")
        return sweep.trials[sweep.best_trial - 1]

    async def sweep_pause(self, id: str) -> AnySweep:
        """Interrupts the jobs of a sweep at their next batch, and begins no others."""
        return await self._of_sweep("PauseSweep", sweeps_pb2.PauseSweepRequest(id=id))

    async def sweep_resume(self, id: str) -> AnySweep:
        """Lets a paused sweep go on."""
        return await self._of_sweep("ResumeSweep", sweeps_pb2.ResumeSweepRequest(id=id))

    async def sweep_stop(self, id: str) -> AnySweep:
        """Ends a sweep, and cancels its jobs. No error if it has ended."""
        return await self._of_sweep("StopSweep", sweeps_pb2.StopSweepRequest(id=id))

    async def sweep_delete(self, id: str) -> None:
        """Deletes a sweep that has ended, with its jobs, their models and checkpoints."""
        request = sweeps_pb2.DeleteSweepRequest(id=id, request_id=new_request_id())
        await self._connection.call("Sweeps/DeleteSweep", request, Empty)

    async def add_trial(self, id: str, parameters: Optional[Mapping[str, Value]] = None, /,
                  **more: Value) -> Trial:
        """Adds a trial with these values of options. Other programs may add trials to the same
        sweep meanwhile, except a trial with the same values."""
        settings = trial_settings(merged(parameters, more))
        names = tuple(setting.name for setting in settings)
        number = len((await self.sweep_show(id)).trials) + 1
        while True:
            request = sweeps_pb2.AddTrialRequest(id=id, number=number, parameters=settings)
            try:
                # With its number the trial is added once, also if the call is repeated.
                sweep = await self._connection.call(
                    "Sweeps/AddTrial", request, sweeps_pb2.Sweep,
                    lambda path: option_named_by(path, names))
            except InvalidRequest as error:
                next_number = len((await self.sweep_show(id)).trials) + 1
                if error.field != "number" or next_number == number:
                    raise
                number = next_number
            else:
                return self._sweep(sweep).trials[number - 1]

    async def stop_trial(self, id: str, number: int) -> Trial:
        """Stops one trial. No error if it has ended."""
        request = sweeps_pb2.StopTrialRequest(id=id, trial=number)
        return (await self._of_sweep("StopTrial", request)).trials[number - 1]

    async def continue_trial(self, id: str, number: int, epoch: int) -> None:
        """Lets a trial go on after an epoch, where it otherwise waits `verdict_wait` seconds for
        stop_trial. No error if it does not wait."""
        request = sweeps_pb2.ContinueTrialRequest(id=id, trial=number, epoch=epoch)
        await self._connection.call("Sweeps/ContinueTrial", request, Empty)

    async def _of_sweep(self, method: str, request: _SweepRequest) -> AnySweep:
        return self._sweep(await self._connection.call(f"Sweeps/{method}", request,
                                                       sweeps_pb2.Sweep))

    def _sweep(self, message: sweeps_pb2.Sweep) -> AnySweep:
        return sweep_from(message, self._type_of_sweep, self)
