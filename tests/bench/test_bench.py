"""Which runs a round has."""

from __future__ import annotations

from bench import Bench
from figures import Epoch, Run
from settings import parse_settings
from strategies import ALL, Choice

EPOCH = Epoch(2.0, 10, 5120, None, None, None, None, None)


class Counted:
    """In the place of a Runner: every run ends at once."""

    def __init__(self):
        self.tasks = []

    def run(self, task):
        self.tasks.append((task.strategy.name, task.cache_share))
        return Run(task.strategy.name, task.model, task.cache_share, task.cache_bytes,
                   task.round, task.memory_limit_bytes, (EPOCH,))


def round_of(limits):
    """What ran, and the runs that are counted."""
    settings = parse_settings(["--large", "--cache", "5%,10%"])
    bench = Bench(settings, Choice(tuple(each for each in ALL
                                         if each.name in ("mmap-random", "ginex")), {}))
    bench._limits = {("none", share): limit for share, limit in zip(settings.caches, limits)}
    runner = Counted()
    bench._run_round(runner, 1)
    return runner.tasks, [(run.strategy, run.cache_share, run.cache_bytes)
                          for run in bench._outcome.runs]


def test_what_takes_no_cache_runs_once_under_one_limit():
    tasks, counted = round_of([1 << 30, 1 << 30])
    assert tasks == [("mmap-random", 0.05), ("ginex", 0.05), ("ginex", 0.1)]
    quarter_gib = (4 << 30) // 20
    assert [(name, share) for name, share, _ in counted] == [
        ("mmap-random", 0.05), ("ginex", 0.05), ("mmap-random", 0.1), ("ginex", 0.1)]
    assert [cache for _, _, cache in counted] == [round((4 << 30) * share) for share in (
        0.05, 0.05, 0.1, 0.1)]


def test_it_runs_anew_under_another_limit():
    tasks, _ = round_of([1 << 30, 2 << 30])
    assert tasks == [("mmap-random", 0.05), ("ginex", 0.05), ("mmap-random", 0.1), ("ginex", 0.1)]
