"""The strategies that are compared, as options of `hearth train`."""

from __future__ import annotations

import dataclasses
import re
from typing import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Strategy:
    name: str
    strategy: str  # of --strategy
    options: tuple[tuple[str, str], ...] = ()  # in place of those of all jobs
    # Options that share the memory for rows, and their shares.
    budgets: tuple[tuple[str, float], ...] = ()
    unknown: frozenset[str] = frozenset()  # options of all jobs that it does not take
    limited: bool = True  # runs under the memory limit
    ordered: bool = True  # trains batches in the order that the seed gives
    on_gpu: bool = False  # for models on a GPU alone

    @property
    def cached(self) -> bool:
        return bool(self.budgets)

    @property
    def order(self) -> str:
        """Strategies with equal orders train on the same batches."""
        return dict(self.options).get("--order", "shuffled")

    def arguments(self, job: Mapping[str, str], cache_bytes: int) -> list[str]:
        """Of `hearth train`, with what all jobs are given."""
        taken = {name: value for name, value in job.items() if name not in self.unknown}
        merged = {**taken, "--strategy": self.strategy, **dict(self.options)}
        for option, share in self.budgets:
            merged[option] = str(int(share * cache_bytes))
        return [word for option in merged.items() for word in option]


MMAP = "mmap"
MEMORY = "memory"
GINEX = "ginex"
_ADVICE = "--mmap-advice"
_EIGHT = (("--samplers", "8"), ("--extractors", "8"))
_TWO = (("--samplers", "2"), ("--extractors", "2"))
_CACHE = (("--cpu-cache", 1.0),)
_NO_EXTRACTORS = frozenset({"--extractors"})
_SAMPLED_THERE = (("--sample-on", "gpu"),)
_HALF_THERE = (("--cpu-cache", 0.5), ("--gpu-cache", 0.5))

ALL = (
    Strategy(MEMORY, "memory", limited=False),
    Strategy(MMAP, "mmap"),
    Strategy("mmap-normal", "mmap", ((_ADVICE, "normal"),)),
    Strategy("mmap-random", "mmap", ((_ADVICE, "random"),)),
    # A thread that faults waits: more of them keep more reads in flight.
    Strategy("mmap-wide", "mmap", _EIGHT),
    Strategy("mmap-normal-wide", "mmap", (*_EIGHT, (_ADVICE, "normal"))),
    Strategy("gnndrive", "gnndrive", budgets=_CACHE),
    # One extractor plans and claims while the other one's reads are in flight.
    Strategy("gnndrive-wide", "gnndrive", _TWO, budgets=_CACHE),
    Strategy("gnndrive-reorder", "gnndrive", (("--reorder", "true"),), budgets=_CACHE, ordered=False),
    Strategy(GINEX, "ginex", budgets=_CACHE),
    Strategy("ginex-wide", "ginex", _TWO, budgets=_CACHE),
    Strategy("gids", "gids", budgets=(("--cpu-cache", 0.8), ("--window-cache", 0.2)),
             unknown=_NO_EXTRACTORS),
    # Without its three parts, and all memory for its cache: the paper's BaM baseline.
    Strategy("gids-bam", "gids", (("--merge-max", "1"), ("--window", "0"), ("--cpu-cache", "0")),
             budgets=(("--window-cache", 1.0),), unknown=_NO_EXTRACTORS),
    # Its batches are not those of the others.
    Strategy("outre", "outre", (("--order", "partition"),), budgets=_CACHE),
    # Its preparation is not a part of its epochs.
    Strategy("diskgnn", "diskgnn", budgets=_CACHE),
    # Prepares half an epoch before the first one, and the rest while it trains.
    Strategy("foresight", "foresight", budgets=_CACHE),
    # The GPU samples, gathers rows from the host's memory, or keeps half of the cache.
    Strategy("memory-gpu", "memory", _SAMPLED_THERE, limited=False, on_gpu=True),
    Strategy("gids-gpu", "gids", _SAMPLED_THERE, budgets=_HALF_THERE, unknown=_NO_EXTRACTORS,
             on_gpu=True),
    Strategy("diskgnn-gpu", "diskgnn", budgets=_HALF_THERE, on_gpu=True),
)


class UnknownStrategy(Exception):
    """A name that is none of ALL."""


@dataclasses.dataclass(frozen=True)
class Choice:
    chosen: tuple[Strategy, ...]
    left_out: dict[str, str]  # name -> why


def options_of(help_text: str) -> dict[str, str]:
    """Flags of a command, each with its description."""
    found: dict[str, str] = {}
    flag = ""
    for line in help_text.splitlines():
        start = re.match(r"\s+(?:-\w,)?(--[\w-]+)(.*)", line)
        if start:
            flag = start[1]
            found[flag] = start[2].strip()
        elif flag and line.startswith("    "):
            found[flag] += " " + line.strip()
    return found


def choose(help_text: str, names: Sequence[str] = (), on_gpu: bool = False) -> Choice:
    """Those of `names` (or all) that the binary knows and that a model's device allows."""
    unknown = set(names) - {strategy.name for strategy in ALL}
    if unknown:
        raise UnknownStrategy(f"no strategy {', '.join(sorted(unknown))}; there are "
                              + ", ".join(strategy.name for strategy in ALL))
    flags = options_of(help_text)
    known = set(re.findall(r"[a-z]+", flags.get("--strategy", "")))
    chosen = []
    left_out = {}
    for strategy in ALL:
        if names and strategy.name not in names:
            continue
        missing = [option for option, _ in strategy.options if option not in flags]
        if strategy.strategy not in known:
            left_out[strategy.name] = f"the binary has no --strategy {strategy.strategy}"
        elif strategy.on_gpu and not on_gpu:
            left_out[strategy.name] = "its models are not on a GPU"
        elif missing:
            left_out[strategy.name] = f"the binary has no {', '.join(missing)}"
        elif strategy.name == MMAP and not names and _ADVICE in flags:
            left_out[strategy.name] = "its variants mmap-normal and mmap-random stand for it"
        else:
            chosen.append(strategy)
    return Choice(tuple(chosen), left_out)


def is_mmap(name: str) -> bool:
    return name == MMAP or name.startswith(MMAP + "-")


def is_in_memory(name: str) -> bool:
    """Whether all features are in memory: Hearth's `memory`, and that of a peer."""
    return name == MEMORY or name.endswith("-" + MEMORY)
