"""What is measured: the command line of the yardstick."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Optional, Sequence

from dataset import GraphSize
from sizes import parse_bytes, parse_shares

MODELS = ("none", "sage")
_QUICK_SIZE = GraphSize(nodes=20_000, edges=320_000, dim=128, train_share=0.05)


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
    samplers: int
    extractors: int
    io_depth: Optional[int]  # None = the daemon's default
    memory_limit: Optional[int]  # bytes; None = derived from the run of `memory`
    limit_memory: bool
    disk_seconds: float  # of each measurement by fio
    disk_depths: tuple[int, ...]

    def job_options(self) -> dict[str, str]:
        """Of `hearth train`, the same for every strategy."""
        return {"--dataset": self.size.name, "--fanouts": self.fanouts, "--seed": "1",
                "--batch-size": str(self.batch_size), "--epochs": str(self.epochs),
                "--hidden": str(self.hidden), "--samplers": str(self.samplers),
                "--extractors": str(self.extractors)}


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
    add("--quick", action="store_true", help="a smoke test: tiny graph, one repeat")
    add("--nodes", type=_at_least_one, help="default 2000000")
    add("--edges", type=_at_least_one, help="default 32000000")
    add("--dim", type=_at_least_one, help="float32 columns of the features; default 128")
    add("--scale", type=_above_zero, default=1.0, help="multiplies nodes and edges; default 1")
    add("--train-share", type=_share, help="share of training nodes; default 0.005")
    add("--work", type=Path, default=default_work,
        help="folder of datasets and results, on the disk to be measured; default %(default)s")
    add("--json", type=Path, help="where to write the figures; default WORK/hearth_bench.json")
    add("--cache", type=parse_shares, default=parse_shares("10%"), metavar="SHARES",
        help="cpu_cache as shares of the features, such as 5%%,10%%,25%%; default 10%%")
    add("--models", type=_models, default=MODELS, metavar="NAMES",
        help="none (the data path alone), sage; default both")
    add("--strategies", type=_names, default=(), metavar="NAMES",
        help="default: all that the binary knows")
    add("--repeats", type=_at_least_one, help="rounds; default 3")
    add("--epochs", type=_at_least_one, default=2, help="of each run; default %(default)s")
    add("--batch-size", type=_at_least_one, help="default 128")
    add("--fanouts", default="10,10", help="default %(default)s")
    add("--hidden", type=_at_least_one, default=128, help="default %(default)s")
    add("--samplers", type=_at_least_one, default=1, help="threads; default %(default)s")
    add("--extractors", type=_at_least_one, default=1, help="threads; default %(default)s")
    add("--io-depth", type=_at_least_one, help="reads in flight a thread; default: the daemon's")
    add("--memory-limit", default="auto", metavar="SIZE",
        help="of each daemon's cgroup: a size, none, or auto (default): what `memory` needs "
        "without its features, a quarter more, and the cache")
    add("--disk-seconds", type=_above_zero, help="of each measurement by fio; default 4")
    return parser


def _graph_size(options: argparse.Namespace) -> GraphSize:
    base = _QUICK_SIZE if options.quick else GraphSize()
    return GraphSize(nodes=round((options.nodes or base.nodes) * options.scale),
                     edges=round((options.edges or base.edges) * options.scale),
                     dim=options.dim or base.dim,
                     train_share=options.train_share or base.train_share)


def parse_settings(arguments: Sequence[str]) -> Settings:
    """Ends the process with usage 2 where the arguments make no sense."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        limit = (None if options.memory_limit in ("auto", "none")
                 else parse_bytes(options.memory_limit))
    except ValueError as error:
        parser.error(str(error))
    work = options.work.expanduser().resolve()
    quick = options.quick
    return Settings(
        size=_graph_size(options), work=work,
        json_path=(options.json or work / "hearth_bench.json").resolve(),
        caches=options.cache, models=options.models, strategies=options.strategies,
        repeats=options.repeats or (1 if quick else 3), epochs=options.epochs,
        batch_size=options.batch_size or (16 if quick else 128), fanouts=options.fanouts,
        hidden=options.hidden,
        samplers=options.samplers, extractors=options.extractors, io_depth=options.io_depth,
        memory_limit=limit, limit_memory=options.memory_limit != "none",
        disk_seconds=options.disk_seconds or (0.2 if quick else 4.0),
        disk_depths=(64,) if quick else (32, 64, 128, 256))
