"""What is asked of the OS: cgroups, page cache, block devices, limits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import memory_cgroup
import page_cache
from disk import block_device_of
from memory_cgroup import Hierarchy, MemoryCgroup, NoCgroup, find_hierarchy
from memory_limit import automatic_limit, features_fit

MOUNTS_V1 = """\
20 1 254:0 / / rw,relatime - ext4 /dev/vda rw
34 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
36 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
OWN_V1 = "4:memory:/session/7\n3:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n"
MOUNTS_V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1_has_a_hierarchy_of_its_own_for_memory():
    found = find_hierarchy(MOUNTS_V1, OWN_V1)
    assert found.version == 1
    assert str(found.own) == "/sys/fs/cgroup/memory/session/7"


def test_version_2_has_one_for_all():
    found = find_hierarchy(MOUNTS_V2, "0::/user.slice/session-1.scope\n")
    assert found.version == 2
    assert str(found.own) == "/sys/fs/cgroup/user.slice/session-1.scope"


def test_a_container_sees_a_part_of_the_tree():
    mounts = MOUNTS_V1.replace("0:31 / ", "0:31 /session ")
    assert str(find_hierarchy(mounts, OWN_V1).own) == "/sys/fs/cgroup/memory/7"


def test_blanks_in_mount_points():
    mounts = MOUNTS_V2.replace("/sys/fs/cgroup", "/a\\040b")
    assert str(find_hierarchy(mounts, "0::/\n").mount) == "/a b"


def test_no_memory_controller():
    with pytest.raises(NoCgroup, match="no cgroup file system"):
        find_hierarchy(MOUNTS_V1.splitlines()[0], "0::/\n")


def test_a_place_where_no_cgroup_can_be_made_says_why(tmp_path):
    # A plain folder gets no control files from the kernel.
    own = tmp_path / "own"
    own.mkdir()
    with pytest.raises(NoCgroup, match="memory.limit_in_bytes"):
        MemoryCgroup(1 << 20, Hierarchy(1, tmp_path, own))
    assert list(own.iterdir()) == []


@pytest.fixture
def version_2(tmp_path, monkeypatch):
    """A tree in which only children of its root get a memory controller."""
    own = tmp_path / "session"
    own.mkdir()
    controls = {"memory.max": "max", "memory.swap.max": "max", "memory.peak": "777\n",
                "memory.events": "low 0\noom 3\noom_kill 2\n", "cgroup.procs": ""}

    def make(path):
        os.mkdir(path)
        for name, value in controls.items() if path.parent == tmp_path else ():
            (path / name).write_text(value)

    monkeypatch.setattr(memory_cgroup.Path, "mkdir", make)
    return Hierarchy(2, tmp_path, own)


def test_version_2_is_limited_below_the_nearest_ancestor_that_can(version_2):
    made = MemoryCgroup(1 << 20, version_2)
    (folder,) = [path for path in version_2.mount.iterdir() if path != version_2.own]
    assert list(version_2.own.iterdir()) == []
    assert (folder / "memory.max").read_text() == str(1 << 20)
    assert (folder / "memory.swap.max").read_text().startswith("0")
    assert made.usage() == {"peak_bytes": 777, "out_of_memory_kills": 2}
    assert str(folder / "cgroup.procs") in made.command(["true"])


def test_version_2_without_a_limit(version_2):
    MemoryCgroup(None, version_2)
    (folder,) = [path for path in version_2.mount.iterdir() if path != version_2.own]
    assert (folder / "memory.max").read_text() == "max"


@pytest.fixture
def cgroup():
    try:
        made = MemoryCgroup(64 << 20)
    except NoCgroup as reason:
        pytest.skip(f"no memory cgroup can be made: {reason}")
    yield made
    made.remove()


def in_cgroup(cgroup, program):
    return subprocess.run(cgroup.command([sys.executable, "-c", program]),
                          check=False).returncode


def test_a_cgroup_counts_what_its_process_takes(cgroup):
    assert in_cgroup(cgroup, "b'x' * (32 << 20)") == 0
    usage = cgroup.usage()
    assert usage["out_of_memory_kills"] == 0
    if usage["peak_bytes"] is not None:
        assert 32 << 20 <= usage["peak_bytes"] <= 64 << 20


def test_a_cgroup_ends_what_takes_more(cgroup):
    assert in_cgroup(cgroup, "b'x' * (256 << 20)") == -9
    assert cgroup.usage()["out_of_memory_kills"] >= 1


def test_a_file_leaves_the_page_cache(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    empty = tmp_path / "empty"
    empty.touch()
    if page_cache.resident_bytes(path) == 0:
        pytest.skip("the file system keeps nothing in the page cache")
    left = page_cache.evict([path, empty])
    assert left == page_cache.resident_bytes(path)
    if block_device_of(path) is not None:
        assert left == 0


def test_the_whole_disk_of_a_partition(tmp_path):
    device = os.stat(tmp_path).st_dev
    sys_folder = tmp_path / "sys"
    disk = sys_folder / "devices/nvme0n1"
    (disk / "nvme0n1p1").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "nvme0n1p1/partition").write_text("1\n")
    (disk / "queue/read_ahead_kb").write_text("128\n")
    (disk / "queue/rotational").write_text("0\n")
    links = sys_folder / "dev/block"
    links.mkdir(parents=True)
    (links / f"{os.major(device)}:{os.minor(device)}").symlink_to(disk / "nvme0n1p1")
    assert block_device_of(tmp_path, sys_folder) == {
        "name": "nvme0n1", "read_ahead_kb": 128, "rotational": False}


def test_a_file_system_without_a_device(tmp_path):
    assert block_device_of(tmp_path, tmp_path / "nothing") is None


def test_the_limit_is_what_a_job_needs_besides_its_features():
    assert automatic_limit(1500, 500, 100) == 1250 + (64 << 20) + 100
    assert automatic_limit(400, 500, 100) == (64 << 20) + 100


def test_features_fit_in_part_of_the_memory():
    assert features_fit(600, 1000)
    assert not features_fit(601, 1000)
