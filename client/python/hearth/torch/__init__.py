"""Models of your own in PyTorch, trained on the daemon's batches.

    loader = hearth.torch.NeighborLoader(client, dataset="papers", num_neighbors=[10, 10])
    for batch in loader:
        loss = step(model(batch.x, batch.edge_index)[:batch.batch_size], batch.y)

The daemon samples batches and assembles their rows, in memory that it shares with processes of its
own machine; to others it sends them. torch is imported when a loader needs it, torch_geometric for
the layout "pyg" only, dgl for "graphbolt".
"""

from hearth.torch.batches import Layer, LayerBatch
from hearth.torch.loader import NeighborLoader

__all__ = ["Layer", "LayerBatch", "NeighborLoader"]
