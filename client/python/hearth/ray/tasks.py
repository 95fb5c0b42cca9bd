"""Pieces that tasks of Ray's make."""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Iterable, Optional, Sequence

import grpc
import ray

from hearth.errors import HearthError, InvalidRequest

# Tasks that Ray knows of at a time: enough for any cluster, and a list that is quickly waited for.
_TASKS = 1000


class Tasks:
    """Makes pieces by tasks of Ray's, which call `make` with the number of a piece and the
    `arguments`. It returns what is wrong with its input, which no repeat mends, and raises
    HearthError for anything else; `ended` hears, here, of each piece that is made."""

    def __init__(self, make: Callable[..., Optional[str]], arguments: Sequence[Any], *,
                 retries: int, num_cpus: float,
                 ended: Callable[[int], None] = lambda index: None) -> None:
        self._arguments = arguments
        self._ended = ended
        # Of exceptions, only those that a repeat may mend leave a task.
        self._task = ray.remote(make).options(
            num_cpus=num_cpus, max_retries=retries, retry_exceptions=True)

    def make(self, indices: Iterable[int]) -> None:
        """Makes the pieces. Raises HearthError."""
        left = iter(list(indices))
        running = {self._start(index): index for index in islice(left, _TASKS)}
        try:
            while running:
                ended, _ = ray.wait(list(running), num_returns=1)
                for task in ended:
                    self._end(task, running.pop(task))
                for index in islice(left, len(ended)):
                    running[self._start(index)] = index
        finally:
            for task in running:
                ray.cancel(task)

    def _start(self, index: int) -> Any:
        return self._task.remote(index, *self._arguments)

    def _end(self, task: Any, index: int) -> None:
        try:
            problem = ray.get(task)
        except ray.exceptions.RayError as error:
            raise HearthError(grpc.StatusCode.ABORTED,
                              f"piece {index} could not be made: {error}") from error
        if problem is not None:
            raise InvalidRequest(grpc.StatusCode.INVALID_ARGUMENT, problem)
        self._ended(index)
