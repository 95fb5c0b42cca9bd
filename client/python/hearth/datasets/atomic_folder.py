"""Publishes a folder of files all at once or not at all.

The protocol:

1. A staging folder `.NAME.partial-XXXX` is made next to the target NAME, so
   that both are on one file system, and is locked with flock.
2. The caller fills it.
3. Every file and folder in it is synced, then the staging folder itself.
4. A folder already at the target is renamed to `.NAME.replaced-XXXX`.
5. The staging folder is renamed to the target and the parent is synced.
6. The replaced folder is removed.

A crash before 5 leaves no target, or the old one, and a staging folder whose
lock died with its owner; the next call removes such folders. Folders that a
live process still fills are locked, and are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

from hearth.durable import sync


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yields a staging folder that becomes `target` if the block succeeds.

    The staging folder is removed if the block raises. `target` is replaced
    if it exists: the caller decides before whether it may be.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    lock = os.open(staging, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield staging
        _publish(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(lock)


def _publish(staging: Path, target: Path) -> None:
    for path in staging.rglob("*"):
        sync(path)
    staging.chmod(0o777 & ~_umask())  # mkdtemp's 0700 would hide it from a daemon's user
    sync(staging)
    replaced = None
    if target.exists():
        replaced = staging.with_name(staging.name.replace(".partial-", ".replaced-"))
        os.rename(target, replaced)
    os.rename(staging, target)
    sync(target.parent)
    if replaced is not None:
        shutil.rmtree(replaced)


def _remove_abandoned(target: Path) -> None:
    for kind in ("partial", "replaced"):
        for folder in target.parent.glob(f".{target.name}.{kind}-*"):
            with contextlib.suppress(OSError):  # gone meanwhile, or locked: in use
                lock = os.open(folder, os.O_RDONLY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                finally:
                    os.close(lock)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
