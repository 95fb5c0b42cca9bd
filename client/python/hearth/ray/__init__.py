"""Ray places work for the daemon: trials of a search (Ray Tune), and pieces of an import.

    hearth.ray.Trainable    a trial whose job the daemon trains
    hearth.ray.preprocess   an import whose texts are read by all machines of a Ray cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import ray as _ray  # noqa: F401
except ImportError as missing:
    raise ImportError("hearth.ray needs Ray: pip install 'ray[tune]'") from missing

from hearth.ray.preprocessing import preprocess

if TYPE_CHECKING:
    from hearth.ray.trainable import Trainable

__all__ = ["Trainable", "preprocess"]


def __getattr__(name: str) -> Any:
    # Ray Tune takes seconds to import, and preprocessing does without it.
    if name == "Trainable":
        from hearth.ray.trainable import Trainable
        return Trainable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
