"""Hearth on a Ray cluster.

    hearth.ray.train        several machines of the cluster train one model
    hearth.ray.preprocess   an import whose texts are read by all machines of the cluster
    hearth.ray.prepare      a plan whose batches are sampled and packed by all machines
    hearth.ray.Trainable    a trial of Ray Tune's whose job the daemon trains
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import ray as _ray  # noqa: F401
except ImportError as missing:
    raise ImportError("hearth.ray needs Ray: pip install 'ray[tune]'") from missing

from hearth.ray.machines import train
from hearth.ray.preparation import prepare
from hearth.ray.preprocessing import preprocess

if TYPE_CHECKING:
    from hearth.ray.trainable import Trainable

__all__ = ["Trainable", "prepare", "preprocess", "train"]


def __getattr__(name: str) -> Any:
    # Ray Tune takes seconds to import, and the others do without it.
    if name == "Trainable":
        from hearth.ray.trainable import Trainable
        return Trainable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
