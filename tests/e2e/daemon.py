"""A real hearthd on free ports, and the real hearth client against it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, TypeVar

_ROOT = Path(__file__).resolve().parents[2]
HEARTHD = os.environ.get("HEARTHD", str(_ROOT / "bazel-bin/server/hearthd"))
HEARTH = os.environ.get("HEARTH", str(_ROOT / "bazel-bin/client/hearth"))
HEARTH_PIECE = os.environ.get("HEARTH_PIECE", str(_ROOT / "bazel-bin/server/pieces/hearth-piece"))

# A bound for tests that would otherwise hang, not a measure of speed.
PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02

# Before a command: Ctrl-C ends it, though a shell that runs the tests in the background makes
# them, and what they start, ignore it. (A preexec_fn would fork, and gRPC's threads in the child
# may write on its stderr.)
CATCH_INTERRUPTS = ("env", "--default-signal=INT")

# For tests that kill the daemon more often than a job may live to see.
TIRELESS = ("--retries", "1000000")

# States that a job stays in.
_ENDED = frozenset(("SUCCEEDED", "FAILED", "CANCELLED"))

Value = TypeVar("Value")


def wait_for(condition: Callable[[], Optional[Value]], what: str,
             poll_seconds: float = _POLL_SECONDS) -> Value:
    """Polls the state of real processes until `condition` gives something true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(poll_seconds)
    raise AssertionError(f"waited in vain for {what}")


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(command: list[str], timeout: float = PATIENCE_SECONDS, **options: Any) -> Result:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False,
                          **options)
    return Result(done.returncode, done.stdout, done.stderr)


class Daemon:
    """Starts at once. After a stop or a kill, start() takes the same ports again. Its log is
    beside the data directory, or in the folder `elsewhere`."""

    # A command that becomes the daemon.
    prefix: tuple[str, ...] = ()
    binary = HEARTHD

    def __init__(self, data_dir: Path, *flags: str, elsewhere: Optional[Path] = None,
                 metrics: str = "127.0.0.1:0", listen: str = "127.0.0.1:0") -> None:
        self.data_dir = data_dir
        self._beside = (elsewhere or data_dir.parent) / data_dir.name
        self._flags = flags
        self._addresses = {"grpc": listen, "metrics": metrics}
        self._process: Optional[subprocess.Popen] = None
        self._was_ended = False
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> str:
        return self._addresses["grpc"]

    @property
    def metrics_address(self) -> str:
        return self._addresses["metrics"]

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Begins to start."""
        self._address_file.unlink(missing_ok=True)
        command = [*self.prefix, self.binary, "--data-dir", str(self.data_dir),
                   "--listen", self._addresses["grpc"],
                   "--metrics-listen", self._addresses["metrics"],
                   "--address-file", str(self._address_file), *self._flags]
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._was_ended = False

    def wait_until_ready(self) -> None:
        self._addresses = wait_for(self._read_addresses, "hearthd to start")

    def _read_addresses(self) -> Optional[dict]:
        code = self._process.poll()
        assert code is None, f"hearthd ended with {code} instead of starting:\n{self.log}"
        return json.loads(self._address_file.read_text()) if self.was_ready else None

    @property
    def was_ready(self) -> bool:
        """Whether the process that was launched last has come to serve."""
        return self._address_file.exists()

    @property
    def _address_file(self) -> Path:
        return self._beside.with_suffix(".addresses")

    @property
    def log_path(self) -> Path:
        return self._beside.with_suffix(".log")

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """kill -9. Fails if the daemon had ended before."""
        self._check_runs()
        self._was_ended = True
        self._process.kill()
        code = self._process.wait()
        assert code == -signal.SIGKILL, f"hearthd ended by itself with {code}:\n{self.log}"

    def freeze(self) -> None:
        """SIGSTOP, and waits until all threads have stopped. Only a kill may follow."""
        self._check_runs()
        self._process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"hearthd ended by itself:\n{self.log}"

    def stop(self) -> None:
        """SIGTERM. Fails unless the daemon then exits with 0."""
        self._check_runs()
        self._was_ended = True
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PATIENCE_SECONDS)
        assert code == 0, f"hearthd ended with {code} when it was told to stop:\n{self.log}"

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait_for_death(self, number: int) -> None:
        """Fails unless the daemon dies of the signal."""
        self._was_ended = True
        code = self._process.wait(PATIENCE_SECONDS)
        assert code == -number, f"hearthd ended with {code}:\n{self.log}"

    def close(self) -> None:
        """Ends the daemon. Fails if it had ended and no test had ended it."""
        if not self._was_ended:
            self.kill()

    def _check_runs(self) -> None:
        code = self._process.poll()
        assert code is None, f"hearthd ended by itself with {code}:\n{self.log}"

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        """Memory of the process: all resident pages but those of files."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:
            fields = dict(line.split(":", 1) for line in status)
        return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))

    def descriptors(self) -> list[str]:
        """What the process's open descriptors are of."""
        found = []
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
                found.append(os.readlink(descriptor))
        return found

    def command(self, *arguments: str) -> list[str]:
        return [HEARTH, "--server", self.address, *arguments]

    def hearth(self, *arguments: str, code: Optional[int] = 0,
               patience: float = PATIENCE_SECONDS) -> Result:
        """Runs the client; fails unless it exits with `code`, or with any if that is None."""
        result = run(self.command(*arguments), timeout=patience)
        assert code is None or result.code == code, f"hearth {arguments} gave {result}\nhearthd: {self.log}"
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self.hearth(*arguments, "--output", "json", code=code).json

    def begin(self, *arguments: str) -> subprocess.Popen:
        """A client that goes on beside the test, as if started at a terminal."""
        return subprocess.Popen(
            [*CATCH_INTERRUPTS, *self.command(*arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def import_graph(self, name: str, source: Path, *flags: str) -> dict:
        return self.json("dataset", "import", name, "--format", "numpy",
                         "--source", str(source), *flags)

    def state(self, job: str) -> str:
        return self.json("job", "show", job)["state"]

    def wait_for_state(self, job: str, *states: str) -> str:
        if _ENDED.issuperset(states):
            # One client that follows the job: each that only looks takes its share of the machine.
            self.hearth("job", "watch", job, code=None)
            state = self.state(job)
            assert state in states, f"{job} is {state}, not {states}"
            return state

        def current() -> Optional[str]:
            state = self.state(job)
            return state if state in states else None
        return wait_for(current, f"{job} to be {states}")

    def wait_for_log(self, job: str, words: str) -> None:
        wait_for(lambda: words in self.hearth("job", "logs", job).out or None,
                 f"{job} to log {words!r}")

    def metrics(self) -> str:
        url = f"http://{self.metrics_address}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
            return response.read().decode()

    def batches_done(self, job: str) -> int:
        """Training batches of a job since the daemon started."""
        series = rf'^hearth_train_batches_total{{[^}}]*job="{job}"[^}}]*}} (\S+)$'
        found = re.search(series, self.metrics(), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def wait_for_batches(self, job: str, count: int) -> int:
        wait_for(lambda: self.batches_done(job) >= count, f"{count} batches of {job}")
        return self.batches_done(job)
