"""A daemon of this program's own, which ends with it; and datasets of folders.

How processes use one daemon over a data directory together, step by step:

  1. A named pipe in the data directory, hearthd.input, is the daemon's standard input. Each
     process that uses the daemon holds the pipe open for writing. The daemon stops when the last
     of them has closed it or has ended, in whatever way (hearthd --stop-with-input).
  2. A process that comes opens the pipe, and starts a daemon if none has it open. If two do so at
     a time, the lock of the data directory lets one daemon live, which serves both.
  3. The process writes a byte. A daemon reads its input only while it serves: once the byte is
     read, the daemon serves, and will until the process closes the pipe. If the daemon ends
     instead, since it was stopping, the process goes back to 2.
  4. The process holds a shared lock of the folder while it uses the daemon. One that has started
     the daemon and gives it up takes an exclusive one: if it gets that, it is the last user, and
     waits for the daemon's end. Processes that come meanwhile wait for their lock.

A forked child closes what its parent holds open, at once; the fork waits for a moment in which
all that is open is known. Programs inherit nothing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import select
import shutil
import stat
import struct
import subprocess
import sys
import sysconfig
import termios
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Sequence, Union

import grpc

from hearth.client import Client, Job
from hearth.dataset_calls import AnyPath
from hearth.errors import HearthError, Unavailable, invalid
from hearth.options.values import Value
from hearth.servers import is_listening

# Time that jobs may take to reach a checkpoint; the daemon itself gives up earlier.
_STOP_SECONDS = 90.0
_POLL_SECONDS = 0.01
_LOG_TAIL_BYTES = 1000
_SOCKET_PATH_BYTES = 107
_NAME_CHARACTERS = 100
# Codes of a submission whose dataset exists, or is being submitted by another.
_TAKEN = (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.FAILED_PRECONDITION)
_REFUSALS = 10
_MISSING = ("there is no {name} in PATH: {variable} names one that was built (in bazel-bin of a "
            "clone, after deploy/quickstart.sh); a wheel that deploy/python/build_wheel.sh makes "
            "installs it with the client")


class PrivateDaemon:
    """A hearthd that runs while processes use it, and needs no terminal of its own.

    The daemon over `data_dir` is started unless it runs already; other processes of this user,
    such as a second notebook, get the same one. It stops, with its jobs at a checkpoint, when the
    last of them has closed it or has ended, also by SIGKILL. The next daemon over the same
    directory goes on with the jobs, and has the datasets and models.

    `data_dir` is a folder of this user, made if it does not exist; default
    $TMPDIR/hearth-UID, as of `hearth run`. `memory_limit` ("8GiB") and `flags`, further flags of
    hearthd, hold if this call starts the daemon. hearthd is the program that HEARTHD names, or
    that of this Python environment, or the first in PATH. Its log is hearthd.log in `data_dir`.

    Raises HearthError: NOT_FOUND without hearthd, FAILED_PRECONDITION if a hearthd that was
    started in another way uses `data_dir`, INTERNAL with the end of the log if it does not start,
    Unavailable if it does not serve within `timeout` seconds.

    Thread-safe. A forked child does not use the parent's daemon, but may open it on its own.
    """

    def __init__(self, data_dir: Optional[AnyPath] = None, *,
                 memory_limit: Union[None, int, str] = None, flags: Sequence[str] = (),
                 timeout: float = 120.0) -> None:
        deadline = time.monotonic() + timeout
        folder = _private_folder(data_dir)
        options = [*flags]
        if not any(flag.startswith("--metrics-listen") for flag in flags):
            options += ["--metrics-listen", ""]  # Many private daemons may run on one machine.
        if memory_limit is not None:
            options += ["--memory-limit", str(memory_limit)]
        self._process = os.getpid()
        with _opening:
            use = _uses.get(folder)
            if use is None or not use.still_serves(deadline):
                use = _uses[folder] = _Use(folder, options, deadline)
            use.count += 1
        self._use: Optional[_Use] = use
        self.data_dir = folder
        """Path of the data directory."""
        self.address = f"unix:{_socket_in(folder)}"
        """Address for Client and AsyncClient."""

    def __enter__(self) -> PrivateDaemon:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PrivateDaemon({self.data_dir!r})"

    def client(self) -> Client:
        """A new client of the daemon."""
        return Client(self.address)

    def close(self) -> None:
        """Gives the daemon up. Where nothing else uses it, it stops; if this process has started
        it, the call waits for its end, and kills it after 90 s. Without a call, the daemon stops
        when the process ends."""
        with _opening:
            use, self._use = self._use, None
            if use is None or self._process != os.getpid():
                return
            use.count -= 1
            if use.count == 0:
                if _uses.get(self.data_dir) is use:
                    del _uses[self.data_dir]
                use.end()


def find_program(name: str) -> str:
    """Path of hearthd, hearth or hearth-piece: of HEARTHD, HEARTH or HEARTH_PIECE, else in the
    folders of this Python environment's programs, else in PATH. Raises HearthError (NOT_FOUND)."""
    variable = name.upper().replace("-", "_")
    if given := os.environ.get(variable):
        if program := shutil.which(given):
            return os.path.abspath(program)
        raise HearthError(grpc.StatusCode.NOT_FOUND,
                          f"{variable} names {given}, which is no program")
    folders = [os.path.dirname(sys.executable), sysconfig.get_path("scripts"),
               os.environ.get("PATH", os.defpath)]
    if program := shutil.which(name, path=os.pathsep.join(filter(None, folders))):
        return os.path.abspath(program)
    raise HearthError(grpc.StatusCode.NOT_FOUND, _MISSING.format(name=name, variable=variable))


