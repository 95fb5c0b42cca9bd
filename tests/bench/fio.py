"""What the disk can do, by fio: random and sequential reads past the page cache.

fio reads the dataset's own feature file and never writes, so that it meets the
same extents of the same file system as the strategies.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Iterable, Optional

from sizes import MIB

SECTOR_BYTES = 512
PAGE_BYTES = 4096
_SEQUENTIAL_DEPTH = 16
_ENGINES = ("io_uring", "libaio")


class FioError(Exception):
    """fio is absent or cannot read the file."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One measurement."""

    pattern: str  # "randread" or "read"
    block_bytes: int
    depth: int
    threads: int
    engine: str
    reads_per_second: float
    bytes_per_second: float
    mean_latency_seconds: float


@dataclasses.dataclass(frozen=True)
class Profile:
    """All points of a disk and, by block size, the fastest of its random ones."""

    points: tuple[Point, ...]

    def best_random(self, block_bytes: int) -> Optional[Point]:
        return max((point for point in self.points
                    if point.pattern == "randread" and point.block_bytes == block_bytes),
                   key=lambda point: point.reads_per_second, default=None)

    @property
    def sequential(self) -> Optional[Point]:
        return next((point for point in self.points if point.pattern == "read"), None)


@dataclasses.dataclass(frozen=True)
class DiskRate:
    """Random reads of one block size in one round."""

    block_bytes: int
    reads_per_second: float
    bytes_per_second: float


@dataclasses.dataclass(frozen=True)
class DiskRates:
    row: DiskRate  # a block that holds a row
    page: DiskRate  # what a page fault reads


def random_block(row_bytes: int) -> int:
    """The least direct read that holds a row that starts at a sector."""
    return -(-row_bytes // SECTOR_BYTES) * SECTOR_BYTES


def parse_point(text: str, *, pattern: str, block_bytes: int, depth: int, threads: int,
                engine: str) -> Point:
    """From fio's JSON, which lines of text may precede."""
    start = text.find("{")
    if start < 0:
        raise FioError(f"fio printed no JSON: {text[:200]!r}")
    try:
        (job,) = json.loads(text[start:])["jobs"]
        error, read = job["error"], job["read"]
        figures = (float(read["iops"]), float(read["bw_bytes"]),
                   float(read["lat_ns"]["mean"]) / 1e9)
    except (KeyError, TypeError, ValueError) as wrong:
        raise FioError(f"fio's JSON is not as expected: {wrong!r}") from wrong
    if error != 0 or figures[0] <= 0:
        raise FioError(f"fio read nothing (error {error})")
    return Point(pattern, block_bytes, depth, threads, engine, *figures)


class Fio:
    """Measures one file."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file = file
        self._seconds = seconds
        self._engine = ""
        if shutil.which("fio") is None:
            raise FioError("fio is not installed (Debian package fio)")

    def random(self, block_bytes: int, depth: int, threads: int = 1) -> Point:
        return self._measure("randread", block_bytes, depth, threads)

    def sequential(self) -> Point:
        return self._measure("read", MIB, _SEQUENTIAL_DEPTH, 1)

    def profile(self, block_sizes: Iterable[int], depths: Iterable[int]) -> Profile:
        """Every size at every depth, then the best depth split between two threads."""
        points = []
        for block_bytes in sorted(set(block_sizes)):
            of_size = [self.random(block_bytes, depth) for depth in depths]
            best = max(of_size, key=lambda point: point.reads_per_second)
            points += [*of_size, self.random(block_bytes, best.depth, threads=2)]
        return Profile((*points, self.sequential()))

    def rates(self, profile: Profile, row_bytes: int) -> DiskRates:
        """Measured again, where `profile` says that random reads are fastest."""
        return DiskRates(*(self._again(profile, block)
                           for block in (random_block(row_bytes), PAGE_BYTES)))

    def _again(self, profile: Profile, block_bytes: int) -> DiskRate:
        best = profile.best_random(block_bytes)
        if best is None:
            raise FioError(f"no reads of {block_bytes} B were measured")
        point = self.random(block_bytes, best.depth, best.threads)
        return DiskRate(block_bytes, point.reads_per_second, point.bytes_per_second)

    def _measure(self, pattern: str, block_bytes: int, depth: int, threads: int) -> Point:
        engines = (self._engine,) if self._engine else _ENGINES
        for engine in engines:
            try:
                point = self._run(engine, pattern, block_bytes, depth, threads)
            except FioError:
                if engine == engines[-1]:
                    raise
            else:
                self._engine = engine
                return point
        raise AssertionError("the last engine returns or raises")

    def _run(self, engine: str, pattern: str, block_bytes: int, depth: int,
             threads: int) -> Point:
        command = ["fio", "--name=hearth", "--readonly", f"--filename={self._file}",
                   "--direct=1", f"--ioengine={engine}", f"--rw={pattern}",
                   f"--bs={block_bytes}", f"--iodepth={max(1, depth // threads)}",
                   f"--numjobs={threads}", "--group_reporting", "--time_based",
                   f"--runtime={round(self._seconds * 1000)}ms", "--randrepeat=0",
                   "--norandommap", "--output-format=json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FioError(f"fio with {engine} ended with {done.returncode}: "
                           f"{done.stderr.strip()[-400:]}")
        return parse_point(done.stdout, pattern=pattern, block_bytes=block_bytes, depth=depth,
                           threads=threads, engine=engine)
