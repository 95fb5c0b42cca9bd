"""A plan whose batches are sampled and packed by many machines.

  1. The daemon plans round 1 in the folder of pieces: ranges of batches, which are sampled.
  2. From all samples it decides which rows lie where, and plans round 2: the batches are packed.
  3. It joins these into the plan that it would have made by itself, byte for byte.

Between the steps, which are prepare jobs, each piece that is missing is a task of Ray's. A call
that was interrupted goes on where it was. A piece that the daemon finds damaged is made again.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Iterable, Mapping, Optional

import grpc
import ray

from hearth import pieces
from hearth.client import Client
from hearth.dataset_calls import AnyPath
from hearth.errors import HearthError, InvalidRequest
from hearth.jobs import PrepareReport
from hearth.options.values import Value
from hearth.ray.tasks import Tasks

_MOST_PIECES = 512
_SAMPLES = "samples.json"  # The plan of round 1.
# Two rounds, the join, and repeats for pieces that are damaged.
_STEPS = 6


def prepare(options: Mapping[str, Value], folder: AnyPath, *, client: Optional[Client] = None,
            num_pieces: Optional[int] = None, dataset_path: Optional[AnyPath] = None,
            memory: str = "1GiB", threads: int = 1, retries: int = 3, num_cpus: float = 1.0,
            priority: int = 0) -> PrepareReport:
    """Makes the plan of a train job with the same `options` (strategy="diskgnn"), as
    Client.prepare does; machines of the Ray cluster sample and pack its batches. The plan is the
    same, byte for byte, for any number of workers and repeats.

    Pieces lie in `folder`, which all machines and the daemon reach under one path. Each round is
    cut into `num_pieces` (default: as many tasks as the cluster runs at a time). Workers read the
    dataset at `dataset_path`, a copy of the daemon's, or, by default, at the daemon's own path;
    each takes at most `memory`, `threads`, and `num_cpus` of Ray's, and is repeated up to
    `retries` times. Pieces stay in the folder; delete it when the plan is made.

    Raises InvalidRequest for wrong options, HearthError for pieces that could not be made,
    JobFailed if the daemon cannot go on.
    """
    if num_pieces is None:
        cpus = ray.cluster_resources().get("CPU", 1.0)
        num_pieces = max(1, min(_MOST_PIECES, int(cpus / max(num_cpus, 1e-3))))
    path = os.path.abspath(folder)
    flags = ["--memory", memory, "--threads", str(threads)]
    if dataset_path is not None:
        flags += ["--dataset", os.fspath(dataset_path)]
    with ExitStack() as stack:
        if client is None:
            client = stack.enter_context(Client())
        fault = ""
        for _ in range(_STEPS):
            report = client.prepare({**options, "pieces": path, "num_pieces": num_pieces},
                                    priority=priority)
            made = report.preparation
            if made is None or not made.message.HasField("to_make"):
                pieces.remove_unfinished(path)
                return report
            plan, fault = made.message.to_make.plan, made.message.to_make.fault
            try:
                _make(plan, pieces.missing(plan) or pieces.missing(plan, contents=True), flags,
                      retries, num_cpus)
            except HearthError as error:
                # Round 2 reads what round 1 has made.
                samples = os.path.join(path, _SAMPLES)
                damaged = pieces.missing(samples, contents=True) if plan != samples else {}
                if isinstance(error, InvalidRequest) or not damaged:
                    raise
                _make(samples, damaged, flags, retries, num_cpus)
    raise HearthError(grpc.StatusCode.ABORTED, f"pieces are damaged again and again: {fault}")


def _make(plan: str, indices: Iterable[int], flags: list[str], retries: int,
          num_cpus: float) -> None:
    Tasks(_make_piece, (plan, os.path.dirname(plan), flags), retries=retries,
          num_cpus=num_cpus).make(indices)


def _make_piece(index: int, plan: str, folder: str, flags: list[str]) -> Optional[str]:
    """Makes a piece, on a worker. As Tasks asks."""
    try:
        pieces.make(plan, index, folder, *flags)
    except InvalidRequest as error:
        return error.message
    return None
