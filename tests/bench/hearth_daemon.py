"""A hearthd of its own for each run, and the hearth client against it."""

from __future__ import annotations

import functools
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Optional, Sequence

from memory_cgroup import MemoryCgroup

_ROOT = Path(__file__).resolve().parents[2]
HEARTHD = os.environ.get("HEARTHD", str(_ROOT / "bazel-bin/server/hearthd"))
HEARTH = os.environ.get("HEARTH", str(_ROOT / "bazel-bin/client/hearth"))

_START_SECONDS = 120.0
_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.02


class RunFailed(Exception):
    """Why a job has no report."""


class OutOfTime(RunFailed):
    """A command that takes longer than it was given."""


def help_of_train() -> str:
    done = subprocess.run([HEARTH, "train", "--help"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(f"{HEARTH} train --help ended with {done.returncode}: {done.stderr}")
    return done.stdout


@functools.cache
def _help_of_daemon() -> str:
    return subprocess.run([HEARTHD, "--help"], capture_output=True, text=True, check=False).stdout


def _wait_for_any(processes: list[subprocess.Popen[bytes]],
                  seconds: Optional[float] = None) -> bool:
    """Until one of them has ended; false if none has within `seconds`."""
    poll = select.poll()
    descriptors = [os.pidfd_open(process.pid) for process in processes]
    try:
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class HearthDaemon:
    """Runs from its making to close()."""

    def __init__(self, data_dir: Path, cgroup: Optional[MemoryCgroup] = None,
                 flags: Sequence[str] = (), limits_jobs: bool = False) -> None:
        """Unless it limits jobs, which is to nine tenths of the cgroup's memory, the cgroup holds
        it to what it really takes, not to its upper bound of that."""
        self._address_file = data_dir.with_suffix(".addresses")
        self._log_file = data_dir.with_suffix(".log")
        self._address_file.unlink(missing_ok=True)
        command = [HEARTHD, "--data-dir", str(data_dir), "--listen", "127.0.0.1:0",
                   "--metrics-listen", "", "--address-file", str(self._address_file), *flags]
        if not limits_jobs and "--memory-limit" in _help_of_daemon():
            command += ["--memory-limit", "1024TiB"]
        if cgroup is not None:
            command = cgroup.command(command)
        with open(self._log_file, "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._address = self._read_address()
        except RunFailed:
            self.close()
            raise

    def __enter__(self) -> HearthDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def json(self, *arguments: str, seconds: Optional[float] = None) -> Any:
        """What the client prints; RunFailed if it, or the daemon before it, fails; OutOfTime after
        `seconds`, if given, when it has not ended."""
        with tempfile.TemporaryFile("w+") as out_file, tempfile.TemporaryFile("w+") as err_file:
            client = subprocess.Popen(
                [HEARTH, "--server", self._address, *arguments, "--output", "json"],
                stdout=out_file, stderr=err_file)
            try:
                # A client waits for its daemon to come back: this one will not.
                if not _wait_for_any([client, self._process], seconds):
                    raise OutOfTime(f"{arguments[0]}: not done after {seconds:.1f} s")
            finally:
                client.kill()  # Does nothing to one that has ended.
                client.wait()
            out, err = (_whole(file) for file in (out_file, err_file))
        if self._process.poll() is not None:
            raise RunFailed(f"hearthd {self._end()}")
        if client.returncode != 0:
            raise RunFailed(_reason(out) or err.strip() or f"hearth ended with {client.returncode}")
        return json.loads(out)

    def call(self, *arguments: str) -> None:
        """For commands that print nothing of use."""
        subprocess.run([HEARTH, "--server", self._address, *arguments], capture_output=True,
                       check=False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def socket(self) -> str:
        """The address for clients on this machine that share memory with it."""
        return str(json.loads(self._address_file.read_text())["socket"])

    def peak_resident_bytes(self) -> int:
        """The most that it has held so far, mapped files included."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) << 10 if found else 0

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _read_address(self) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._address_file.exists():
                return str(json.loads(self._address_file.read_text())["grpc"])
            if self._process.poll() is not None:
                raise RunFailed(f"hearthd {self._end()} instead of starting")
            time.sleep(_POLL_SECONDS)
        raise RunFailed("hearthd did not start")

    def _end(self) -> str:
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        last = self._log_file.read_text(errors="replace").strip().splitlines()[-1:]
        return f"{how}; its log ends: {last[0]}" if last else how


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _reason(out: str) -> Optional[str]:
    """The error of the job that a client printed."""
    try:
        return str(json.loads(out)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return None
