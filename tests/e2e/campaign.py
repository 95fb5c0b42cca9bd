"""Work that is struck at random moments, and what must be true afterwards.

A campaign has stages: calls of clients that begin together. Each stage first runs undisturbed,
which tells what comes of it and how long it takes. Then one round after the other:

 1. the stage's calls begin, and at a random moment the daemon is struck: killed, or its power
    is cut. In some rounds it is struck again while it starts;
 2. the daemon starts: what was deleted before is gone, each job whose id a client was told is
    there, and those that a client saw succeed have what came of them undisturbed;
 3. clients that gave up call again; every job ends with what came of it undisturbed, none is
    there twice, and the folders hold the same files as after the undisturbed stage;
 4. what the round made is deleted: the folders hold the same files as at the beginning.
"""

from __future__ import annotations

import collections
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from daemon import PATIENCE_SECONDS, Daemon, wait_for
from jobs import DISKGNN, QUICK, prepare
from stored import digests, job_states, plan_digests

# A bound for a job and its client, however busy the machine is.
_PATIENCE_SECONDS = 10 * PATIENCE_SECONDS

# Exit codes of the client.
DONE, UNREACHABLE = 0, 3

# The database may grow by so much: ids of deletions are kept for a day.
DATABASE_BYTES = 512 << 10

_UNFINISHED = ("queued", "waiting", "preparing", "running")


class Work(NamedTuple):
    """One call of a client."""

    command: tuple[str, ...]
    # Result of the ended job, however often the daemon dies; None: the call makes no job.
    outcome: Optional[Callable[[Daemon, dict], Any]]


class Stage(NamedTuple):
    name: str
    works: tuple[Work, ...]
    # Undisturbed calls that must come before.
    before: tuple[tuple[str, ...], ...] = ()
    # Whether its plans depend on where a struck job goes on.
    plans_vary: bool = False

    def lasting(self, paths: collections.Counter) -> collections.Counter:
        """The paths that are there afterwards wherever the daemon was struck."""
        return collections.Counter(
            {path: count for path, count in paths.items()
             if not (self.plans_vary and path.startswith("plans/foresight-"))})


def trained(daemon: Daemon, job: dict) -> Any:
    report = job["report"]
    losses = [(epoch["epoch"], epoch["loss"], epoch["batches"]) for epoch in report["epochs"]]
    return (report["loss_digest"], report["test_metric"], losses,
            digests(Path(report["model_path"])))


def prepared(daemon: Daemon, job: dict) -> Any:
    name = job["report"]["preparation"]["plan"]
    return name, plan_digests(daemon.data_dir, name)


def stored(name: str) -> Callable[[Daemon, dict], Any]:
    """What comes of an import: the whole dataset `name`."""
    def outcome(daemon: Daemon, job: dict) -> Any:
        del job
        return (daemon.json("dataset", "show", name)["fingerprint"],
                digests(daemon.data_dir / "datasets" / name, "manifest.json"))
    return outcome


def exported(daemon: Daemon, job: dict) -> Any:
    del daemon
    return digests(Path(job["report"]["path"]))


def explained(daemon: Daemon, job: dict) -> Any:
    del daemon
    return [job["report"][figure] for figure in ("batches", "rows_needed", "sampled_batches")]


def verified(daemon: Daemon, job: dict) -> Any:
    del daemon
    return job["state"]


