"""The block device that a file lies on, as the kernel describes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional, TypedDict


class BlockDevice(TypedDict):
    name: str
    read_ahead_kb: Optional[int]
    rotational: Optional[bool]


def _number(path: Path) -> Optional[int]:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def block_device_of(path: Path, sys: Path = Path("/sys")) -> Optional[BlockDevice]:
    """None where the file system has no block device of its own (overlay, tmpfs, network)."""
    device = os.stat(path).st_dev
    link = sys / "dev/block" / f"{os.major(device)}:{os.minor(device)}"
    if not link.exists():
        return None
    folder = link.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    rotational = _number(folder / "queue/rotational")
    return BlockDevice(name=folder.name, read_ahead_kb=_number(folder / "queue/read_ahead_kb"),
                       rotational=None if rotational is None else bool(rotational))
