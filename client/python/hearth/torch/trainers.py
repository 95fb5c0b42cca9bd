"""The processes that train one model together, each on its shard of every batch, as
torch.distributed has them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from hearth.client import Client
from hearth.errors import HearthError, invalid
from hearth.packages import torch


class Trainers(NamedTuple):
    """How many there are, and which of them this process is. Equally many use each of several
    daemons, of which each has a feed for its own."""

    size: int
    rank: int
    daemons: int = 1

    @property
    def of_daemon(self) -> int:
        """How many use this process's daemon."""
        return self.size // self.daemons

    @property
    def daemon(self) -> int:
        """Which of the daemons that is."""
        return self.rank // self.of_daemon

    @property
    def channel(self) -> int:
        """Which of its trainers this process is."""
        return self.rank % self.of_daemon

    def agree(self, choose: Callable[[], str]) -> str:
        """What `choose` returns in the first process of this one's daemon; all processes must
        call this alike. What it raises in any is raised in all."""
        if self.size == 1:
            return choose()
        chosen, error = "", None
        if self.channel == 0:
            try:
                chosen = choose()
            except HearthError as raised:
                error = raised
        all_chosen = self._gather((chosen, error))
        for _, raised_there in all_chosen:
            if raised_there is not None:
                raise raised_there
        return str(all_chosen[self.daemon * self.of_daemon][0])

    def on_daemons(self, client: Client, dataset: str) -> Trainers:
        """These, with the daemons that they use, each the one of `client`, which all processes
        ask alike. Raises InvalidRequest unless equally many, one after the other, use each, and
        all have the same dataset."""
        if self.size == 1:
            return self
        daemons: list[Any] = self._gather(_identity(client, dataset))
        first = next((one for one in daemons if isinstance(one, HearthError)), None)
        if first is not None:
            raise first
        if len({fingerprint for _, fingerprint in daemons}) > 1:
            raise invalid("dataset", f"{dataset} is not the same at all daemons: bring it from "
                          "one to the others")
        names = [name for name, _ in daemons]
        count = len(set(names))
        found = Trainers(self.size, self.rank, count)
        if self.size % count or any(names[rank] != names[rank - rank % found.of_daemon]
                                    for rank in range(self.size)):
            raise invalid("source", f"is one of {count} daemons, which the processes do not share "
                          f"equally: {self.size} processes, in the order of their ranks, are to "
                          "be a number for the first, as many for the next, and so on")
        return found

    def _gather(self, own: Any) -> list[Any]:
        """What all processes have, by rank."""
        gathered: list[Any] = [None] * self.size
        torch().distributed.all_gather_object(gathered, own)
        return gathered


def _identity(client: Client, dataset: str) -> Any:
    """What tells a daemon from all others, and the dataset's fingerprint; an error."""
    try:
        status = client.status()
        return ((status.start_time, status.data_dir),
                client.dataset(dataset).fingerprint)
    except HearthError as error:
        return error


def trainers_of(world_size: Optional[int]) -> Trainers:
    """The trainers of a loader: the processes of torch.distributed, or this one alone."""
    distributed = torch().distributed
    here = (Trainers(distributed.get_world_size(), distributed.get_rank())
            if distributed.is_available() and distributed.is_initialized() else Trainers(1, 0))
    if world_size is None or world_size == here.size:
        return here
    if world_size == 1:
        return Trainers(1, 0)
    raise invalid("world_size", f"can be 1, or {here.size} as torch.distributed has it, not "
                  f"{world_size}" if here.size > 1 else
                  f"cannot be {world_size}: torch.distributed.init_process_group comes first")
