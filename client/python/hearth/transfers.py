"""Downloads of models and uploads of graphs, for daemons without a shared disk."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from contextlib import aclosing
from pathlib import Path
from typing import Callable, Iterator, Optional

import grpc

from hearth.connection import Connection
from hearth.durable import sync
from hearth.errors import HearthError
from hearth.v1 import datasets_pb2, jobs_pb2

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes in all, on any thread. The number of done
bytes shrinks if a daemon that went away lost some of them."""

_MODEL = "model.safetensors"
_CONFIG = "config.json"
_DIGEST = "sha256"
_READ_BYTES = 1 << 20
# Bytes of one message of an upload.
_CHUNK_BYTES = 512 << 10
# Attempts to send files whose digests differ at the daemon.
_FILE_ATTEMPTS = 3


async def download_model(connection: Connection, id: str, path: Path, replace: bool,
                   on_progress: Optional[Progress]) -> None:
    """Writes the model of a job to the folder `path`, on this machine."""
    with _ModelFolder(path, replace, on_progress) as folder:
        async def attempt(heard: Callable[[], None]) -> None:
            request = jobs_pb2.DownloadModelRequest(job_id=id, offset=folder.size,
                                                    sha256=folder.sha256)
            chunks = connection.stream("Jobs/DownloadModel", request, jobs_pb2.ModelChunk)
            async with aclosing(chunks):
                async for chunk in chunks:
                    heard()
                    folder.take(chunk)

        while True:
            try:
                await connection.resume(attempt)
                break
            except HearthError as error:
                # The downloaded beginning is of another model.
                if error.code is not grpc.StatusCode.ABORTED or not folder.sha256:
                    raise
                folder.start_over()
        folder.finish()


