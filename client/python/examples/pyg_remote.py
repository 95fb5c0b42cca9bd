"""GraphSAGE on nodes of the script's own choice, by PyG's NodeLoader over the daemon's graph.

    python pyg_remote.py papers --epochs 5
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

import hearth
import hearth.pyg


def dataset_of(client, name):
    """The dataset, which is imported first if it is the path of one."""
    path = Path(name)
    if path.exists() and path.name not in [one.name for one in client.datasets()]:
        client.import_dataset(path.name, path)
    return client.dataset(path.name)


def accuracy(model, loader):
    model.eval()
    right = labeled = 0
    with torch.no_grad():
        for batch in loader:
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            right += int((out.argmax(1) == batch.y).sum())
            labeled += int((batch.y >= 0).sum())
    return right / labeled


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dataset", help="name of a dataset, or the path of one to import")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--strategy", default="gnndrive")
    args = parser.parse_args()

    client = hearth.Client()
    dataset = dataset_of(client, args.dataset)
    (kind,) = dataset.node_types
    stores, sampler = hearth.pyg.remote(client, dataset.name, num_neighbors=[10, 10],
                                        batch_size=1024, strategy=args.strategy)
    nodes = torch.randperm(kind.num_nodes, generator=torch.Generator().manual_seed(1))
    train, valid = nodes.split([kind.num_nodes * 4 // 5, kind.num_nodes - kind.num_nodes * 4 // 5])
    train_loader = NodeLoader(stores, sampler, input_nodes=train, batch_size=1024, shuffle=True)
    valid_loader = NodeLoader(stores, sampler, input_nodes=valid, batch_size=1024)
    model = GraphSAGE(kind.feature_dim, 256, 2, kind.label_width)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            loss = F.cross_entropy(out, batch.y, ignore_index=-1)  # Nodes without a label.
            loss.backward()
            optimizer.step()
            total += loss.item() / len(train_loader)
        print(f"epoch {epoch}: loss {total:.4f}, accuracy {accuracy(model, valid_loader):.4f}")
    sampler.close()


if __name__ == "__main__":
    main()
