"""The memory that every strategy gets, the same for all."""

from __future__ import annotations

import os
from typing import Optional

from sizes import MIB

# The share of the machine's memory that features may take for `memory` to be run.
_FITS_SHARE = 0.6
_DAEMON_BYTES = 64 * MIB


def machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def features_fit(feature_bytes: int, memory_bytes: Optional[int] = None) -> bool:
    return feature_bytes <= _FITS_SHARE * (memory_bytes or machine_bytes())


def automatic_limit(memory_peak_bytes: int, feature_bytes: int, cache_bytes: int) -> int:
    """What a job holds besides its features, a quarter more, and the cache.

    `memory_peak_bytes` is the peak of a job of `memory`, which holds all features
    besides topology, batches, model and optimizer.
    """
    besides = max(0, memory_peak_bytes - feature_bytes)
    return besides * 5 // 4 + _DAEMON_BYTES + cache_bytes
