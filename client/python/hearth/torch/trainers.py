"""The processes that train one model together, each on its shard of every batch, as
torch.distributed has them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from hearth.errors import HearthError, invalid
from hearth.packages import torch


class Trainers(NamedTuple):
    """How many there are, and which of them this process is."""

    size: int
    rank: int

    def agree(self, choose: Callable[[], str]) -> str:
        """What `choose` returns in the process of rank 0, in all of them, which must call this
        alike. What it raises is raised in all of them."""
        if self.size == 1:
            return choose()
        # A result and an error.
        chosen: list[Any] = ["", None]
        if self.rank == 0:
            try:
                chosen[0] = choose()
            except HearthError as error:
                chosen[1] = error
        torch().distributed.broadcast_object_list(chosen, src=0)
        if chosen[1] is not None:
            raise chosen[1]
        return str(chosen[0])


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
