#!/usr/bin/env python3
"""Measures every strategy; prints one table and writes one JSON file.

See README.md. Exit codes: 0 done, 1 a run failed or runs cannot be compared, 2 usage.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

from bench import Bench, Outcome, make_dataset, say
from dataset import NoRoom
from hearth_daemon import RunFailed, help_of_train
from memory_limit import machine_bytes
from settings import Settings, parse_settings
from sizes import format_bytes
from strategies import ALL, Choice, UnknownStrategy, choose
from summary import Summary, disagreements, summarize
from sweep_bench import MODELS as SWEEP_MODELS
from sweep_bench import SweepBench, render_sweeps
from table import render

FORMAT = "hearth-bench-1"
SWEEP_FORMAT = "hearth-sweep-bench-1"


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"kernel": platform.release(), "processor": models[0] if models else None,
            "processors": len(os.sched_getaffinity(0)), "memory_bytes": machine_bytes(),
            "load_average": os.getloadavg()[0]}


def _plain(value: Any) -> Any:
    """For JSON: paths as text."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")


def document(settings: Settings, outcome: Outcome, summaries: list[Summary]) -> dict[str, Any]:
    """What the JSON file holds; null = cannot be known."""
    profile = outcome.profile
    return {
        "format": FORMAT,
        "unix_seconds": round(time.time()),
        "machine": _machine(),
        "settings": dataclasses.asdict(settings),
        "disk": {
            "device": outcome.device,
            "points": [dataclasses.asdict(point) for point in profile.points] if profile else [],
            "rounds": [{"round": number, **dataclasses.asdict(rate)}
                       for number, rate in outcome.disk.items()],
        },
        "left_out": outcome.left_out,
        "notes": outcome.notes,
        "runs": [dataclasses.asdict(run) for run in outcome.runs],
        "summaries": [dataclasses.asdict(summary) for summary in summaries],
    }


def _disk_lines(outcome: Outcome) -> list[str]:
    lines = []
    if outcome.device:
        lines.append(f"disk {outcome.device['name']}, read_ahead_kb "
                     f"{outcome.device['read_ahead_kb']}")
    if outcome.profile is None:
        return lines
    for block in sorted({point.block_bytes for point in outcome.profile.points}):
        best = outcome.profile.best_random(block)
        if best:
            lines.append(f"fio, random {block} B: {best.reads_per_second:,.0f} reads/s, "
                         f"{format_bytes(best.bytes_per_second)}/s (depth {best.depth}, "
                         f"{best.threads} threads, {best.engine})")
    sequential = outcome.profile.sequential
    if sequential:
        lines.append(f"fio, sequential: {format_bytes(sequential.bytes_per_second)}/s")
    return lines


def _print(outcome: Outcome, summaries: list[Summary]) -> None:
    print("\n".join(_disk_lines(outcome)))
    print()
    print(render(summaries))
    print()
    for name, reason in outcome.left_out.items():
        print(f"left out: {name}: {reason}")
    for note in outcome.notes:
        print(f"note: {note}")


def _choice(settings: Settings) -> Choice:
    return choose(help_of_train(), settings.strategies, settings.on_gpu)


def _measure_sweeps(settings: Settings) -> int:
    data_dir = settings.work / "data"
    make_dataset(settings, data_dir)
    bench = SweepBench(settings, data_dir,
                       round(settings.size.feature_bytes * settings.caches[0]))
    runs = []
    for number in range(1, settings.repeats + 1):
        for model in SWEEP_MODELS:
            for strategy in _choice(settings).chosen:
                runs.append(bench.run(strategy, model, number))
                say(f"round {number}, {strategy.name}, model {model}: done")
    _write(settings, {"format": SWEEP_FORMAT, "unix_seconds": round(time.time()),
                      "machine": _machine(), "settings": dataclasses.asdict(settings),
                      "runs": [dataclasses.asdict(run) for run in runs]})
    print(render_sweeps(runs))
    return 0


def _write(settings: Settings, figures: dict[str, Any]) -> None:
    settings.json_path.parent.mkdir(parents=True, exist_ok=True)
    settings.json_path.write_text(json.dumps(figures, indent=1, default=_plain) + "\n")


def main(arguments: list[str]) -> int:
    settings = parse_settings(arguments)
    # So that the daemon ends and its cgroup goes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if settings.sweep is not None:
            return _measure_sweeps(settings)
        outcome = Bench(settings, _choice(settings)).run()
    except (NoRoom, RunFailed, UnknownStrategy) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UnknownStrategy) else 1
    by_name = {strategy.name: strategy for strategy in ALL}
    wrong = disagreements(outcome.runs, lambda name: by_name[name].ordered,
                          lambda name: by_name[name].order)
    outcome.notes += wrong
    summaries = summarize(outcome.runs, outcome.disk)
    _write(settings, document(settings, outcome, summaries))
    _print(outcome, summaries)
    print(f"figures: {settings.json_path}")
    return 1 if wrong or any(run.failure for run in outcome.runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
