"""An import whose texts are read by many machines.

  1. The caller plans: it cuts the texts into pieces. The same texts give the same plan.
  2. Each piece that is not there yet is a task of Ray's. A piece is the same wherever and however
     often it is made, and is there whole or not at all: Ray may repeat tasks, and a call that was
     interrupted goes on where it was.
  3. The daemon joins: it imports the folder of the pieces, as it would import the texts, with the
     same result. If it finds a piece damaged, damaged ones are made again, once.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Optional, Sequence, Union

import grpc
import ray

from hearth import pieces
from hearth.client import Client, Dataset
from hearth.dataset_calls import AnyPath
from hearth.errors import HearthError, InvalidRequest, JobFailed
from hearth.options.kinds import job_spec
from hearth.options.values import Value
from hearth.ray.tasks import Tasks


def preprocess(name: str, texts: Union[AnyPath, Sequence[AnyPath]], folder: AnyPath, *,
               client: Optional[Client] = None, piece_size: Optional[str] = None,
               relabel: bool = False, header: Optional[bool] = None,
               columns: Optional[Sequence[str]] = None, retries: int = 3,
               num_cpus: float = 1.0, storage_options: Optional[dict[str, Any]] = None,
               staging: Optional[AnyPath] = None, priority: int = 0,
               **options: Value) -> Dataset:
    """Imports edge lists as the dataset `name`; machines of the Ray cluster read them in pieces.
    The dataset is the same, byte for byte, as that of Client.import_dataset of the texts, one
    behind the other, for any number of workers and repeats.

    `texts` are files whose paths are the same on all machines. Pieces lie in `folder`, which all
    machines and the daemon reach, or, if it is a URL ("s3://bucket/papers"), where fsspec puts
    them with `storage_options`; the caller then copies them to `staging`, a folder that the daemon
    reaches (default: a temporary one). They stay in `folder`, for a call that goes on.

    A piece has about `piece_size` ("256MiB") of text; a compressed text is one piece. `relabel`,
    `header` and `columns` are as for `hearth dataset import`, and so are `options`:
    undirected=True, ... Ids must be numbers: those of the nodes, or any with `relabel`.

    A task takes `num_cpus` of Ray's and is repeated up to `retries` times. Raises InvalidRequest
    for texts that are no edge lists, HearthError for pieces that could not be made, JobFailed if
    the import fails.
    """
    if isinstance(texts, (str, os.PathLike)):
        texts = [texts]
    # A mistake in the last step is told before the first one.
    job_spec("import", {**options, "name": name, "source": os.fspath(folder)})
    with ExitStack() as stack:
        if client is None:
            client = stack.enter_context(Client())
        if any(dataset.name == name for dataset in client.datasets()):
            raise HearthError(grpc.StatusCode.ALREADY_EXISTS,
                              f"there is a dataset called {name} already")
        place = _Place(os.fspath(folder), storage_options or {}, staging, stack)
        num_pieces = pieces.plan(place.local, texts, piece_size=piece_size, relabel=relabel,
                                 header=header, columns=columns)
        place.share_plan()
        for index in range(num_pieces):
            place.take_earlier(index)
        tasks = Tasks(_make_piece, (ray.put(Path(place.plan).read_bytes()), place.folder,
                                    place.storage_options),
                      retries=retries, num_cpus=num_cpus, ended=place.take)
        tasks.make(pieces.missing(place.plan))
        try:
            dataset = client.import_dataset(name, place.local, priority=priority, **options)
        except JobFailed:
            damaged = pieces.missing(place.plan, contents=True)
            if not damaged:
                raise
            tasks.make(damaged)
            dataset = client.import_dataset(name, place.local, priority=priority, **options)
        pieces.remove_unfinished(place.local)
        return dataset


class _Place:
    """Where pieces lie, and the local folder in which the daemon finds them."""

    def __init__(self, folder: str, storage_options: dict[str, Any],
                 staging: Optional[AnyPath], stack: ExitStack) -> None:
        self.folder = folder
        self.storage_options = storage_options
        self.is_url = "://" in folder
        if not self.is_url:
            self.folder = self.local = os.path.abspath(folder)
        elif staging is not None:
            self.local = os.path.abspath(staging)
        else:
            self.local = stack.enter_context(tempfile.TemporaryDirectory(prefix="hearth-pieces-"))
        self.plan = os.path.join(self.local, pieces.PLAN)
        if self.is_url:
            self._files, self._root = _open_storage(folder, storage_options)

    def share_plan(self) -> None:
        """Puts the plan beside the pieces. Raises HearthError if there is another one."""
        if not self.is_url:
            return
        path, wanted = f"{self._root}/{pieces.PLAN}", Path(self.plan).read_bytes()
        if self._files.exists(path):
            if self._files.cat_file(path) != wanted:
                raise HearthError(grpc.StatusCode.ALREADY_EXISTS, f"{self.folder}/{pieces.PLAN}: "
                                  "is another plan, or of texts that have changed since")
            return
        self._files.makedirs(self._root, exist_ok=True)
        self._files.pipe_file(path, wanted)

    def take_earlier(self, index: int) -> None:
        """Takes a piece that an earlier call has made; what it is worth shows later."""
        if self.is_url and not os.path.exists(os.path.join(self.local, pieces.piece_name(index))):
            if self._files.exists(f"{self._root}/{pieces.piece_name(index)}"):
                self.take(index)

    def take(self, index: int) -> None:
        """Takes a piece that has just been made."""
        if self.is_url:
            name = pieces.piece_name(index)
            self._files.get_file(f"{self._root}/{name}", os.path.join(self.local, name))


def _make_piece(index: int, plan: bytes, folder: str,
                storage_options: dict[str, Any]) -> Optional[str]:
    """Makes a piece, on a worker. Returns what is wrong with its text, which no repeat mends;
    raises HearthError for anything else."""
    try:
        if "://" not in folder:
            pieces.make(os.path.join(folder, pieces.PLAN), index, folder)
            return None
        with tempfile.TemporaryDirectory(prefix="hearth-piece-") as scratch:
            Path(scratch, pieces.PLAN).write_bytes(plan)
            pieces.make(os.path.join(scratch, pieces.PLAN), index, scratch)
            files, root = _open_storage(folder, storage_options)
            name = pieces.piece_name(index)
            files.put_file(os.path.join(scratch, name), f"{root}/{name}")
    except InvalidRequest as error:
        return error.message
    return None


def _open_storage(url: str, storage_options: dict[str, Any]) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError as missing:
        raise ImportError(f"{url} needs fsspec: pip install fsspec") from missing
    files, root = fsspec.core.url_to_fs(url, **storage_options)
    return files, root.rstrip("/")
