"""Sizes and shares as people write them."""

from __future__ import annotations

import re

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
_UNITS = {"": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": GIB << 10}


def parse_bytes(text: str) -> int:
    """`512MiB`, `1.5GiB` or `4096` as bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|B|)", text.strip())
    if not found:
        raise ValueError(f"{text!r} is no size; write it like 512MiB")
    return round(float(found[1]) * _UNITS[found[2]])


def parse_shares(text: str) -> tuple[float, ...]:
    """`5%,10%` as (0.05, 0.1), without repetitions, in order."""
    shares: dict[float, None] = {}
    for part in text.split(","):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)%", part.strip())
        if not found or not 0 < float(found[1]) <= 100:
            raise ValueError(f"{part!r} is no share; write it like 10%")
        shares[float(found[1]) / 100] = None
    return tuple(shares)


def format_bytes(count: float) -> str:
    """Three digits or so, in binary units."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.{0 if count >= 100 * size else 1}f} {unit}"
    return f"{count:.0f} B"
