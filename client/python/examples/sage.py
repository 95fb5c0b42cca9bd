"""Node classification with GraphSAGE, as PyG's example but for the import and two loaders.

    python sage.py papers --epochs 5
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

import hearth
from hearth.torch import NeighborLoader


class SAGE(torch.nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(inputs, hidden), SAGEConv(hidden, outputs)])

    def forward(self, x, edge_index):
        x = self.convs[0](x, edge_index).relu()
        return self.convs[1](F.dropout(x, p=0.5, training=self.training), edge_index)


def import_once(client, path):
    """Imports the dataset at a path, unless it is there under the name of its folder."""
    if path.exists() and path.name not in [one.name for one in client.datasets()]:
        client.import_dataset(path.name, path)


def accuracy(model, loader, device):
    model.eval()
    right = seeds = 0
    with torch.no_grad():
        for batch in loader:
            batch = batch.to(device)
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            right += int((out.argmax(1) == batch.y).sum())
            seeds += batch.batch_size
    return right / seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dataset", help="name of a dataset, or the path of one to import")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--strategy", default="gnndrive")
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    client = hearth.Client()
    import_once(client, Path(args.dataset))
    kwargs = {"dataset": Path(args.dataset).name, "strategy": args.strategy,
              "num_neighbors": [10, 10], "batch_size": 1024}
    train_loader = NeighborLoader(client, split="train", **kwargs)
    valid_loader = NeighborLoader(client, split="valid", **kwargs)
    model = SAGE(train_loader.num_features, 256, train_loader.num_classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in train_loader:
            batch = batch.to(device)
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            loss = F.cross_entropy(out, batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.batch_size
        loss, valid = total / len(train_loader.dataset), accuracy(model, valid_loader, device)
        train_loader.report(epoch, loss=loss, metric=valid)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {valid:.4f}")


if __name__ == "__main__":
    main()
