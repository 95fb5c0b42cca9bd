"""Python side of Hearth: a client of the daemon, and converters of datasets.

The client needs grpcio and protobuf only, the converters (hearth.datasets) numpy only. Other
packages (pandas, tqdm, torch, ...) are imported where they are used; an error names a missing
one.
"""

from __future__ import annotations

import importlib
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from hearth.async_client import AsyncClient as AsyncClient
    from hearth.client import Client as Client
    from hearth.client import Dataset as Dataset
    from hearth.client import Job as Job
    from hearth.client import Sweep as Sweep
    from hearth.errors import HearthError as HearthError
    from hearth.errors import InvalidRequest as InvalidRequest
    from hearth.errors import JobFailed as JobFailed
    from hearth.errors import NotFound as NotFound
    from hearth.errors import Unavailable as Unavailable
    from hearth.private import PrivateDaemon as PrivateDaemon
    from hearth.private import dataset_of as dataset_of
    from hearth.space import Choice as Choice
    from hearth.space import Integers as Integers
    from hearth.space import LogUniform as LogUniform
    from hearth.space import Uniform as Uniform

# In an editable install hearth.v1 is in site-packages, and all else in the tree.
__path__ = extend_path(__path__, __name__)

_HOMES = {
    "hearth.async_client": ("AsyncClient",),
    "hearth.client": ("Client", "Dataset", "Job", "Sweep"),
    "hearth.errors": ("HearthError", "InvalidRequest", "JobFailed", "NotFound", "Unavailable"),
    "hearth.private": ("PrivateDaemon", "dataset_of"),
    "hearth.space": ("Choice", "Integers", "LogUniform", "Uniform"),
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Imports a name of the client at its first use: converters run without grpcio."""
    if name == "__version__":
        return importlib.import_module("hearth.version").package_version()
    for home, names in _HOMES.items():
        if name not in names:
            continue
        try:
            return getattr(importlib.import_module(home), name)
        except ImportError as error:
            raise ImportError(f"{error}: run `pip install grpcio protobuf`") from error
    raise AttributeError(f"module 'hearth' has no attribute {name!r}")
