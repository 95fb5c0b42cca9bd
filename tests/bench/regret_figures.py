"""The runs of the regret grid, the file that keeps them, and what follows from them."""

from __future__ import annotations

import dataclasses
import enum
import json
import statistics
from datetime import datetime
from pathlib import Path
from typing import Any, Optional, Sequence

from sizes import format_bytes
from table import align

AUTO = "auto"
# Of a job's log, once its strategy is chosen and fitted into memory.
_READY_LINE = "memory: at most "


class Outcome(str, enum.Enum):
    """How a run ended."""

    ENDED = "ended"
    STOPPED = "stopped"  # it had taken longer than it was given
    REFUSED = "refused"  # it does not fit into memory
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class GridRun:
    """One job of one strategy on one case in one round."""

    case: str
    strategy: str
    round: int
    outcome: Outcome
    memory_limit_bytes: int  # of the daemon's jobs
    # From submission to the end of the job, or to its stop; 0 if it did neither.
    seconds: float = 0.0
    # From submission until the job has its strategy: the dataset is opened, some batches are
    # measured, and `auto` has chosen.
    ready_seconds: Optional[float] = None
    # Of `auto`: what it chose, what it had before that (empty if nothing), and the seconds that it
    # foretold; None where nothing was priced, or where it chose twice.
    chose: str = ""
    before: str = ""
    told_seconds: Optional[float] = None
    peak_memory_bytes: Optional[int] = None
    memory_bound_bytes: Optional[int] = None
    loss_digest: str = ""
    reason: str = ""  # why it did not end
    load_average: float = 0.0
    unix_seconds: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        return self.case, self.strategy, self.round


class Results:
    """Runs as lines of JSON. A line is written when its run has ended; of two with one key the
    later one counts."""

    def __init__(self, path: Path) -> None:
        """Takes off a last line that was not written to its end. ValueError, naming the line, for
        lines of another form."""
        self._path = path
        self._runs: dict[tuple[str, str, int], GridRun] = {}
        if not path.exists():
            return
        text = path.read_text()
        whole = text[:text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                fields = json.loads(line)
                run = GridRun(**{**fields, "outcome": Outcome(fields["outcome"])})
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f"{path}:{number}: no run of the grid: {error}") from error
            self._runs[run.key] = run

    def add(self, run: GridRun) -> None:
        self._runs[run.key] = run
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(run)) + "\n")

    def of(self, case: str) -> list[GridRun]:
        return [run for run in self._runs.values() if run.case == case]


