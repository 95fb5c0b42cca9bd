"""What is measured: the command line of the yardstick."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Optional, Sequence

from dataset import GRAPHS, GraphSize
from sizes import parse_bytes, parse_shares

MODELS = ("none", "sage")
SAMPLERS = ("neighbor", "subgraph")


@dataclasses.dataclass(frozen=True)
class _Preset:
    """What options that are not given default to."""

    size: GraphSize = GraphSize()
    cache: str = "10%"
    models: tuple[str, ...] = MODELS
    repeats: int = 3
    batch_size: int = 128
    fanouts: str = "10,10"
    memory_limit: str = "auto"
    disk_seconds: float = 4.0
    disk_depths: tuple[int, ...] = (32, 64, 128, 256)


_USUAL = _Preset()
_QUICK = _Preset(size=GraphSize(nodes=20_000, edges=320_000, train_share=0.05), repeats=1,
                 batch_size=16, disk_seconds=0.2, disk_depths=(64,))
# Features of 4 GiB, and memory for two thirds of them: the batches of a GNN's usual
# training, on a graph whose degrees are as uneven as those of the web's.
_LARGE = _Preset(size=GraphSize(nodes=1 << 23, edges=123_000_000, train_share=0.01, graph="rmat"),
                 cache="5%,10%,25%", models=("none",), repeats=1, batch_size=1024,
                 fanouts="10,10,10", memory_limit="2.75GiB")


@dataclasses.dataclass(frozen=True)
class Settings:
    size: GraphSize
    work: Path
    json_path: Path
    caches: tuple[float, ...]  # shares of the features' bytes
    models: tuple[str, ...]
    strategies: tuple[str, ...]  # empty = all that the binary knows
    repeats: int
    epochs: int
    batch_size: int
    fanouts: str
    hidden: int
    samplers: Optional[int]  # None = the daemon's default, as of the next two
    extractors: Optional[int]
    io_depth: Optional[int]
    sampler: str  # one of SAMPLERS
    memory_limit: Optional[int]  # bytes; None = derived from the run of `memory`
    limit_memory: bool
    device: str  # of the models
    precision: str  # of the models
    disk_seconds: float  # of each measurement by fio
    disk_depths: tuple[int, ...]
    # Jobs of a sweep that is measured instead; None = none is.
    sweep: Optional[int] = None

    def job_options(self) -> dict[str, str]:
        """Of `hearth train`, the same for every strategy."""
        return {"--dataset": self.size.name, "--fanouts": self.fanouts, "--seed": "1",
                "--batch-size": str(self.batch_size), "--epochs": str(self.epochs),
                "--hidden": str(self.hidden),
                **({"--sampler": self.sampler} if self.sampler != SAMPLERS[0] else {}),
                **({"--samplers": str(self.samplers)} if self.samplers else {}),
                **({"--extractors": str(self.extractors)} if self.extractors else {}),
                **({"--device": self.device} if self.on_gpu else {}),
                **({"--precision": self.precision} if self.precision != "fp32" else {})}

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _models(text: str) -> tuple[str, ...]:
    names = _names(text)
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        raise ValueError(f"{text!r} is none of {', '.join(MODELS)}")
    return names


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise ValueError(f"{text} is below 1")
    return int(text)


def _at_least_two(text: str) -> int:
    if int(text) < 2:
        raise ValueError(f"{text} is below 2")
    return int(text)


def _above_zero(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise ValueError(f"{text} is not above 0")
    return float(text)


def _share(text: str) -> float:
    if _above_zero(text) > 1:
        raise ValueError(f"{text} is above 1")
    return float(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/bench/run.sh", description="Measures every strategy against the disk, an "
        "optimal cache and mmap under the same memory.")
    default_work = Path(os.environ.get("HEARTH_CACHE", Path.home() / ".cache/hearth")) / "bench"
    add = parser.add_argument
    presets = parser.add_mutually_exclusive_group()
    presets.add_argument("--quick", action="store_const", dest="preset", const=_QUICK,
                         help="a smoke test: tiny graph, one repeat")
    presets.add_argument("--large", action="store_const", dest="preset", const=_LARGE,
                         help="an R-MAT graph with 4 GiB of features, batches of 1024 with "
                         "fan-outs 10,10,10, caches of 5%%, 10%% and 25%%, all held to 2.75GiB; "
                         "the data path alone, one repeat")
    parser.set_defaults(preset=_USUAL)
    add("--graph", choices=GRAPHS, help="default communities")
    add("--nodes", type=_at_least_one, help="default 2000000")
    add("--edges", type=_at_least_one, help="default 32000000")
    add("--dim", type=_at_least_one, help="float32 columns of the features; default 128")
    add("--scale", type=_above_zero, default=1.0, help="multiplies nodes and edges; default 1")
    add("--train-share", type=_share, help="share of training nodes; default 0.005")
    add("--work", type=Path, default=default_work,
        help="folder of datasets and results, on the disk to be measured; default %(default)s")
    add("--json", type=Path, help="where to write the figures; default WORK/hearth_bench.json")
    add("--cache", type=parse_shares, metavar="SHARES",
        help="cpu_cache as shares of the features, such as 5%%,10%%,25%%; default 10%%")
    add("--models", type=_models, metavar="NAMES",
        help="none (the data path alone), sage; default both")
    add("--strategies", type=_names, default=(), metavar="NAMES",
        help="default: all that the binary knows")
    add("--repeats", type=_at_least_one, help="rounds; default 3")
    add("--epochs", type=_at_least_one, default=2, help="of each run; default %(default)s")
    add("--batch-size", type=_at_least_one, help="default 128")
    add("--fanouts", help="default 10,10")
    add("--hidden", type=_at_least_one, default=128, help="default %(default)s")
    add("--samplers", type=_at_least_one, help="threads; default: the daemon's")
    add("--extractors", type=_at_least_one, help="threads; default: the daemon's")
    add("--io-depth", type=_at_least_one, help="reads in flight a thread; default: the daemon's")
    add("--sampler", choices=SAMPLERS, default=SAMPLERS[0],
        help="subgraph draws the neighbors of a node once, as PyG does; default %(default)s")
    add("--device", default="cpu", help="of the models: cpu, or cuda or cuda:N; default cpu")
    add("--precision", choices=("fp32", "bf16"), default="fp32",
        help="of the models; default %(default)s")
    add("--memory-limit", metavar="SIZE",
        help="of each daemon's cgroup: a size, none, or auto (default): what `memory` needs "
        "without its features, a quarter more, and the cache")
    add("--sweep", type=_at_least_two, metavar="JOBS",
        help="measures one job, and so many on equal data as a sweep, of one model and of "
             "several, sharing passes and not")
    add("--disk-seconds", type=_above_zero, help="of each measurement by fio; default 4")
    return parser


def _graph_size(options: argparse.Namespace) -> GraphSize:
    base = options.preset.size
    return GraphSize(nodes=round((options.nodes or base.nodes) * options.scale),
                     edges=round((options.edges or base.edges) * options.scale),
                     dim=options.dim or base.dim,
                     train_share=options.train_share or base.train_share,
                     graph=options.graph or base.graph)


def parse_settings(arguments: Sequence[str]) -> Settings:
    """Ends the process with usage 2 where the arguments make no sense."""
    parser = _parser()
    options = parser.parse_args(arguments)
    preset: _Preset = options.preset
    limit_text = options.memory_limit or preset.memory_limit
    try:
        limit = None if limit_text in ("auto", "none") else parse_bytes(limit_text)
    except ValueError as error:
        parser.error(str(error))
    work = options.work.expanduser().resolve()
    return Settings(
        size=_graph_size(options), work=work,
        json_path=(options.json or work / "hearth_bench.json").resolve(),
        caches=options.cache or parse_shares(preset.cache),
        models=options.models or preset.models, strategies=options.strategies,
        repeats=options.repeats or preset.repeats, epochs=options.epochs,
        batch_size=options.batch_size or preset.batch_size,
        fanouts=options.fanouts or preset.fanouts, hidden=options.hidden,
        samplers=options.samplers, extractors=options.extractors, io_depth=options.io_depth,
        sampler=options.sampler, memory_limit=limit, limit_memory=limit_text != "none",
        device=options.device, precision=options.precision,
        disk_seconds=options.disk_seconds or preset.disk_seconds,
        disk_depths=preset.disk_depths, sweep=options.sweep)
