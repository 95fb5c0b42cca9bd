"""Power that fails at any moment: a disk then has what was made durable, and no more."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess

import pytest

from campaign import Campaign
from daemon import TIRELESS, Daemon, run, wait_for

DISK_BYTES = 1 << 30
# From <ext4.h>: nothing is written any more, nor the journal.
EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
EXT4_GOING_FLAGS_NOLOGFLUSH = 2
# From <linux/fs.h>.
FIFREEZE = 0xC0045877  # _IOWR('X', 119, int)
FITHAW = 0xC0045878  # _IOWR('X', 120, int)


class Disk:
    """An ext4 file system in a file. Skips the test where there can be none, or its power
    cannot be cut."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "disk"
        self.folder.mkdir()
        self._image = tmp_path / "image"
        with open(self._image, "wb") as image:
            image.truncate(DISK_BYTES)
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("mkfs.ext4 is not installed (Debian: e2fsprogs)")
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True)
        mounted = self._mount()
        if mounted.code != 0:
            pytest.skip(f"no disk can be mounted here: {mounted.err.strip()}")
        try:
            self.cut()
        except OSError as error:
            self.unmount()
            pytest.skip(f"the power of no disk can be cut here: {error}")
        self.come_back()

    def cut(self):
        """From now on nothing reaches the disk. What is in memory can be read still."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN,
                        struct.pack("I", EXT4_GOING_FLAGS_NOLOGFLUSH))
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def frozen(self):
        """Meanwhile what writes to the disk waits."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, FIFREEZE, 0)
            yield
        finally:
            fcntl.ioctl(descriptor, FITHAW, 0)
            os.close(descriptor)

    def come_back(self):
        self.unmount()
        mounted = self._mount()
        assert mounted.code == 0, mounted.err

    def unmount(self):
        # The kernel may hold files of a process that was killed for a moment.
        wait_for(lambda: run(["umount", str(self.folder)]).code == 0, "the disk to be free")

    def _mount(self):
        return run(["mount", "-o", "loop", str(self._image), str(self.folder)])


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    yield disk
    disk.unmount()


@pytest.mark.full("power")
def test_power_loss_at_any_moment(disk, graph_folder, other_folder, typed_folder, tmp_path, tell):
    with contextlib.closing(Daemon(disk.folder / "data", *TIRELESS, elsewhere=tmp_path)) as daemon:
        def cut_power():
            # Clients are told before.
            daemon.freeze()
            disk.cut()
            daemon.kill()
            disk.come_back()

        campaign = Campaign(daemon, graph_folder, other_folder, typed_folder,
                            disk.folder / "exports", 1, cut_power)
        tell(campaign.run(100, while_starting=10))
