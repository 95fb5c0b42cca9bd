"""PyTorch Geometric: datasets as its data, its data as datasets, models in its modules, its loaders
on the daemon's batches.

    data = hearth.pyg.load_dataset(client, "papers")
    hearth.pyg.import_data(client, "mine", data)
    hearth.pyg.load_into(torch_geometric.nn.GraphSAGE(128, 256, 3, 40), "/data/model")
    stores, sampler = hearth.pyg.remote(client, "papers", num_neighbors=[10, 10])

torch and torch_geometric are imported when a function needs them, and the client's messages by
`remote` alone: the converters have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hearth.pyg.exchange import import_data, load_dataset, read_folder, write_folder
from hearth.pyg.models import load_into, read_state

if TYPE_CHECKING:
    from hearth.pyg.backend import remote

__all__ = ["import_data", "load_dataset", "load_into", "read_folder", "read_state", "remote",
           "write_folder"]


def __getattr__(name: str) -> Any:
    if name != "remote":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hearth.pyg.backend import remote
    return remote
