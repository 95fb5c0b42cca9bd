"""GraphSAGE in a LightningModule: the trainer takes the loaders, and its checkpoints their place.

    python sage_lightning.py papers --epochs 5
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

import hearth
from hearth.torch import NeighborLoader

try:
    import lightning as L
except ImportError:
    sys.exit("skipped: lightning is not installed (pip install lightning)")


class Classifier(L.LightningModule):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.model = GraphSAGE(inputs, 256, 2, outputs, dropout=0.5)

    def forward(self, batch):
        return self.model(batch.x, batch.edge_index)[:batch.batch_size]

    def training_step(self, batch, _):
        loss = F.cross_entropy(self(batch), batch.y)
        self.log("loss", loss, prog_bar=True, batch_size=batch.batch_size)
        return loss

    def validation_step(self, batch, _):
        right = (self(batch).argmax(1) == batch.y).float().mean()
        self.log("accuracy", right, prog_bar=True, batch_size=batch.batch_size)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dataset", help="name of a dataset, or the path of one to import")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    client = hearth.Client()
    path = Path(args.dataset)
    if path.exists() and path.name not in [one.name for one in client.datasets()]:
        client.import_dataset(path.name, path)
    (nodes,) = client.dataset(path.name).node_types
    kwargs = {"dataset": path.name, "strategy": "gnndrive", "num_neighbors": [10, 10],
              "batch_size": 1024}
    trainer = L.Trainer(max_epochs=args.epochs)
    trainer.fit(Classifier(nodes.feature_dim, nodes.label_width),
                NeighborLoader(client, split="train", **kwargs),
                NeighborLoader(client, split="valid", **kwargs))


if __name__ == "__main__":
    main()