def _nanoseconds(time: str) -> int:
    """Of RFC 3339 in UTC, with any digits of a second, since 1970."""
    whole, _, rest = time.rstrip("Z").partition(".")
    seconds = round(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 10**9 + int(rest.ljust(9, "0")[:9] or 0)


def seconds_between(begin: str, end: str) -> float:
    """Of two times as the client prints them."""
    return (_nanoseconds(end) - _nanoseconds(begin)) / 1e9


def ready_seconds(create_time: str, lines: Sequence[dict[str, Any]]) -> Optional[float]:
    """From a job's submission until its log says that it has its strategy; None if it never does."""
    for line in lines:
        if line["text"].startswith(_READY_LINE):
            return seconds_between(create_time, line["time"])
    return None


def wants_run(runs: Sequence[GridRun], strategy: str, number: int) -> bool:
    """Whether a round of a case, of which there are `runs`, has still to run a strategy. One that
    failed runs again; one that was stopped or refused in any round does not."""
    for run in runs:
        if run.strategy != strategy:
            continue
        if run.outcome in (Outcome.STOPPED, Outcome.REFUSED):
            return False
        if run.round == number and run.outcome == Outcome.ENDED:
            return False
    return True


def seconds_given(runs: Sequence[GridRun], strategy: str, most: float, slower: float) -> float:
    """After which a run is stopped: `most`, or for a fixed strategy, `slower` times the least that
    a run of its case has taken, if that is less."""
    taken = [run.seconds for run in runs if run.outcome == Outcome.ENDED]
    return min(most, slower * min(taken)) if taken and strategy != AUTO else most


@dataclasses.dataclass(frozen=True)
class CaseSummary:
    """A case: medians over its rounds."""

    case: str
    memory_limit_bytes: int
    # None: not run, failed or refused.
    seconds: dict[str, Optional[float]]
    # Those in `seconds` that were stopped, and so take longer than it says.
    stopped: frozenset[str]
    refused: frozenset[str]
    failed: dict[str, str]  # strategy -> why
    chose: str
    # Share of auto's time by which it had its strategy later than the job that named what it first
    # chose.
    choosing: Optional[float]
    # Seconds that auto foretold, by those that its job took.
    told: Optional[float]
    digests: frozenset[str]

    @property
    def best(self) -> Optional[str]:
        """The fastest fixed strategy."""
        ended = {name: seconds for name, seconds in self.seconds.items()
                 if name != AUTO and seconds is not None and name not in self.stopped}
        return min(ended, key=lambda name: ended[name], default=None)

    @property
    def regret(self) -> Optional[float]:
        """If auto was stopped, it is more than that."""
        taken = self.seconds.get(AUTO)
        if taken is None or self.best is None:
            return None
        return taken / (self.seconds[self.best] or 1.0)


def _median(values: Sequence[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _seconds(runs: Sequence[GridRun]) -> Optional[float]:
    """Of one strategy. A stop says more than rounds that ended."""
    return (_median([run.seconds for run in runs if run.outcome == Outcome.STOPPED])
            or _median([run.seconds for run in runs if run.outcome == Outcome.ENDED]))


def _choosing(auto: Sequence[GridRun], by_name: dict[str, list[GridRun]]) -> Optional[float]:
    shares = []
    for run in auto:
        named = _median([each.ready_seconds for each in by_name.get(run.before or run.chose, [])])
        if run.ready_seconds is not None and named is not None:
            shares.append(max(0.0, run.ready_seconds - named) / run.seconds)
    return _median(shares)


def summarize(case: str, runs: Sequence[GridRun]) -> CaseSummary:
    """REQUIRES: runs, all of that case."""
    by_name: dict[str, list[GridRun]] = {}
    for run in runs:
        by_name.setdefault(run.strategy, []).append(run)

    def names(outcome: Outcome) -> frozenset[str]:
        return frozenset(run.strategy for run in runs if run.outcome == outcome)

    chosen = [run for run in by_name.get(AUTO, []) if run.outcome == Outcome.ENDED]
    choices = dict.fromkeys(f"{run.before}>{run.chose}" if run.before else run.chose
                            for run in chosen)
    return CaseSummary(
        case=case, memory_limit_bytes=runs[0].memory_limit_bytes,
        seconds={name: _seconds(of_name) for name, of_name in by_name.items()},
        stopped=names(Outcome.STOPPED), refused=names(Outcome.REFUSED),
        failed={run.strategy: run.reason for run in runs if run.outcome == Outcome.FAILED},
        chose="/".join(choices),
        choosing=_choosing(chosen, by_name),
        told=_median([None if run.told_seconds is None else run.told_seconds / run.seconds
                      for run in chosen]),
        digests=frozenset(run.loss_digest for run in runs if run.outcome == Outcome.ENDED))


def _cell(summary: CaseSummary, name: str) -> str:
    if name in summary.refused:
        return "-"
    seconds = summary.seconds.get(name)
    if seconds is None:
        return "failed" if name in summary.failed else ""
    return f"{'>' if name in summary.stopped else ''}{seconds:.1f}"


def _regret(summary: CaseSummary) -> str:
    if summary.regret is None:
        return "?"
    return f"{'>' if AUTO in summary.stopped else ''}{summary.regret:.2f}"


def render_regret(summaries: Sequence[CaseSummary], fixed: Sequence[str]) -> str:
    """A line for each case, seconds by strategy, then the largest and the median regret."""
    rows = [["case", "memory", *fixed, AUTO, "chose", "choosing", "told", "best", "regret"]]
    rows += [[summary.case, format_bytes(summary.memory_limit_bytes),
              *(_cell(summary, name) for name in (*fixed, AUTO)), summary.chose or "?",
              "?" if summary.choosing is None else f"{100 * summary.choosing:.0f}%",
              "" if summary.told is None else f"{summary.told:.2f}",
              summary.best or "?", _regret(summary)] for summary in summaries]
    regrets = {summary.case: summary.regret for summary in summaries
               if summary.regret is not None}
    lines = align(rows)
    if regrets:
        worst = max(regrets, key=lambda case: regrets[case])
        lines += ["", f"regret of {len(regrets)} cases: largest {regrets[worst]:.2f} ({worst}), "
                  f"median {statistics.median(regrets.values()):.2f}"]
    return "\n".join(lines)
