"""A disk in memory, of a size of its own."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Iterator

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size_bytes: int, *umount: str) -> Iterator[Path]:
    """An empty disk at `folder`, which is made; it takes memory only for what is written.
    `umount` are options of the command. The test is skipped where nothing can be mounted."""
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", *umount, str(folder)], check=True)