def all_stages(daemon: Daemon, graph_folder: Path, other_folder: Path, typed_folder: Path,
               exports: Path) -> list[Stage]:
    """Stages with all kinds of jobs on the datasets `planted` and `typed`, which are made of
    `graph_folder` and the heterograph `typed_folder`. `other_folder` has another graph to
    import."""
    daemon.import_graph("planted", graph_folder)
    daemon.json("dataset", "import", "typed", "--source", str(typed_folder))
    model = daemon.json(*QUICK)["id"]
    job = (*QUICK, "--epochs", "6")
    other = ("dataset", "import", "other", "--format", "numpy", "--source", str(other_folder))

    def training(*options: str) -> Stage:
        return Stage("train", (Work((*job, *options), trained),))

    def typed_training(*options: str) -> Stage:
        command = (*job, "--dataset", "typed", "--model", "rsage", *options)
        return Stage("train on a heterograph", (Work(command, trained),))

    return [
        Stage("import", (Work(other, stored("other")),)),
        training("--strategy", "memory", "--checkpoint-every", "1"),
        Stage("prepare", (Work(prepare(job), prepared),)),
        training("--strategy", "gnndrive", "--cpu-cache", "64KiB"),
        Stage("export", (Work(("export", model, "--to", str(exports / "model")), exported),)),
        training(*DISKGNN, "--checkpoint-every", "7"),
        Stage("train ahead", (Work((*job, "--strategy", "foresight", "--cpu-cache", "32KiB",
                                    "--checkpoint-every", "7"), trained),), plans_vary=True),
        training("--strategy", "gids", "--cpu-cache", "32KiB", "--window-cache", "32KiB",
                 "--checkpoint-every", "7"),
        Stage("delete", (Work(("dataset", "delete", "other"), None),), before=(other,)),
        training("--strategy", "mmap", "--samplers", "2"),
        typed_training(*DISKGNN, "--checkpoint-every", "7"),
        typed_training("--strategy", "outre", "--cpu-cache", "32KiB", "--order", "partition",
                       "--parts", "12", "--macro-batch-parts", "3"),
        Stage("short jobs", (
            Work(("explain", *QUICK[1:]), explained),
            Work(("dataset", "verify", "planted"), verified),
            Work(("dataset", "import", "typed-again", "--source", str(typed_folder)),
                 stored("typed-again")),
            Work(("dataset", "import", "again", "--format", "numpy",
                  "--source", str(graph_folder)), stored("again")),
            Work(("dataset", "generate", "made", "--nodes", "2000", "--edges", "10000",
                  "--dim", "8"), stored("made")),
            Work(("export", model, "--to", str(exports / "short")), exported),
            Work((*QUICK, "--epochs", "1"), trained),
        )),
    ]


def sync_folder(folder: Path) -> None:
    """Makes durable what is in it and what is not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Call:
    """A client that runs beside the test. What it was answered so far can be read at any time."""

    def __init__(self, daemon: Daemon, work: Work) -> None:
        self.work = work
        self._daemon = daemon
        self._told = tempfile.NamedTemporaryFile()
        self._process = subprocess.Popen(daemon.command(*work.command),
                                         stdout=subprocess.DEVNULL, stderr=self._told)

    @property
    def job(self) -> Optional[str]:
        """The job's id, once the daemon has told it."""
        with open(self._told.name, encoding="utf-8") as told:
            found = re.match(r"([a-z_]+-\d+)\n", told.readline())
        return found[1] if found else None

    @property
    def is_done(self) -> bool:
        """Whether the client has seen the job succeed, or its deletion done."""
        return self._process.poll() == DONE

    def wait(self) -> int:
        code = self._process.wait(_PATIENCE_SECONDS)
        told = Path(self._told.name).read_text(encoding="utf-8")
        assert code in (DONE, UNREACHABLE), \
            f"{self._daemon.log}\n{self.work.command} gave {code}: {told}"
        return code

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class _Undisturbed(NamedTuple):
    seconds: float
    outcomes: list[Any]
    specs: list[Any]
    # Names of the files that there are afterwards.
    paths: collections.Counter