def dataset_of(client: Client, path: AnyPath, **options: Value) -> str:
    """Name of the dataset of the graph in the folder or file `path` of this machine, imported if
    it is not there yet; features stay where they lie if the format allows it. Options are the
    flags of `hearth dataset import`.

    The name is made of the folder's name, and of a digest of its path, of the sizes and times of
    its files, and of the options: a source that has changed is another dataset."""
    source = Path(path).resolve()
    name = dataset_name(source, options)
    refusals = 0
    while not _has(client, name):
        if job := _import_of(client, name):
            job.wait()  # Of another process, or of one that was killed.
            continue
        try:
            _import(client, name, source, options)
        except HearthError as refused:
            refusals += 1
            if refused.code not in _TAKEN or refusals == _REFUSALS:
                raise
            time.sleep(_POLL_SECONDS)  # Another process submits the same import.
    return name


def dataset_name(source: Path, options: dict[str, Value]) -> str:
    """Name that dataset_of gives the dataset of a folder or file as it is now."""
    if not source.exists():
        raise HearthError(grpc.StatusCode.NOT_FOUND, f"{source}: there is no such folder or file")
    digest = hashlib.sha256(repr((str(source), sorted(options.items()))).encode())
    for file in _files(source):
        info = file.stat() if file.exists() else file.lstat()
        digest.update(f"{file.relative_to(source)}\0{info.st_size}\0{info.st_mtime_ns}\n".encode(
            errors="surrogateescape"))
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", source.name)[:_NAME_CHARACTERS].lstrip("._-")
    return f"{stem or 'graph'}-{digest.hexdigest()[:12]}"


def _files(source: Path) -> list[Path]:
    """The source itself, or the files in it, without hidden ones."""
    if not source.is_dir():
        return [source]
    found = []
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(found)


def _has(client: Client, name: str) -> bool:
    return any(dataset.name == name for dataset in client.datasets())


def _import_of(client: Client, name: str) -> Optional[Job]:
    """The unended import of a dataset."""
    jobs = client.jobs("queued", "preparing", "running", "waiting", kind="import")
    return next((job for job in jobs if getattr(job.message.spec, "import").name == name), None)


def _import(client: Client, name: str, source: Path, options: dict[str, Any]) -> None:
    try:
        client.import_dataset(name, source, **{"in_place": True, **options})
    except HearthError as failure:
        if "in_place" in options or failure.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
        # Of float64, in a part of a file, or of no use at all, which this import tells.
        client.import_dataset(name, source, **options)


# Held while a use begins or ends.
_opening = threading.Lock()
# Uses by data directory.
_uses: dict[str, _Use] = {}
# Held while descriptors are opened or closed, and programs started.
_forking = threading.Lock()
# Descriptors that a forked child closes: those of pipes would let the daemon outlive the parent.
_held: set[int] = set()


