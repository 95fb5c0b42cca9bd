"""The one table that a person reads."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from sizes import format_bytes
from summary import Summary


def _number(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{digits}f}"


def _times(value: float) -> str:
    return f"{value:.2f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


# Heading, field of Summary, how it is written.
COLUMNS: tuple[tuple[str, str, Callable[..., str]], ...] = (
    ("strategy", "strategy", str),
    ("s/epoch", "epoch_seconds", _number(2)),
    ("first", "first_epoch_seconds", _number(2)),
    ("prepare", "prepare_seconds", _number(1)),
    ("rows/s", "rows_per_second", _number(0)),
    ("needed", "bytes_needed", format_bytes),
    ("read", "bytes_read", format_bytes),
    ("reads", "read_ops", _number(0)),
    ("rows/disk", "disk_limit_ratio", _times),
    ("B/s/disk", "disk_bytes_ratio", _times),
    ("read/opt", "optimal_ratio", _times),
    ("idle", "trainer_idle", _percent),
    ("peak RSS", "peak_memory_bytes", format_bytes),
    ("cgroup", "cgroup_peak_bytes", format_bytes),
    ("x mmap", "speed_to_mmap", _times),
    ("x memory", "tax_to_memory", _times),
)


def _cell(summary: Summary, field: str, write: Callable[..., str]) -> str:
    value = getattr(summary, field)
    return "-" if value is None else write(value)


def _title(summary: Summary, limit: Optional[int]) -> str:
    what = "data path alone" if summary.model == "none" else f"training {summary.model}"
    limited = f", memory limit {format_bytes(limit)}" if limit else ""
    return (f"{what}; cache {100 * summary.cache_share:g}% of the features "
            f"({format_bytes(summary.cache_bytes)}){limited}")


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) if index == 0 else cell.rjust(width)
                      for index, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def _groups(summaries: Sequence[Summary]) -> list[list[Summary]]:
    groups: dict[tuple[float, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.cache_share, summary.model), []).append(summary)
    return list(groups.values())


def render(summaries: Sequence[Summary]) -> str:
    """A block of lines per cache and model, all with the same columns and widths."""
    heading = [name for name, _, _ in COLUMNS]
    cells = [[_cell(summary, field, write) for _, field, write in COLUMNS]
             for summary in summaries]
    lines = align([heading, *cells])
    by_summary = dict(zip(map(id, summaries), lines[1:]))
    out = [lines[0]]
    for group in _groups(summaries):
        limit = next((each.memory_limit_bytes for each in group if each.memory_limit_bytes), None)
        out += ["", _title(group[0], limit), "-" * len(lines[0])]
        for summary in group:
            out.append(by_summary[id(summary)])
            out += [f"  FAILED: {failure}" for failure in summary.failures]
    return "\n".join(out)
