"""All calls of the daemon, as coroutines: see hearth.blocking."""

from __future__ import annotations

from typing import Generic, Optional

from hearth.connection import Connection, OnSilence
from hearth.daemon_calls import DaemonCalls
from hearth.dataset_calls import DatasetCalls
from hearth.graphs import AnyDataset
from hearth.jobs import AnyJob
from hearth.sweep_calls import SweepCalls
from hearth.sweeps import AnySweep
from hearth.transport import Transport


class Calls(DatasetCalls[AnyJob, AnyDataset], SweepCalls[AnySweep], DaemonCalls,
            Generic[AnyJob, AnyDataset, AnySweep]):
    """The calls of both clients, which differ in the transport and in the types of results:
    methods of results are calls of the same kind."""

    def __init__(self, transport: Transport, patience: float, watch_patience: float,
                 on_silence: Optional[OnSilence], type_of_job: type[AnyJob],
                 type_of_dataset: type[AnyDataset], type_of_sweep: type[AnySweep]) -> None:
        connection = Connection(transport, patience, watch_patience, on_silence)
        DatasetCalls.__init__(self, connection, type_of_job, type_of_dataset)
        SweepCalls.__init__(self, connection, type_of_sweep)

    @property
    def server(self) -> str:
        """"host:port" of the daemon."""
        return self._connection.server

    @property
    def watch_patience(self) -> float:
        """Seconds for which a watch tries to reach the daemon."""
        return self._connection.watch_patience

    async def close(self) -> None:
        """Ends the connection, and calls and watches over it."""
        await self._connection.close()