class Campaign:
    """`strike` ends the daemon at once; then it can be started again. The daemon is new; the
    folder `exports`, too, which is made. The graphs are those of all_stages."""

    def __init__(self, daemon: Daemon, graph_folder: Path, other_folder: Path,
                 typed_folder: Path, exports: Path, seed: int,
                 strike: Callable[[], None]) -> None:
        exports.mkdir()
        self._daemon = daemon
        self._stages = all_stages(daemon, graph_folder, other_folder, typed_folder, exports)
        self._exports = exports
        self._moments = random.Random(seed)
        self._strike = strike
        # How often the daemon was running when it was struck, by what it did.
        self.strikes: collections.Counter = collections.Counter()
        self._kept = {kind: self._names(kind) for kind in ("dataset", "job")}
        # Once for what is made once and stays, as the measurements of batches.
        for stage in self._stages:
            self._run(stage)
            self._tidy()
        self._bytes_before = self._bytes_on_disk()
        self._start_seconds = self._time_start()
        self._paths = self._list_paths()
        self._undisturbed = [self._watch_undisturbed(stage) for stage in self._stages]

    def run(self, strikes: int, while_starting: int) -> str:
        """Strikes the daemon at least so often, in rounds that take turns among the stages;
        `while_starting` of the strikes while it starts. Returns where they
        met it, for people."""
        assert strikes >= while_starting
        rounds = strikes - while_starting
        for number in range(rounds):
            turn = number % len(self._stages)
            self._round(self._stages[turn], self._undisturbed[turn],
                        while_starting * (number + 1) // rounds)
        bytes_after = self._bytes_on_disk()
        assert self.strikes.total() >= strikes and self.strikes["start"] >= while_starting
        assert bytes_after - self._bytes_before <= DATABASE_BYTES
        met = ", ".join(f"{place} {count}" for place, count in sorted(self.strikes.items()))
        return (f"{self.strikes.total()} strikes ({met}); {self._bytes_before} bytes on disk "
                f"before, {bytes_after} after")

    def _watch_undisturbed(self, stage: Stage) -> _Undisturbed:
        self._daemon.stop()
        self._daemon.start()
        seconds, jobs = self._run(stage)
        outcomes = [work.outcome(self._daemon, job) if job else None
                    for work, job in zip(stage.works, jobs, strict=True)]
        paths = self._list_paths()
        self._tidy()
        assert self._list_paths() == self._paths
        return _Undisturbed(seconds, outcomes, [job and job["spec"] for job in jobs], paths)

    def _run(self, stage: Stage) -> tuple[float, list[Optional[dict]]]:
        """Seconds that the stage takes, and its ended jobs."""
        calls = self._begin(stage)
        begun = time.monotonic()
        codes = [call.wait() for call in calls]
        seconds = time.monotonic() - begun
        assert codes == [DONE] * len(codes)
        return seconds, [self._daemon.json("job", "show", call.job) if call.work.outcome else None
                         for call in calls]

    def _begin(self, stage: Stage) -> list[Call]:
        for command in stage.before:
            self._daemon.hearth(*command)
        return [Call(self._daemon, work) for work in stage.works]

    def _round(self, stage: Stage, undisturbed: _Undisturbed, while_starting: int) -> None:
        """`while_starting`: how many strikes have met a start when it ends, of all rounds."""
        calls = self._begin(stage)
        try:
            time.sleep(self._moments.uniform(0, undisturbed.seconds))
            self._strike()
            self.strikes[f"{stage.name}, {self._progress(calls)}"] += 1
            while self.strikes["start"] < while_starting:
                self._strike_while_starting()
            told = [call.job for call in calls]
            done = [call.is_done for call in calls]
            self._daemon.start()
            # A client that deletes may have called again already.
            wait_for(lambda: not self._trash(), "the trash to be emptied after the start")
            for number, call in enumerate(calls):
                if told[number]:
                    self._check_promise(call, told[number], done[number],
                                        undisturbed.outcomes[number])
            for number, call in enumerate(calls):
                self._finish(call, undisturbed.specs[number], undisturbed.outcomes[number])
        finally:
            for call in calls:
                call.end()
        jobs = len(stage.before) + sum(work.outcome is not None for work in stage.works)
        assert len(self._made("job")) == jobs, self._list("job")
        now, expected = stage.lasting(self._list_paths()), stage.lasting(undisturbed.paths)
        assert now == expected, \
            f"after {stage.name}: {now - expected} more, {expected - now} fewer: {self._daemon.log}"
        self._tidy()
        assert self._list_paths() == self._paths, f"tidied after {stage.name}"

    def _strike_while_starting(self) -> None:
        """Strikes the daemon between its taking the lock and its being ready."""
        self._daemon.launch()
        self._wait_for_lock()
        time.sleep(self._moments.uniform(0, self._start_seconds))
        self._strike()
        self.strikes["just started" if self._daemon.was_ready else "start"] += 1

    def _wait_for_lock(self) -> None:
        lock = self._daemon.data_dir / "hearth.lock"
        pid = f"{self._daemon.pid}\n"
        wait_for(lambda: lock.read_text() == pid, "hearthd to take the lock", poll_seconds=0.001)

    def _time_start(self) -> float:
        self._daemon.launch()
        self._wait_for_lock()
        begun = time.monotonic()
        self._daemon.wait_until_ready()
        return time.monotonic() - begun

    def _check_promise(self, call: Call, job: str, is_done: bool, outcome: Any) -> None:
        shown = self._daemon.json("job", "show", job)
        if is_done:
            assert shown["state"] == "SUCCEEDED", shown
            assert call.work.outcome(self._daemon, shown) == outcome

    def _finish(self, call: Call, spec: Any, outcome: Any) -> None:
        """Waits for what a call asked for, and asks again where the client gave up."""
        code = call.wait()
        if call.work.outcome is None:
            if code != DONE:  # It may have been deleted all the same.
                assert self._daemon.hearth(*call.work.command, code=None).code in (0, 1)
            return
        job = call.job or self._find(spec) or \
            self._daemon.json(*call.work.command, "--detach")["id"]
        ended = self._daemon.hearth("job", "watch", job, "--output", "json",
                                    patience=_PATIENCE_SECONDS).json
        assert call.work.outcome(self._daemon, ended) == outcome, ended

    def _find(self, spec: Any) -> Optional[str]:
        """A job that was accepted without its client being told."""
        made = self._made("job")
        return next((job["id"] for job in self._list("job")
                     if job["id"] in made and job["spec"] == spec), None)

    def _progress(self, calls: list[Call]) -> str:
        """How far the calls had come when the daemon was struck, as its database tells."""
        if not any(call.work.outcome for call in calls):
            return "done" if all(call.is_done for call in calls) else "under way"
        states = [state for job, state in job_states(self._daemon.data_dir).items()
                  if job not in self._kept["job"]]
        unfinished = [state for state in states if state in _UNFINISHED]
        if unfinished:
            return max(unfinished, key=_UNFINISHED.index)
        return "ended" if len(states) == len(calls) else "not submitted"

    def _list(self, kind: str) -> list[dict]:
        return self._daemon.json(kind, "list")[f"{kind}s"]

    def _names(self, kind: str) -> set[str]:
        return {entry.get("id") or entry["name"] for entry in self._list(kind)}

    def _made(self, kind: str) -> set[str]:
        """What there was not at the campaign's beginning."""
        return self._names(kind) - self._kept[kind]

    def _tidy(self) -> None:
        for kind in ("job", "dataset"):
            for name in self._made(kind):
                self._daemon.hearth(kind, "delete", name)
        for plan in self._names("plan"):
            self._daemon.hearth("plan", "delete", plan)
        for export in self._exports.iterdir():
            shutil.rmtree(export)
        sync_folder(self._exports)

    def _trash(self) -> list[Path]:
        return list(self._daemon.data_dir.glob("scratch/trash/*"))

    def _list_paths(self) -> collections.Counter:
        """Paths of all files and folders, without the numbers of jobs, once the trash is empty.
        The files of the open database and of warm strategies come and go; a disk is measured once,
        by a job that runs alone."""
        wait_for(lambda: not self._trash(), "the trash to be emptied")
        data_dir = self._daemon.data_dir
        paths = [str(path.relative_to(data_dir)) for path in data_dir.rglob("*")]
        paths = [path for path in paths
                 if not path.startswith(("scratch", "hearth.db-", "devices"))]
        paths += [f"exports/{path.relative_to(self._exports)}"
                  for path in self._exports.rglob("*")]
        return collections.Counter(re.sub(r"^(jobs/[a-z_]+)-\d+", r"\1", path) for path in paths)

    def _bytes_on_disk(self) -> int:
        """Of the data directory of the daemon, which is left stopped."""
        self._daemon.stop()
        return sum(path.lstat().st_blocks * 512 for path in self._daemon.data_dir.rglob("*"))
