"""Takes files out of the page cache, so that each run starts with none of them there."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Iterable

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Files are mapped by parts: a private mapping of more than the machine's memory is refused.
_WINDOW_BYTES = 1 << 30


def resident_bytes(path: Path) -> int:
    """Bytes of a file that the page cache holds (mincore)."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        return sum(_resident_bytes(file.fileno(), offset, min(_WINDOW_BYTES, size - offset))
                   for offset in range(0, size, _WINDOW_BYTES))


def _resident_bytes(descriptor: int, offset: int, size: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # ctypes takes the address of writable memory alone: a private mapping is that.
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY, offset=offset) as mapping:
        start = ctypes.c_char.from_buffer(mapping)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size),
                              flags)
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return bytes(flags).count(b"\x01") * mmap.PAGESIZE


def _advise_away(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)  # Dirty pages would stay.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def evict(paths: Iterable[Path]) -> int:
    """Gives the bytes that could not be taken out.

    Other files, the daemon's binary above all, stay where they are, so that no
    run is charged for them. Only where that is not enough, and as root, are all
    caches of the machine dropped.
    """
    files = list(paths)
    for path in files:
        _advise_away(path)
    left = sum(map(resident_bytes, files))
    if left and os.access(_DROP_CACHES, os.W_OK):
        os.sync()
        _DROP_CACHES.write_text("3")
        left = sum(map(resident_bytes, files))
    return left