class _Use:
    """This process's use of the daemon over a data directory."""

    def __init__(self, folder: str, flags: Sequence[str], deadline: float) -> None:
        """Joins the daemon, or starts it with the flags."""
        self.count = 0
        """PrivateDaemons that have it."""
        self._path = folder
        self._pipe = os.path.join(folder, "hearthd.input")
        self._log = os.path.join(folder, "hearthd.log")
        self._flags = flags
        self._deadline = deadline
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._input = -1
        self._folder = _open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._await_lock()
            _make_pipe(self._pipe)
            self._join()
        except BaseException:
            self._let_go()
            if self._child is not None:
                self._child.kill()  # It does not serve others, either.
                self._child.wait()
            raise

    def still_serves(self, deadline: float) -> bool:
        """Whether the daemon has neither ended nor stops."""
        self._deadline = deadline
        return self._is_served()

    def end(self) -> None:
        """Lets the daemon go; see PrivateDaemon.close()."""
        _close(self._input)
        self._input = -1
        if self._child is not None and self._locked(fcntl.LOCK_EX):
            try:
                self._child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._let_go()

    def _let_go(self) -> None:
        for descriptor in (self._input, self._folder):
            if descriptor >= 0:
                _close(descriptor)
        self._input = self._folder = -1

    def _locked(self, kind: int) -> bool:
        try:
            fcntl.flock(self._folder, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _await_lock(self) -> None:
        while not self._locked(fcntl.LOCK_SH):
            self._pause("the daemon that another process has given up did not end")

    def _join(self) -> None:
        while True:
            if not self._opened():
                self._start()
            if self._is_served():
                return
            _close(self._input)
            self._input = -1
            if self._child is not None:
                raise self._failure(self._child)

    def _opened(self) -> bool:
        """Opens the pipe if a daemon has it open."""
        try:
            self._input = _open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    def _start(self) -> None:
        command = [find_program("hearthd"), "--data-dir", self._path, "--stop-with-input", "on",
                   *self._flags]
        environment = {name: value for name, value in os.environ.items()
                       if name != "NOTIFY_SOCKET"}  # For the service that this process may be.
        # Both ends first, lest the daemon find its input ended.
        reader = _open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._input = _open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(reader, True)
            # Popen waits for the end of a pipe of its own, which forked children would keep open.
            with open(self._log, "ab", opener=_open_log) as log, _forking:
                # In a session of its own: Ctrl-C is not for the daemon.
                self._child = subprocess.Popen(command, stdin=reader, stdout=log, stderr=log,
                                               env=environment, start_new_session=True)
        except OSError as error:
            raise HearthError(grpc.StatusCode.INTERNAL, str(error)) from None
        finally:
            _close(reader)

    def _is_served(self) -> bool:
        """Waits until the daemon serves; False if it ends instead."""
        # Written to nevertheless, a pipe without readers would end programs that let SIGPIPE do so.
        if not self._has_reader():
            return False
        try:
            os.write(self._input, b"\n")
        except BrokenPipeError:
            return False
        while self._unread():
            if not self._has_reader():
                return False
            self._pause("it did not come to serve")
        return True

    def _has_reader(self) -> bool:
        poll = select.poll()
        poll.register(self._input, 0)
        # A pipe that nobody can read is in error.
        return not poll.poll(0)

    def _unread(self) -> int:
        """Bytes in the pipe."""
        (count,) = struct.unpack("i", fcntl.ioctl(self._input, termios.FIONREAD, bytes(4)))
        return int(count)

    def _pause(self, problem: str) -> None:
        if time.monotonic() > self._deadline:
            raise Unavailable(grpc.StatusCode.DEADLINE_EXCEEDED,
                              f"hearthd over {self._path}: {problem} in time; {self._log_end()}")
        time.sleep(_POLL_SECONDS)

    def _failure(self, child: subprocess.Popen[bytes]) -> HearthError:
        """Why the daemon that this process has started does not serve."""
        try:
            code = child.wait(1.0)
        except subprocess.TimeoutExpired:
            child.kill()  # It has closed its input, so that it would not end with it.
            code = child.wait()
        if is_listening(_socket_in(self._path)):
            return HearthError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{self._path} is in use by a hearthd that was started in another way: "
                f"hearth.Client(\"unix:{_socket_in(self._path)}\") is a client of it; a private "
                "daemon needs another data_dir")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return HearthError(grpc.StatusCode.INTERNAL, f"hearthd {how}; {self._log_end()}")

    def _log_end(self) -> str:
        with open(self._log, "rb", opener=_open_log) as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(0, end - _LOG_TAIL_BYTES))
            text = log.read()
        if end > _LOG_TAIL_BYTES:
            text = text.partition(b"\n")[2]
        return f"its log, {self._log}, ends with: {text.decode(errors='replace').rstrip()}"


def _open(path: str, flags: int) -> int:
    with _forking:
        descriptor = os.open(path, flags)  # Not inheritable by programs.
        _held.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    with _forking:
        _held.discard(descriptor)
        os.close(descriptor)


def _forget() -> None:
    """In a forked child: gives up what the parent holds."""
    global _opening, _forking
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()
    _uses.clear()
    # Another thread of the parent may have held them.
    _opening, _forking = threading.Lock(), threading.Lock()


os.register_at_fork(before=lambda: _forking.acquire(),
                    after_in_parent=lambda: _forking.release(), after_in_child=_forget)


def _open_log(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _make_pipe(path: str) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            raise HearthError(grpc.StatusCode.FAILED_PRECONDITION,
                              f"{path}: is not a named pipe; remove it") from None


def _private_folder(path: Optional[AnyPath]) -> str:
    """Makes a data directory for this user alone, unless it exists; returns its path without
    links."""
    folder = os.path.abspath(path or _default_folder())
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    # In a folder such as /tmp another user may have made it first.
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise HearthError(grpc.StatusCode.FAILED_PRECONDITION,
                          f"{folder}: is not a folder of this user")
    # hearthd accepts a folder that others may read only while it is empty.
    if not os.listdir(folder):
        os.chmod(folder, 0o700)
    folder = os.path.realpath(folder)
    if len(os.fsencode(_socket_in(folder))) > _SOCKET_PATH_BYTES:
        longest = _SOCKET_PATH_BYTES - len(_socket_in(""))
        raise invalid("data_dir", f"{folder}: too long a path for the socket in it; at most "
                      f"{longest} bytes")
    return folder


def _default_folder() -> str:
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"hearth-{os.geteuid()}")


def _socket_in(folder: str) -> str:
    return f"{folder}/hearth.sock"
