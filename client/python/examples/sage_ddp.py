"""GraphSAGE in several processes, which share each batch: DistributedDataParallel.

    torchrun --nproc_per_node=2 sage_ddp.py /data/papers --epochs 5
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

from hearth.torch import NeighborLoader


def total(*values):
    """The sums over all processes."""
    sums = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(sums)
    return sums.tolist()


def accuracy(model, loader, device):
    model.eval()
    right = seeds = 0
    with torch.no_grad():
        for batch in loader:
            batch = batch.to(device)
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            right += int((out.argmax(1) == batch.y).sum())
            seeds += batch.batch_size
    right, seeds = total(right, seeds)
    return right / seeds


def train(args):
    device = torch.device("cuda", dist.get_rank()) if torch.cuda.is_available() else "cpu"
    kwargs = {"strategy": args.strategy, "num_neighbors": [10, 10], "batch_size": 1024}
    train_loader = NeighborLoader(args.path, split="train", **kwargs)
    valid_loader = NeighborLoader(args.path, split="valid", **kwargs)
    torch.manual_seed(1)
    model = GraphSAGE(train_loader.num_features, 256, 2, train_loader.num_classes,
                      dropout=0.5).to(device)
    shared = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(shared.parameters(), lr=0.003)
    for epoch in range(1, args.epochs + 1):
        model.train()
        loss_sum = 0.0
        for batch in train_loader:
            batch = batch.to(device)
            optimizer.zero_grad()
            out = shared(batch.x, batch.edge_index)[:batch.batch_size]
            loss = F.cross_entropy(out, batch.y)
            (loss * batch.loss_scale).backward()
            optimizer.step()
            loss_sum += loss.item() * batch.batch_size
        (loss,) = (one / len(train_loader.dataset) for one in total(loss_sum))
        valid = accuracy(model, valid_loader, device)
        train_loader.report(epoch, loss=loss, metric=valid)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {valid:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("path", help="folder of a graph; a daemon of the processes imports it")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--strategy", default="gnndrive")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)  # The model ends before its group: the last to leave it could wait for ever.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
