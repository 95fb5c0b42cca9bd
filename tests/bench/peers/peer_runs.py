"""Runs of the peers, each in a process and, where it is limited, a cgroup of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dataset  # noqa: E402
import page_cache  # noqa: E402
from dataset import GraphSize  # noqa: E402
from figures import Run, epoch_of  # noqa: E402
from hearth_daemon import HearthDaemon, RunFailed  # noqa: E402
from memory_cgroup import MemoryCgroup  # noqa: E402
from sizes import format_bytes  # noqa: E402
from strategies import is_mmap  # noqa: E402

_HERE = Path(__file__).resolve().parent
_MESSAGE_BYTES = 400
_MEMORY = "memory"
_MAPPED = (_MEMORY, "normal", "random")
_HEARTH = "hearth"
# Where each peer can have its features; see FEATURES and STRATEGIES of peer.py.
FEATURES_OF = {"pyg": _MAPPED, "dgl": _MAPPED, "graphbolt": (*_MAPPED, "disk", "disk-cached"),
               _HEARTH: (_MEMORY, "gnndrive", "diskgnn")}
_CACHED = ("disk-cached", "gnndrive", "diskgnn")


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    features: str

    @property
    def strategy(self) -> str:
        return f"{self.name}-{self.features}"

    @property
    def limited(self) -> bool:
        """As Hearth's `memory`, what has all features in memory is what others are held to."""
        return self.features != _MEMORY

    @property
    def alone(self) -> Peer:
        """What tells the memory that this peer takes besides its features and their cache."""
        mapped = self.features in _MAPPED and self.name != _HEARTH
        return Peer(self.name, "normal") if mapped else self

    @property
    def keeps_cache(self) -> bool:
        """Whether a cache of rows is part of its own memory."""
        return self.features in _CACHED

    def cache_bytes(self, setting: Setting) -> int:
        return setting.cache_bytes if self.keeps_cache else 0


@dataclasses.dataclass(frozen=True)
class Setting:
    """One block of the table."""

    cache_share: float
    model: str
    cache_bytes: int
    # That mmap had besides what it held; None = not limited, or to a fixed size.
    page_cache_bytes: Optional[int]


@dataclasses.dataclass(frozen=True)
class Options:
    environments: Path
    workers: int
    precision: str
    device: str
    run_seconds: float  # after which a run has failed
    limit_memory: bool