class _ModelFolder:
    """Folder for a model: PATH.part until the model is complete, where a later download of the
    same model goes on; its file `sha256` has the model's digest."""

    def __init__(self, path: Path, replace: bool, on_progress: Optional[Progress]) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._on_progress = on_progress or (lambda done, total: None)
        if os.path.lexists(path) and not (replace and path.is_dir()):
            raise FileExistsError(f"{path} exists; choose a new folder")
        self._replace = replace
        self._total = 0
        self.size = 0
        self.sha256 = ""
        self._hash = hashlib.sha256()

    def __enter__(self) -> _ModelFolder:
        self._part.mkdir(exist_ok=True)
        self._lock = os.open(self._part, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = open(self._part / _MODEL, "ab+")
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise BlockingIOError(
                    error.errno, f"{self._part}: another download writes to it") from error
            raise
        try:
            self._read_back()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self.sha256:
            # Without a digest no later download can go on.
            for name in (_MODEL, _CONFIG):
                (self._part / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # Other files are in it.
                self._part.rmdir()
        os.close(self._lock)

    def _read_back(self) -> None:
        try:
            self.sha256 = (self._part / _DIGEST).read_text(encoding="ascii")
        except FileNotFoundError:
            self.start_over()
            return
        self._file.seek(0)
        while data := self._file.read(_READ_BYTES):
            self._hash.update(data)
            self.size += len(data)

    def start_over(self) -> None:
        """Drops all data taken so far."""
        (self._part / _DIGEST).unlink(missing_ok=True)
        self._file.truncate(0)
        self.size = 0
        self.sha256 = ""
        self._hash = hashlib.sha256()

    def take(self, chunk: jobs_pb2.ModelChunk) -> None:
        """Takes the next message of a stream."""
        if chunk.HasField("model"):
            self._total = chunk.model.size_bytes
            if not self.sha256:
                _write(self._part / _CONFIG, chunk.model.config)
                _write(self._part / _DIGEST, chunk.model.sha256)
                self.sha256 = chunk.model.sha256
        self._file.write(chunk.data)
        self._hash.update(chunk.data)
        self.size += len(chunk.data)
        self._on_progress(self.size, self._total)

    def finish(self) -> None:
        """Moves the complete model to its place, durably."""
        if self.size != self._total or self._hash.hexdigest() != self.sha256:
            self.start_over()
            raise HearthError(grpc.StatusCode.DATA_LOSS,
                              f"{self._part / _MODEL}: what has come does not have the SHA-256 "
                              "that the daemon told; download it again")
        self._file.flush()
        os.fsync(self._file.fileno())
        (self._part / _DIGEST).unlink()
        sync(self._part)
        if self._replace and self._path.exists():
            # Other files in the folder stay.
            for name in (_MODEL, _CONFIG):
                os.replace(self._part / name, self._path / name)
            sync(self._path)
            self._part.rmdir()
        else:
            os.rename(self._part, self._path)
        sync(self._path.parent)


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


async def upload(connection: Connection, name: str, source: Path,
                 on_progress: Optional[Progress]) -> str:
    """Sends the files of `source` to the daemon; returns the id of the complete upload."""
    # Reads all files, for their digests.
    files = await connection.work(lambda: _UploadFiles(source, on_progress))
    files.request.name = name
    attempts = 0

    async def attempt(heard: Callable[[], None]) -> str:
        # The answer tells how many bytes the daemon has, too.
        begun = await connection.call("Datasets/BeginUpload", files.request,
                                      datasets_pb2.Upload)
        if begun.received_bytes > attempt_from[0]:
            attempt_from[0] = begun.received_bytes
            heard()
        messages = _Messages(files, begun)
        try:
            await connection.send("Datasets/SendUpload", iter(messages), datasets_pb2.Upload)
        finally:
            if messages.error is not None:
                raise messages.error
        return begun.id

    attempt_from = [0]
    while True:
        try:
            return await connection.resume(attempt)
        except HearthError as error:
            attempts += 1
            if (error.code not in (grpc.StatusCode.ABORTED, grpc.StatusCode.OUT_OF_RANGE)
                    or attempts >= _FILE_ATTEMPTS):
                raise


class _UploadFiles:
    """The files below a folder, or one file, which are read once for their digests."""

    def __init__(self, source: Path, on_progress: Optional[Progress]) -> None:
        self.on_progress = on_progress or (lambda done, total: None)
        self.request = datasets_pb2.BeginUploadRequest(is_file=not source.is_dir())
        self._paths = [source] if self.request.is_file else _files_below(source)
        if not self._paths:
            raise FileNotFoundError(f"{source}: has no files")
        for path in self._paths:
            if not path.is_file():
                missing = "is not there" if not path.exists() else "is no file itself"
                raise FileNotFoundError(f"{path}: {missing}")
            digest = hashlib.sha256()
            size = 0
            with open(path, "rb") as file:
                while data := file.read(_READ_BYTES):
                    digest.update(data)
                    size += len(data)
            relative = path.name if self.request.is_file else path.relative_to(source).as_posix()
            self.request.files.add(path=relative, size_bytes=size, sha256=digest.hexdigest())
        self.size = sum(file.size_bytes for file in self.request.files)

    def read(self, offset: int) -> Iterator[bytes]:
        """The bytes from `offset` on, which counts through all files, one after the other."""
        begin = 0
        for path, announced in zip(self._paths, self.request.files):
            end = begin + announced.size_bytes
            if offset < end:
                with open(path, "rb") as file:
                    file.seek(offset - begin)
                    while offset < end:
                        data = file.read(min(_CHUNK_BYTES, end - offset))
                        if not data:
                            raise HearthError(
                                grpc.StatusCode.FAILED_PRECONDITION,
                                f"{path}: has become shorter since the upload began")
                        yield data
                        offset += len(data)
            begin = end


def _files_below(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(paths, key=lambda path: path.relative_to(folder).as_posix())


class _Messages:
    """The messages of one stream. `error` is the exception that ended them, which gRPC drops."""

    def __init__(self, files: _UploadFiles, upload: datasets_pb2.Upload) -> None:
        self._files = files
        self._upload = upload
        self.error: Optional[Exception] = None

    def __iter__(self) -> Iterator[datasets_pb2.UploadChunk]:
        offset = self._upload.received_bytes
        # A whole upload is sent one empty message: its last files may be empty.
        yield datasets_pb2.UploadChunk(id=self._upload.id, offset=offset)
        try:
            for data in self._files.read(offset):
                yield datasets_pb2.UploadChunk(offset=offset, data=data)
                offset += len(data)
                self._files.on_progress(offset, self._files.size)
        except Exception as error:
            self.error = error
            raise
