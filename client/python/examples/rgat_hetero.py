"""Node classification on a graph of several types with R-GAT, over HeteroData.

    python rgat_hetero.py mag --epochs 5
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, HeteroConv, Linear

import hearth
from hearth.torch import NeighborLoader


class RGAT(torch.nn.Module):
    """Two layers of an attention for each edge type; their results are added up."""

    def __init__(self, edge_types, target, hidden, outputs):
        super().__init__()
        self.target = target
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: GATConv((-1, -1), hidden, add_self_loops=False)
                        for kind in edge_types}, aggr="sum") for _ in range(2))
        self.lin = Linear(hidden, outputs)

    def forward(self, x, edge_index):
        for conv in self.convs:
            # Types that no edge leads to stay as they are.
            x = {**x, **{name: one.relu() for name, one in conv(x, edge_index).items()}}
        return self.lin(x[self.target])


def dataset_of(client, name):
    """The dataset, which is imported first if it is the path of one."""
    path = Path(name)
    if path.exists() and path.name not in [one.name for one in client.datasets()]:
        client.import_dataset(path.name, path)
    return client.dataset(path.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dataset", help="name of a dataset, or the path of one to import")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--strategy", default="gnndrive")
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    client = hearth.Client()
    dataset = dataset_of(client, args.dataset)
    target = next(one for one in dataset.node_types if one.num_train)
    loader = NeighborLoader(client, dataset=dataset.name, strategy=args.strategy,
                            num_neighbors=[10, 10], batch_size=1024)
    batch = next(iter(loader)).to(device)
    model = RGAT(batch.edge_types, target.name, 64, target.label_width).to(device)
    with torch.no_grad():  # Gives lazy layers their widths.
        model(batch.x_dict, batch.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    loader.set_epoch(0)
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for batch in loader:
            batch = batch.to(device)
            seeds = batch[target.name]
            optimizer.zero_grad()
            out = model(batch.x_dict, batch.edge_index_dict)[:seeds.batch_size]
            loss = F.cross_entropy(out, seeds.y)
            loss.backward()
            optimizer.step()
            total += float(loss) * seeds.batch_size
        loader.report(epoch, loss=total / len(loader.dataset))
        print(f"epoch {epoch}: loss {total / len(loader.dataset):.4f}")


if __name__ == "__main__":
    main()
