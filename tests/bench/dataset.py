"""The generated graph that is measured: its size, its name, room for it, its files."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any, Protocol

from sizes import MIB, format_bytes

COMMUNITIES = "communities"
GRAPHS = (COMMUNITIES, "rmat")
_FEATURE_BYTES = 4  # float32
_SPARE_BYTES = 256 * MIB  # left on the disk for jobs and logs


@dataclasses.dataclass(frozen=True)
class GraphSize:
    nodes: int = 2_000_000
    edges: int = 32_000_000
    dim: int = 128
    train_share: float = 0.005
    graph: str = COMMUNITIES

    @property
    def feature_bytes(self) -> int:
        return self.nodes * self.row_bytes

    @property
    def row_bytes(self) -> int:
        return self.dim * _FEATURE_BYTES

    @property
    def disk_bytes(self) -> int:
        """Of the dataset, and what sorting its edges takes besides."""
        id_bytes = 4 if self.nodes < 1 << 31 else 8
        checksums = self.feature_bytes // 1024
        scratch = self.edges * 2 * id_bytes
        return self.feature_bytes + checksums + self.edges * id_bytes + scratch + self.nodes * 16

    @property
    def name(self) -> str:
        share = f"{self.train_share:g}".replace(".", "p").replace("-", "m")
        kind = "" if self.graph == COMMUNITIES else f"{self.graph}-"
        return f"bench-{kind}{self.nodes}-{self.edges}-{self.dim}-{share}"


class Hearth(Protocol):
    """A client of a running daemon."""

    def json(self, *arguments: str) -> Any: ...


class NoRoom(Exception):
    """The disk cannot hold the dataset."""


def folder_of(data_dir: Path, size: GraphSize) -> Path:
    return data_dir / "datasets" / size.name


def check_room(work: Path, size: GraphSize) -> None:
    free = shutil.disk_usage(work).free
    if free < size.disk_bytes + _SPARE_BYTES:
        raise NoRoom(f"{work}: {size.nodes:,} nodes and {size.edges:,} edges of {size.dim} columns "
                     f"take {format_bytes(size.disk_bytes)}, and {format_bytes(free)} are free; "
                     "use --scale, --nodes or --work")


def generate(hearth: Hearth, size: GraphSize) -> None:
    """Validation and test are kept small: what is measured is training."""
    evaluated = f"{min(0.001, size.train_share):g}"
    hearth.json("dataset", "generate", size.name, "--graph", size.graph,
                "--nodes", str(size.nodes), "--edges", str(size.edges), "--dim", str(size.dim),
                "--train", f"{size.train_share:g}", "--valid", evaluated, "--test", evaluated)


def array_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def feature_file(folder: Path) -> Path:
    return folder / "node.features.npy"
