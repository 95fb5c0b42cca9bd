"""Where a loader's batches come from: a client's daemon, or a private one for the graph of a
path."""

from __future__ import annotations

import os
import threading
from typing import Any, Mapping, NamedTuple, Optional, Union
from weakref import WeakValueDictionary

from hearth.client import Client
from hearth.dataset_calls import AnyPath
from hearth.errors import invalid
from hearth.private import PrivateDaemon, dataset_of


class Origin(NamedTuple):
    """A dataset of a daemon."""

    client: Client
    dataset: str
    daemon: Optional[PrivateDaemon] = None
    """The loader's own use of a private daemon."""


# By process and data directory: loaders share a feed only where they share a client.
_clients: WeakValueDictionary[tuple[int, str], Client] = WeakValueDictionary()
_choosing = threading.Lock()


def origin_of(source: Union[Client, AnyPath], dataset: Optional[str],
              daemon_options: Optional[Mapping[str, Any]]) -> Origin:
    """The dataset that a loader's arguments name. That of a path is imported if need be, by a
    private daemon, which runs already if another loader uses it."""
    if isinstance(source, Client):
        if dataset is None:
            raise invalid("dataset", "is needed: the name of a dataset of the daemon")
        if daemon_options is not None:
            raise invalid("daemon_options", "are for a path, whose daemon the loader starts")
        return Origin(source, dataset)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"{type(source).__name__} is not a hearth.Client, nor a path")
    if dataset is not None:
        raise invalid("dataset", "is for a client: a path names the graph itself")
    daemon = PrivateDaemon(**(daemon_options or {}))
    try:
        client = _client_of(daemon)
        return Origin(client, dataset_of(client, source), daemon)
    except BaseException:
        daemon.close()
        raise


def _client_of(daemon: PrivateDaemon) -> Client:
    key = os.getpid(), daemon.data_dir
    with _choosing:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = daemon.client()
        return client
