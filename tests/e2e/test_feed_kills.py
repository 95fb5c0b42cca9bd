"""Scripts with models of their own (hearth.torch) and their daemons: killed at any moment, and after
thousands of batches."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from daemon import wait_for
from test_feeds import (BATCHES, LOADER, client, digest, drain, expected, feeds_of,  # noqa: F401
                        fresh, hearth, slots_of, socket_of)

# Some of tier 1, and those of tier 2.
KILLS = pytest.mark.parametrize("kills", [
    3, pytest.param(20, marks=pytest.mark.full("kills"))])
SETTLED = ("SUCCEEDED", "CANCELLED")


class Scripts:
    """Makes scripts that take batches: processes that are forked from one that has torch."""

    def __init__(self) -> None:
        self._maker = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("feed_client.py")), "--fork"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, daemon, **options) -> int:
        """The process id of a new one."""
        arguments = {"server": socket_of(daemon), "loader": {**LOADER, **options}, "epochs": 1000,
                     "pause": 0.002}
        print(json.dumps(arguments), file=self._maker.stdin, flush=True)
        return int(self._maker.stdout.readline())

    def close(self) -> None:
        self._maker.kill()
        self._maker.communicate()


@pytest.fixture
def scripts():
    made = Scripts()
    yield made
    made.close()


def states(daemon) -> dict[str, str]:
    return {job["id"]: job["state"] for job in daemon.json("job", "list")["jobs"]
            if job["id"].startswith("feed-")}


def check_nothing_is_left(daemon) -> None:
    wait_for(lambda: set(states(daemon).values()) <= set(SETTLED), "all feeds to end")
    wait_for(lambda: not slots_of(daemon), "all slots to be free")
    wait_for(lambda: daemon.json("status")["memory_reserved_bytes"] == 0, "the ledger to be empty")


@KILLS
def test_scripts_killed_at_any_moment(fresh, scripts, expected, kills):  # noqa: F811
    daemon = fresh("--max-running-jobs", "40", "--feed-patience", "5s")
    moments = random.Random(kills)
    adopted = 0
    with hearth.Client(socket_of(daemon)) as other:
        for number in range(kills):
            before = len(feeds_of(daemon))
            script = scripts.begin(daemon, strategy="gnndrive")
            if number % 3 < 2:
                # It has come to its batches, or will soon.
                wait_for(lambda: len(feeds_of(daemon)) > before, "the script's job")
            time.sleep(moments.uniform(0, 0.6))
            os.kill(script, signal.SIGKILL)
            if number % 3:
                continue
            # Another takes on the job: it gets all the batches.
            job = feeds_of(daemon)[0]
            with hearth.torch.NeighborLoader(other, **LOADER, strategy="gnndrive") as loader:
                loader._feed.join(job)
                assert [digest(batch) for batch in loader] == expected[0]
            wait_for(lambda: daemon.state(job) == "SUCCEEDED", "the end of the job")
            adopted += 1
    assert adopted == -(-kills // 3)
    check_nothing_is_left(daemon)
    ended = list(states(daemon).values())
    assert ended.count("SUCCEEDED") == adopted
    # Those that were killed before they had a job have left none.
    assert adopted < len(ended) <= kills


@KILLS
def test_a_daemon_killed_at_any_moment(fresh, expected, kills):  # noqa: F811
    daemon = fresh()
    moments = random.Random(kills)
    left = [kills]

    def kill() -> None:
        while left[0]:
            time.sleep(moments.uniform(0, 0.4))
            daemon.kill()
            daemon.start()
            left[0] -= 1

    killer = threading.Thread(target=kill)
    with hearth.Client(socket_of(daemon)) as one:
        with hearth.torch.NeighborLoader(one, **LOADER, strategy="gnndrive") as loader:
            killer.start()
            epoch = 0
            while left[0] or epoch == 0:
                found = []
                for batch in loader:
                    found.append(digest(batch))
                    time.sleep(0.005)
                assert found == expected[epoch % len(expected)]
                epoch += 1
            del batch
            killer.join()
    check_nothing_is_left(daemon)
    assert list(states(daemon).values()) == ["SUCCEEDED"]


def test_a_drain_ends_with_the_pass_and_the_next_start_goes_on(fresh, expected):  # noqa: F811
    daemon = fresh()
    found = [[], []]

    def take() -> None:
        with hearth.Client(socket_of(daemon)) as one:
            with hearth.torch.NeighborLoader(one, **LOADER, strategy="memory") as loader:
                for epoch in found:
                    for batch in loader:
                        epoch.append(digest(batch))
                        time.sleep(0.01)

    script = threading.Thread(target=take)
    script.start()
    wait_for(lambda: found[0], "the first batch")
    daemon.hearth("admin", "drain")
    job = feeds_of(daemon)[0]
    wait_for(lambda: daemon.state(job) == "WAITING", "the feed to give way")
    assert found == [expected[0], []]
    daemon.stop()
    daemon.start()
    script.join()
    assert found == expected[:2]
    check_nothing_is_left(daemon)


def resident_bytes() -> int:
    """Memory of this process, that of slots apart."""
    gc.collect()
    with open("/proc/self/status", encoding="utf-8") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["RssAnon"].split()[0]) * 1024


@pytest.mark.parametrize("batches", [
    3000, pytest.param(10_000, marks=pytest.mark.full("soak"))])
def test_memory_and_descriptors_stay_what_they_are(daemon, client, batches):  # noqa: F811
    with hearth.torch.NeighborLoader(client, **{**LOADER, "batch_size": 8},
                                     strategy="gnndrive") as loader:
        per_epoch = len(loader)
        found = []
        for epoch in range(-(-batches // per_epoch)):
            drain(loader)
            if epoch >= 4:  # Allocators have what they keep.
                found.append((resident_bytes(), daemon.resident_bytes(),
                              len(os.listdir("/proc/self/fd")), len(daemon.descriptors())))
        assert per_epoch * (epoch + 1) >= batches
    ours, daemons, descriptors, of_daemon = zip(*found)
    half = len(found) // 2
    for name, sizes, most in (("script", ours, 4 << 20), ("daemon", daemons, 8 << 20),
                              ("descriptors of the script", descriptors, 2),
                              ("descriptors of the daemon", of_daemon, 8)):
        assert max(sizes[half:]) <= max(sizes[:half]) + most, (name, sizes)
    wait_for(lambda: not slots_of(daemon), "all slots to be free")
