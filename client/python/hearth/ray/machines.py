"""Several machines of a Ray cluster train one model, as `hearth run` does under torchrun or srun.

Each machine has an actor, which runs `hearth run` with a daemon of its own; the actors' processes
find each other by variables, as those of any launcher.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import grpc
import ray
from google.protobuf import json_format

from hearth.errors import HearthError, invalid
from hearth.jobs import TrainReport, report_from
from hearth.options.specs import train_spec
from hearth.options.values import Value
from hearth.private import find_program
from hearth.v1 import report_pb2

_SECRET_BYTES = 32
_SIGTERM_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG


class _Ended(NamedTuple):
    code: int
    out: str
    err: str


class _Machine:
    """An actor: one rank of a run."""

    def __init__(self) -> None:
        self._process: Optional[subprocess.Popen[str]] = None

    def address(self) -> str:
        """Where other machines reach this one."""
        return str(ray.util.get_node_ip_address())

    def free_port(self) -> int:
        """A port that nobody uses at present."""
        with socket.socket() as one:
            one.bind(("", 0))
            return int(one.getsockname()[1])

    def run(self, options: Mapping[str, Any], flags: Sequence[str], variables: Mapping[str, str],
            secret: bytes) -> _Ended:
        """Runs the command to its end."""
        with tempfile.TemporaryDirectory(prefix="hearth-ray-") as folder:
            job = Path(folder, "job.yaml")
            job.write_text(json.dumps(dict(options)), encoding="utf-8")  # JSON is YAML.
            secret_file = Path(folder, "secret")
            secret_file.touch(mode=0o600)
            secret_file.write_bytes(secret)
            environment = {**os.environ, **variables,
                           "HEARTH_CLUSTER_SECRET_FILE": str(secret_file)}
            # Files: the wait is for the command alone, not for who has inherited a pipe.
            with open(Path(folder, "out"), "w+", encoding="utf-8") as out, \
                    open(Path(folder, "err"), "w+", encoding="utf-8") as err:
                process = subprocess.Popen(
                    [find_program("hearth"), "run", "--hearthd", find_program("hearthd"),
                     "--file", str(job), "--output", "json", *flags], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    preexec_fn=_end_with_parent)
                code = process.wait()
                out.seek(0)
                err.seek(0)
                return _Ended(code, out.read(), err.read())


def _end_with_parent() -> None:
    """In the child: a killed actor takes its run with it, at a checkpoint."""
    ctypes.CDLL(None).prctl(_SIGTERM_AT_PARENTS_END, signal.SIGTERM)


def train(options: Mapping[str, Value], *, machines: int, data_dir: str,
          source: Optional[str] = None, to: Optional[str] = None,
          resources: Optional[Mapping[str, float]] = None,
          flags: Sequence[str] = ()) -> TrainReport:
    """Trains one model on `machines` machines of the Ray cluster, and returns the report of its
    job. Results are those of `trainers=machines` on one machine.

    `options` are those of `Client.train`. Each machine keeps its daemon's data in `data_dir`, on
    its own disk: the same call goes on from the last checkpoint, where the first machine is the
    same. `source` is the graph, at the same path on all machines, imported where it is missing;
    `to` is a new folder for the model, on the first machine. Each machine's actor takes
    `resources`, by default one CPU: {"CPU": 16, "GPU": 1}. `flags` are further ones of
    `hearth run`.

    The programs hearth and hearthd are those of HEARTH and HEARTHD, of the Python environment of
    Ray's workers, or in their PATH. Raises HearthError: InvalidRequest for wrong options,
    RESOURCE_EXHAUSTED if the cluster has no such machines, ABORTED with what `hearth run` says if
    it fails.
    """
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    if machines < 1:
        raise invalid("machines", f"must be at least 1, not {machines}")
    train_spec(options)
    wanted = dict(resources or {"CPU": 1})
    group = placement_group([wanted] * machines, strategy="STRICT_SPREAD")
    try:
        _await(group, machines, wanted)
        actor = ray.remote(_Machine)
        actors = [actor.options(
            num_cpus=wanted.get("CPU", 0), num_gpus=wanted.get("GPU", 0),
            resources={name: value for name, value in wanted.items()
                       if name not in ("CPU", "GPU", "memory")},
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=rank)).remote() for rank in range(machines)]
        return _run(actors, options, _flags_of(data_dir, source, to, flags))
    finally:
        # Ends the actors, and so their runs.
        remove_placement_group(group)


def _flags_of(data_dir: str, source: Optional[str], to: Optional[str],
              flags: Sequence[str]) -> list[str]:
    named = {"--data-dir": data_dir, "--source": source, "--to": to}
    return [*(word for name, value in named.items() if value is not None
              for word in (name, value)), *flags]


def _await(group: Any, machines: int, wanted: Mapping[str, float]) -> None:
    """Waits for the machines; a cluster that cannot have them is told at once."""
    nodes = [node for node in ray.nodes() if node["Alive"] and all(
        node["Resources"].get(name, 0) >= value for name, value in wanted.items())]
    if len(nodes) < machines:
        raise HearthError(grpc.StatusCode.RESOURCE_EXHAUSTED,
                          f"machines: the Ray cluster has {len(nodes)} with {dict(wanted)}, not "
                          f"{machines}")
    ray.get(group.ready())


def _run(actors: Sequence[Any], options: Mapping[str, Value], flags: Sequence[str]) -> TrainReport:
    port = ray.get(actors[0].free_port.remote())
    addresses = ray.get([one.address.remote() for one in actors])
    secret = secrets.token_bytes(_SECRET_BYTES)
    run_id = secrets.token_hex(16)
    named = {name.replace("_", "-"): value for name, value in options.items()}
    ranks = [one.run.remote(named, flags, {
        "HEARTH_RANK": str(rank), "HEARTH_RANKS": str(len(actors)), "HEARTH_LEADER": addresses[0],
        # Several nodes of Ray may be on one machine.
        "HEARTH_LOCAL_RANK": str(addresses[:rank].count(addresses[rank])),
        "HEARTH_LOCAL_RANKS": str(addresses.count(addresses[rank])),
        "HEARTH_RUN_ID": run_id, "HEARTH_CLUSTER_PORT": str(port)}, secret)
        for rank, one in enumerate(actors)]
    ended = ray.get(ranks)
    # A rank that has failed is why others have.
    for rank, (code, out, err) in enumerate(ended):
        if code != 0 and "has ended with" not in err:
            raise HearthError(grpc.StatusCode.ABORTED, f"rank {rank} ended with {code}: "
                              f"{err.strip() or out.strip()}")
    return report_from(json_format.ParseDict(
        json.loads(ended[0].out)["report"], report_pb2.TrainReport(), ignore_unknown_fields=True))
