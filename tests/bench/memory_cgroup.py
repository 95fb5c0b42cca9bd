"""A memory cgroup of its own for each daemon, of either version of cgroups.

It is made below the cgroup of this process, or, where that one cannot have
children with a memory controller, below the nearest ancestor that can. It holds
one daemon, and is removed after it.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import time
from pathlib import Path
from typing import Iterator, Optional, Sequence, TypedDict

_REMOVE_SECONDS = 10.0
# The shell enters, then becomes the command.
_ENTER = 'echo $$ > "$0" && exec "$@"'


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """Where memory is controlled: a mount point and this process's cgroup in it."""

    version: int
    mount: Path
    own: Path


class Usage(TypedDict):
    peak_bytes: Optional[int]
    out_of_memory_kills: int


class NoCgroup(Exception):
    """Why no memory cgroup can be made."""


def _unescape(text: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), text)


def find_hierarchy(mountinfo: str, own_cgroups: str) -> Hierarchy:
    """From the text of /proc/self/mountinfo and /proc/self/cgroup."""
    paths = {}
    for line in own_cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    version = 1 if "memory" in paths else 2
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = map(_unescape, left.split()[3:5])
        kind, _, options = right.split()[:3]
        wanted = (kind == "cgroup" and "memory" in options.split(",") if version == 1
                  else kind == "cgroup2")
        if not wanted:
            continue
        path = paths["memory" if version == 1 else ""]
        # Within a container the mount shows a part of the tree.
        shown = path[len(root):] if root != "/" and path.startswith(root) else path
        return Hierarchy(version, Path(point), Path(point) / shown.strip("/"))
    raise NoCgroup("no cgroup file system with a memory controller is mounted")


def own_hierarchy() -> Hierarchy:
    return find_hierarchy(Path("/proc/self/mountinfo").read_text(),
                          Path("/proc/self/cgroup").read_text())


def _write(control: Path, value: str) -> None:
    """Fails where the kernel has not made the file."""
    with open(control, "r+", encoding="ascii") as file:
        file.write(value)


def _candidates(hierarchy: Hierarchy) -> Iterator[Path]:
    folder = hierarchy.own if hierarchy.own.is_dir() else hierarchy.mount
    yield folder
    while folder != hierarchy.mount:
        folder = folder.parent
        yield folder


class MemoryCgroup:
    """Limits memory, the page cache included, without swap."""

    _made = 0

    def __init__(self, limit_bytes: Optional[int], hierarchy: Optional[Hierarchy] = None) -> None:
        self._hierarchy = hierarchy or own_hierarchy()
        self.limit_bytes = limit_bytes
        MemoryCgroup._made += 1
        self._name = f"hearth-bench-{os.getpid()}-{MemoryCgroup._made}"
        self._folder = self._make()

    def __enter__(self) -> MemoryCgroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def command(self, command: Sequence[str]) -> list[str]:
        """The same command, started in this cgroup: all its memory is counted."""
        return ["/bin/sh", "-c", _ENTER, str(self._folder / "cgroup.procs"), *command]

    def usage(self) -> Usage:
        first = self._hierarchy.version == 1
        peak = self._folder / ("memory.max_usage_in_bytes" if first else "memory.peak")
        events = (self._folder / ("memory.oom_control" if first else "memory.events")).read_text()
        kills = re.search(r"^oom_kill (\d+)$", events, re.MULTILINE)
        return Usage(peak_bytes=int(peak.read_text()) if peak.exists() else None,
                     out_of_memory_kills=int(kills[1]) if kills else 0)

    def remove(self) -> None:
        """REQUIRES: its processes have ended; the kernel may need a moment to notice."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                self._folder.rmdir()
                return
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _make(self) -> Path:
        refusals = []
        for parent in _candidates(self._hierarchy):
            folder = parent / self._name
            try:
                folder.mkdir()
            except OSError as error:
                refusals.append(str(error))
                continue
            try:
                self._set_limit(folder)
                return folder
            except OSError as error:
                folder.rmdir()
                refusals.append(str(error))
        raise NoCgroup("; ".join(refusals))

    def _set_limit(self, folder: Path) -> None:
        if self._hierarchy.version == 1:
            if self.limit_bytes is not None:
                _write(folder / "memory.limit_in_bytes", str(self.limit_bytes))
                swap = folder / "memory.memsw.limit_in_bytes"
                if swap.exists():
                    _write(swap, str(self.limit_bytes))
            (folder / "cgroup.procs").stat()
            return
        # Absent without the controller, which the parent hands down.
        _write(folder / "memory.max",
               "max" if self.limit_bytes is None else str(self.limit_bytes))
        swap = folder / "memory.swap.max"
        if swap.exists():
            _write(swap, "0")


def why_no_cgroup() -> Optional[str]:
    """None where this process can limit the memory of another."""
    try:
        MemoryCgroup(None).remove()
        return None
    except (NoCgroup, OSError) as error:
        return str(error)
