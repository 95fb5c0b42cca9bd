"""Figures of daemons that train together: ratios of what was measured, and what more would do."""

from __future__ import annotations

import statistics
from typing import NamedTuple, Sequence


class Link(NamedTuple):
    name: str
    bits_per_second: float

    def seconds(self, sent: float) -> float:
        """Of so many bytes, one way."""
        return 8 * sent / self.bits_per_second


class Measured(NamedTuple):
    """A job on so many machines."""

    machines: int
    batch_size: int  # Of all machines.
    batches: int  # Of an epoch.
    seconds: float  # Of an epoch.
    wire_bytes: int  # That all interfaces sent in the job, headers included.
    link_bytes: int  # Of those, gradients and agreements.
    all_batches: int  # Of the job.

    @property
    def step_seconds(self) -> float:
        return self.seconds / self.batches

    @property
    def seeds_per_second(self) -> float:
        return self.batch_size / self.step_seconds

    @property
    def sent_per_step(self) -> float:
        """Bytes that a machine sends in a step."""
        return self.link_bytes / self.all_batches / self.machines


# A turn: the job on one machine, then on several.
Turn = Sequence[Measured]


def gradient_bytes(several: Measured) -> float:
    """A machine sends 2 (N - 1) / N of the gradients, and little else."""
    machines = several.machines
    return several.sent_per_step * machines / (2 * (machines - 1))


def exchange_seconds(link: Link, gradients: float, machines: int, round_trip: float) -> float:
    """What a link must carry in a step: both halves of the sum, one after the other, and three
    round trips, of the agreement and of each half."""
    if machines == 1:
        return 0
    return link.seconds(2 * (machines - 1) / machines * gradients) + 3 * round_trip


def efficiency(alone: Measured, several: Measured, link: Link) -> float:
    """Seeds a second by N times those of one machine, after subtracting what the links carry."""
    carried = exchange_seconds(link, gradient_bytes(several), several.machines, 0)
    return alone.step_seconds / (several.step_seconds - carried)


def render_measured(link: Link, turns: Sequence[Turn]) -> str:
    lines = [f"{link.name}, medians of {len(turns)} turns", "",
             "| machines | ms/step | seeds/s | × one | less the link | sent a step and machine | "
             "other bytes on the wire |", "|---|---|---|---|---|---|---|"]
    for i, first in enumerate(turns[0]):
        runs = [turn[i] for turn in turns]
        step = statistics.median(run.step_seconds for run in runs)
        seeds = statistics.median(run.seeds_per_second for run in runs)
        gain = statistics.median(turn[i].seeds_per_second / turn[0].seeds_per_second
                                 for turn in turns)
        if first.machines == 1:
            lines.append(f"| 1 | {1000 * step:.1f} | {seeds:,.0f} | 1 | | | |")
            continue
        share = statistics.median(efficiency(turn[0], turn[i], link) for turn in turns)
        sent = statistics.median(run.sent_per_step for run in runs)
        other = statistics.median((run.wire_bytes - run.link_bytes) / run.link_bytes
                                  for run in runs)
        lines.append(f"| {first.machines} | {1000 * step:.1f} | {seeds:,.0f} | {gain:.2f} | "
                     f"{share:.2f} N | {sent / 1e6:.2f} MB | {100 * other:.1f}% |")
    return "\n".join(lines) + "\n"


def render_reckoning(link: Link, turns: Sequence[Turn], most: int, round_trip: float = 1e-4) -> str:
    several = [run for turn in turns for run in turn if run.machines > 1]
    if not several:
        return ""
    alone = statistics.median(turn[0].step_seconds for turn in turns)
    gradients = statistics.median(gradient_bytes(run) for run in several)
    # What the links alone do not explain, by machine that was added.
    skew = statistics.median(
        (run.step_seconds - turn[0].step_seconds
         - exchange_seconds(link, gradients, run.machines, round_trip)) / (run.machines - 1)
        for turn in turns for run in turn if run.machines > 1)
    skew = max(0.0, skew)
    seeds = turns[0][0].batch_size
    lines = [f"reckoned from: {1000 * alone:.1f} ms a step of {seeds:,} seeds on one machine, "
             f"{gradients / 1e6:.2f} MB of gradients, {link.name}, round trips of "
             f"{1e6 * round_trip:.0f} µs, {1000 * skew:.1f} ms once for waiting for the last", "",
             "| machines | ms/step | seeds/s | × one |", "|---|---|---|---|"]
    machines = 1
    while machines <= most:
        step = alone + exchange_seconds(link, gradients, machines, round_trip)
        step += skew if machines > 1 else 0
        lines.append(f"| {machines} | {1000 * step:.1f} | {machines * seeds / step:,.0f} | "
                     f"{machines * alone / step:.1f} |")
        machines *= 2
    return "\n".join(lines) + "\n"


def render_rival(name: str, turns: Sequence[Turn], rivals: Sequence[Sequence[float]]) -> str:
    """`rivals`: seconds of an epoch of as many seeds, by turn and number of machines."""
    lines = [f"{name}, same turns", "", "| machines | s/epoch | Hearth, s/epoch | Hearth is faster |",
             "|---|---|---|---|"]
    for i, first in enumerate(turns[0]):
        theirs = statistics.median(turn[i] for turn in rivals)
        ours = statistics.median(turn[i].seconds for turn in turns)
        gain = statistics.median(rival[i] / turn[i].seconds for turn, rival in zip(turns, rivals))
        lines.append(f"| {first.machines} | {theirs:.2f} | {ours:.2f} | {gain:.2f} × |")
    return "\n".join(lines) + "\n"
