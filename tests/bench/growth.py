#!/usr/bin/env python3
"""How time, bytes and memory grow with the graph: the same jobs on ever larger ones.

Each graph is R-MAT with rows of 128 float16 columns, and as many training nodes
as every other, so that an epoch has as many batches. Each job runs in a fresh
daemon in a memory cgroup of its own, with a cold page cache. HEARTHD and HEARTH
name the binaries. Figures are kept in WORK/growth.json; what is there is not
measured again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Optional, Sequence

import page_cache
from dataset import NoRoom, array_files
from hearth_daemon import HearthDaemon, RunFailed
from memory_cgroup import MemoryCgroup
from sizes import GIB, MIB, format_bytes, parse_bytes
from table import align

_ROW_BYTES = 256
_DEGREE = 14.4  # of papers100M: 1.6 billion edges, 111 million nodes
_NODES = "2000000,8388608,30000000,111000000"
_STRATEGIES = ("gnndrive", "ginex", "diskgnn", "foresight")
_OPTIONS = ("--model", "none", "--epochs", "1", "--seed", "1", "--batch-size", "1024",
            "--fanouts", "10,10,10", "--samplers", "2", "--extractors", "2",
            "--io-depth", "128", "--skip-test", "true")


@dataclasses.dataclass(frozen=True)
class Graph:
    nodes: int
    train_nodes: int

    @property
    def name(self) -> str:
        return f"growth-{self.nodes}-{self.train_nodes}"

    @property
    def edges(self) -> int:
        return round(self.nodes * _DEGREE)

    @property
    def feature_bytes(self) -> int:
        return self.nodes * _ROW_BYTES

    @property
    def dataset_bytes(self) -> int:
        """Rows and their checksums, indices of 4 bytes, indptr, labels and splits."""
        return self.feature_bytes + self.nodes * (4 + 8 + 8) + self.edges * 4

    @property
    def disk_bytes(self) -> int:
        """The dataset, and the pairs that are sorted while it is made."""
        return self.dataset_bytes + self.edges * 8


@dataclasses.dataclass(frozen=True)
class Settings:
    work: Path
    memory_limit: int
    cache_share: float
    disk_limit: Optional[str]
    strategies: Sequence[str]
    keep: bool

    @property
    def data_dir(self) -> Path:
        return self.work / "growth-data"


def _daemon(settings: Settings, cgroup: MemoryCgroup) -> HearthDaemon:
    return HearthDaemon(settings.data_dir, cgroup, limits_jobs=True)


def _generate(settings: Settings, graph: Graph) -> dict[str, Any]:
    free = shutil.disk_usage(settings.work).free
    if free < graph.disk_bytes + GIB:
        raise NoRoom(f"{settings.work}: {graph.nodes:,} nodes take {format_bytes(graph.disk_bytes)} "
                     f"while they are made, and {format_bytes(free)} are free")
    few = f"{10 / graph.nodes:.12g}"  # What is measured is training.
    with MemoryCgroup(settings.memory_limit) as cgroup:
        with _daemon(settings, cgroup) as daemon:
            job = daemon.json(
                "dataset", "generate", graph.name, "--graph", "rmat", "--nodes", str(graph.nodes),
                "--edges", str(graph.edges), "--dtype", "float16",
                "--train", f"{graph.train_nodes / graph.nodes:.12g}",
                "--valid", few, "--test", few)
            peak = daemon.peak_resident_bytes()
    return {"seconds": job["report"]["seconds"], "written_bytes": job["report"]["bytes_written"],
            "peak_bytes": peak}


def _remove_plans(folder: Path) -> int:
    """Gives the bytes that they took on disk."""
    taken = 0
    for plan in folder.iterdir():
        if plan.is_dir():
            taken += sum(file.stat().st_blocks * 512 for file in plan.rglob("*"))
            shutil.rmtree(plan)
    return taken


def _train(settings: Settings, graph: Graph, strategy: str) -> dict[str, Any]:
    folder = settings.data_dir / "datasets" / graph.name
    page_cache.evict(array_files(folder))
    cache_bytes = round(settings.cache_share * graph.feature_bytes)
    options = ["--dataset", graph.name, "--strategy", strategy, "--cpu-cache", str(cache_bytes),
               *_OPTIONS]
    if strategy == "diskgnn":
        options += ["--distinct-epochs", "1"]
        if settings.disk_limit:
            options += ["--disk-limit", settings.disk_limit]
    with MemoryCgroup(settings.memory_limit) as cgroup:
        with _daemon(settings, cgroup) as daemon:
            start = time.monotonic()
            daemon.json("explain", *options)
            explain_seconds = time.monotonic() - start
            page_cache.evict(array_files(folder))
            job = daemon.json("train", *options)
            report = daemon.json("job", "show", job["id"])["report"]
    epoch = report["epochs"][0]
    plans = report.get("preparations") or []
    seconds = {phase["name"]: phase["seconds"] for plan in plans for phase in plan["phases"]}
    plan_bytes = _remove_plans(settings.data_dir / "plans")
    return {"explain_seconds": explain_seconds,
            "first_batch_seconds": report["first_batch_seconds"],
            "epoch_seconds": epoch["seconds"], "rows": epoch["rows_needed"],
            "read_bytes": epoch["bytes_read"], "reads": epoch["read_ops"],
            "plan_bytes": plan_bytes, "plan_seconds": seconds,
            "cache_bytes": cache_bytes, "peak_bytes": report["peak_memory_bytes"],
            "bound_bytes": report["memory_bound_bytes"], "loss_digest": report["loss_digest"],
            "memory": {each["owner"]: each["bytes"] for each in report["memory"]}}


def _measure(settings: Settings, graph: Graph, figures: dict[str, Any], save: Any) -> None:
    if "generated" not in figures:
        figures["generated"] = _generate(settings, graph)
        save()
        _say(f"{graph.nodes:,} nodes: generated in {figures['generated']['seconds']:.0f} s")
    for strategy in settings.strategies:
        if strategy in figures:
            continue
        try:
            figures[strategy] = _train(settings, graph, strategy)
            _say(f"{graph.nodes:,} nodes: {strategy}: {figures[strategy]['epoch_seconds']:.1f} s")
        except RunFailed as error:
            _say(f"{graph.nodes:,} nodes: {strategy}: {error}")
            continue
        save()


def per_node(figures: dict[str, Any], nodes: int) -> float:
    """Bytes of memory a node at the peak, beside the rows that the job may keep."""
    beside: int = figures["peak_bytes"] - figures["cache_bytes"]
    return beside / nodes


def rows_of(graph: Graph, figures: dict[str, Any]) -> list[list[str]]:
    """The lines of a graph in the table, one for each strategy that has figures."""
    made = figures["generated"]
    rows = []
    for strategy in _STRATEGIES:
        if strategy not in figures:
            continue
        run = figures[strategy]
        rows.append([
            f"{graph.nodes:,}", strategy, f"{made['seconds']:.0f}",
            f"{graph.edges / made['seconds'] / 1e6:.1f}",
            f"{made['written_bytes'] / GIB:.1f}", f"{run['explain_seconds']:.1f}",
            f"{run['first_batch_seconds']:.1f}", f"{run['epoch_seconds']:.1f}",
            f"{run['rows'] / 1e6:.1f}", f"{(run['read_bytes'] or 0) / MIB:,.0f}",
            f"{run['plan_bytes'] / MIB:,.0f}", f"{run['peak_bytes'] / MIB:,.0f}",
            f"{per_node(run, graph.nodes):.1f}",
            f"{run['bound_bytes'] / run['peak_bytes']:.2f}"])
    return rows


_HEADINGS = ["nodes", "strategy", "generate s", "M edges/s", "dataset GiB", "explain s",
             "first batch s", "epoch s", "M rows", "read MiB", "plan MiB", "peak MiB",
             "B/node beside cache", "bound/peak"]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str]) -> tuple[Settings, list[Graph]]:
    parser = argparse.ArgumentParser(prog="tests/bench/growth.py", description=__doc__)
    add = parser.add_argument
    add("--nodes", default=_NODES, help="sizes of the graphs; default %(default)s")
    add("--train-nodes", type=int, default=100_000, help="default %(default)s: 98 batches")
    add("--work", type=Path, required=True, help="folder on the disk to be measured")
    add("--memory-limit", type=parse_bytes, default=12 * GIB,
        help="of each daemon's cgroup; default 12GiB")
    add("--cache-share", type=float, default=0.05,
        help="cpu_cache as a share of the features; default %(default)s")
    add("--disk-limit", help="of diskgnn's plan, as that of hearth train; default none")
    add("--strategies", nargs="+", choices=_STRATEGIES, default=_STRATEGIES,
        help="default all: %(default)s")
    add("--keep", action="store_true", help="leave the graphs on the disk")
    options = parser.parse_args(arguments)
    settings = Settings(options.work.resolve(), options.memory_limit, options.cache_share,
                        options.disk_limit, options.strategies, options.keep)
    return settings, [Graph(int(nodes), options.train_nodes) for nodes in options.nodes.split(",")]


def main(arguments: Sequence[str]) -> int:
    settings, graphs = _parse(arguments)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    kept = settings.work / "growth.json"
    figures: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}

    def save() -> None:
        kept.write_text(json.dumps(figures, indent=1) + "\n")

    lines = [_HEADINGS]
    for graph in graphs:
        try:
            _measure(settings, graph, figures.setdefault(graph.name, {}), save)
        except (NoRoom, RunFailed) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if not settings.keep:
            shutil.rmtree(settings.data_dir / "datasets" / graph.name, ignore_errors=True)
        lines += rows_of(graph, figures[graph.name])
    print("\n".join(align(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
