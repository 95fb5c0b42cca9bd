"""GraphSAGE by DGL's layers, on mini-batches as GraphBolt has them.

    python sage_graphbolt.py papers --epochs 5
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import hearth
from hearth.torch import NeighborLoader

try:
    import dgl.graphbolt  # noqa: F401
    from dgl.nn import SAGEConv
except (ImportError, OSError):  # OSError: it is not made for this torch.
    sys.exit("skipped: dgl is not installed, or not for this version of torch")


class SAGE(torch.nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(inputs, hidden, "mean"),
                                          SAGEConv(hidden, outputs, "mean")])

    def forward(self, blocks, x):
        x = self.convs[0](blocks[0], x).relu()
        return self.convs[1](blocks[1], F.dropout(x, p=0.5, training=self.training))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum(int((model(batch.blocks, batch.node_features["feat"]).argmax(1)
                         == batch.labels).sum()) for batch in loader)
    return right / len(loader.dataset)


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
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kwargs = {"dataset": path.name, "strategy": "gnndrive", "num_neighbors": [10, 10],
              "batch_size": 1024, "layout": "graphbolt", "device": device}
    train_loader = NeighborLoader(client, split="train", **kwargs)
    valid_loader = NeighborLoader(client, split="valid", **kwargs)
    model = SAGE(nodes.feature_dim, 256, nodes.label_width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch.blocks, batch.node_features["feat"]), batch.labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch.labels)
        loss, valid = total / len(train_loader.dataset), accuracy(model, valid_loader)
        train_loader.report(epoch, loss=loss, metric=valid)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {valid:.4f}")


if __name__ == "__main__":
    main()
