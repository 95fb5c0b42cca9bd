"""Thousands of small jobs: a daemon's memory and descriptors stay what they are."""

from __future__ import annotations

import re
import shutil

import pytest

from daemon import wait_for
from graphs import planted_graph

JOBS = 2000
# Caches are filled, and as many series retired as are kept, when so many jobs have ended.
WARM_JOBS = 500
JOBS_PER_MEASUREMENT = 100
GROWTH_BYTES_PER_JOB = 1024
# As server/jobs/job_runner.h has it.
MAX_RETIRED_JOBS = 100

TRAIN = ("train", "--dataset", "planted", "--model", "sage", "--fanouts", "3,3", "--hidden", "8",
         "--batch-size", "64", "--epochs", "1", "--seed", "1")


class Jobs:
    """Small jobs of all kinds, in turn."""

    def __init__(self, daemon, tmp_path):
        self._daemon = daemon
        self._export = tmp_path / "export"
        self._bad = tmp_path / "bad"
        self._bad.mkdir()
        (self._bad / "edge_index.npy").write_bytes(b"no array")
        self._model = daemon.json(*TRAIN)["id"]
        self._kinds = [
            lambda: self._train("memory"), lambda: self._train("mmap"),
            lambda: self._train("gnndrive", "--cpu-cache", "4KiB"), self._explain,
            lambda: self._train("memory"), self._cancel,
            lambda: self._train("gnndrive", "--cpu-cache", "4KiB"), self._export_model,
            lambda: self._train("mmap"), self._fail,
        ]

    def run(self, number):
        self._kinds[number % len(self._kinds)]()

    def fill_caches(self):
        """Products of matrices are kept by their sizes, the last 128 of up to 250 KiB each: those
        of a cancelled job, which are others however far it came, would count as growth or hide
        it. This job has more sizes than are kept, always the same ones."""
        self._daemon.hearth(*TRAIN, "--epochs", "20")

    def _train(self, *strategy):
        self._daemon.hearth(*TRAIN, "--strategy", *strategy)

    def _explain(self):
        self._daemon.hearth("explain", *TRAIN[1:])

    def _cancel(self):
        # Does not end by itself, and takes no more memory than the others however far it comes.
        job = self._daemon.json(*TRAIN, "--epochs", "100000", "--detach")["id"]
        self._daemon.hearth("job", "cancel", job)
        self._daemon.wait_for_state(job, "CANCELLED")

    def _export_model(self):
        self._daemon.hearth("export", self._model, "--to", str(self._export))
        shutil.rmtree(self._export)

    def _fail(self):
        self._daemon.hearth("dataset", "import", "bad", "--source", str(self._bad), code=1)


@pytest.mark.full("soak")
def test_thousands_of_jobs_leave_nothing_in_the_daemon(start_daemon, tmp_path, tell):
    daemon = start_daemon()
    daemon.import_graph("planted", planted_graph(300, dim=8).write(tmp_path / "planted"))
    jobs = Jobs(daemon, tmp_path)
    begun = len(daemon.json("job", "list")["jobs"])
    bytes_at, descriptors = {}, []
    for number in range(JOBS + 1):
        if number % JOBS_PER_MEASUREMENT == 0:
            jobs.fill_caches()
            bytes_at[number] = daemon.resident_bytes()
        if number == WARM_JOBS:
            descriptors = daemon.descriptors()
        if number < JOBS:
            jobs.run(number)
    tell(", ".join(f"{number} jobs: {size / (1 << 20):.2f} MiB"
                   for number, size in bytes_at.items()))
    assert len(daemon.json("job", "list")["jobs"]) == begun + JOBS + len(bytes_at)
    growth = (bytes_at[JOBS] - bytes_at[WARM_JOBS]) / (JOBS - WARM_JOBS)
    tell(f"{growth:.0f} bytes a job from the {WARM_JOBS}th on; {len(descriptors)} descriptors")
    assert growth < GROWTH_BYTES_PER_JOB
    # Connections of clients that have ended take a moment to go.
    wait_for(lambda: len(daemon.descriptors()) <= len(descriptors),
             f"descriptors to be those of job {WARM_JOBS}: {descriptors}")
    scraped = set(re.findall(r'job="([^"]+)"', daemon.metrics()))
    assert 0 < len(scraped) <= MAX_RETIRED_JOBS