class Peers:
    """REQUIRES: the dataset of `document`, hearth_bench's, is where that left it."""

    def __init__(self, document: dict[str, Any], options: Options) -> None:
        self._settings = document["settings"]
        self._summaries = document["summaries"]
        self._options = options
        self._own_bytes: dict[tuple[Peer, str], int] = {}
        self.size = GraphSize(**self._settings["size"])
        self._data_dir = Path(self._settings["work"]) / "data"
        self.folder = dataset.folder_of(self._data_dir, self.size)
        # By peer: the packages that it ran with.
        self.versions: dict[str, dict[str, str]] = {}

    def settings(self) -> Iterator[Setting]:
        """One for each model and cache: their memory limits differ."""
        seen = set()
        for summary in self._summaries:
            key = (summary["cache_share"], summary["model"])
            if key in seen or summary["failures"] or not self._tells_memory(summary):
                continue
            seen.add(key)
            limit = summary["memory_limit_bytes"]
            room = limit and limit - round(summary["peak_memory_bytes"])
            yield Setting(*key, summary["cache_bytes"], None if self._fixed_limit else room)

    def run(self, peer: Peer, setting: Setting, number: int) -> Run:
        epochs = self._settings["epochs"]
        if not self._options.limit_memory or not peer.limited:
            return self._run_within(peer, setting, number, epochs, None)
        if setting.page_cache_bytes is None:
            return self._run_within(peer, setting, number, epochs, self._fixed_limit)
        key = (peer.alone, setting.model)
        if key not in self._own_bytes:
            # Also brings its libraries into the page cache, at no run's charge.
            alone = self._run_within(peer.alone, setting, number, 1, None)
            if alone.peak_memory_bytes is None:
                return dataclasses.replace(alone, strategy=peer.strategy)
            self._own_bytes[key] = alone.peak_memory_bytes - peer.cache_bytes(setting)
        limit = self._own_bytes[key] + setting.page_cache_bytes
        return self._run_within(peer, setting, number, epochs, limit)

    @property
    def _fixed_limit(self) -> Optional[int]:
        return self._settings["memory_limit"]

    def _tells_memory(self, summary: dict[str, Any]) -> bool:
        """Whether it tells how much memory Hearth had for its rows: mmap's does."""
        return (not self._settings["limit_memory"] or self._fixed_limit is not None
                or is_mmap(summary["strategy"]))

    def _run_within(self, peer: Peer, setting: Setting, number: int, epochs: int,
                    limit: Optional[int]) -> Run:
        left = page_cache.evict(dataset.array_files(self.folder))
        run = Run(peer.strategy, setting.model, setting.cache_share, setting.cache_bytes, number,
                  limit, left_in_page_cache_bytes=left)
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            command = self._command(peer, setting, epochs, report)
            if limit is None:
                return self._finished(peer, run, report, *self._execute(peer, command, None))
            with MemoryCgroup(limit) as cgroup:
                code, message = self._execute(peer, command, cgroup)
                usage = cgroup.usage()
            if code and usage["out_of_memory_kills"]:
                message = f"killed at the memory limit of {format_bytes(limit)}"
            return dataclasses.replace(self._finished(peer, run, report, code, message),
                                       cgroup_peak_bytes=usage["peak_bytes"])

    def _command(self, peer: Peer, setting: Setting, epochs: int, report: Path) -> list[str]:
        return [str(self._options.environments / peer.name / "bin/python"),
                str(_HERE / f"{peer.name}_peer.py"), "--dataset", str(self.folder),
                "--features", peer.features, "--cache-bytes", str(setting.cache_bytes),
                "--model", setting.model, "--fanouts", self._settings["fanouts"],
                "--batch-size", str(self._settings["batch_size"]),
                "--epochs", str(epochs), "--hidden", str(self._settings["hidden"]),
                "--workers", str(self._options.workers),
                "--precision", self._options.precision,
                "--device", self._options.device, "--report", str(report),
                *(["--feed", json.dumps(self._feed_options(peer, setting))]
                  if peer.name == _HEARTH else [])]

    def _feed_options(self, peer: Peer, setting: Setting) -> dict[str, Any]:
        """Those of Hearth's own runs."""
        options = {"strategy": peer.features, "data_seed": 1,
                   "distinct_epochs": self._settings["epochs"]}
        of_reads = ("io_depth",) if peer.keeps_cache else ()
        options.update({name: value for name in ("samplers", "extractors", *of_reads)
                        if (value := self._settings.get(name))})
        if peer.keeps_cache:
            options["cpu_cache"] = setting.cache_bytes
        return options

    def _execute(self, peer: Peer, command: list[str],
                 cgroup: Optional[MemoryCgroup]) -> tuple[int, str]:
        """Its processes have ended when it returns, so that their cgroup can go."""
        with contextlib.ExitStack() as daemons:
            if peer.name == _HEARTH:
                try:
                    daemon = daemons.enter_context(HearthDaemon(self._data_dir, cgroup))
                except RunFailed as error:
                    return 1, str(error)
                command = [*command, "--server", daemon.socket, "--daemon", str(daemon.pid)]
            return self._execute_alone(cgroup.command(command) if cgroup else command)

    def _execute_alone(self, command: list[str]) -> tuple[int, str]:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, start_new_session=True) as process:
            try:
                _, errors = process.communicate(timeout=self._options.run_seconds)
            except subprocess.TimeoutExpired:
                return 1, f"not done in {self._options.run_seconds:g} s"
            finally:
                _end_group(process.pid)
        return process.returncode, errors.strip()[-_MESSAGE_BYTES:]

    def _finished(self, peer: Peer, run: Run, report: Path, code: int, message: str) -> Run:
        if code != 0 or not report.exists():
            return dataclasses.replace(run, failure=message or f"ended with {code}")
        read = json.loads(report.read_text())
        self.versions[peer.name] = read["versions"]
        return dataclasses.replace(run, epochs=tuple(map(epoch_of, read["epochs"])),
                                   peak_memory_bytes=read["peak_memory_bytes"])


def _end_group(group: int) -> None:
    """Ends a process that leads a group, and the loaders that it may have left."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
