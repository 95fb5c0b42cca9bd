"""A trainer of GraphSAGE, for tests: one of several that share each batch, or one alone.

    python3 ddp_trainer.py OPTIONS   OPTIONS is JSON: server, rank, world_size, rendezvous (a path
                                     of a file), loader, epochs; and what may be left out:
                                     state      of the loader, to go on from
                                     apart      do not train together: at their own pace
                                     pauses     [step, seconds]
                                     validates  step before which there is a validation

It prints a line of JSON for each step, then one with the sum of the parameters' squares.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import SAGEConv

import hearth
from hearth.torch import NeighborLoader


class SAGE(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(inputs, 16), SAGEConv(16, outputs)])

    def forward(self, batch: Any) -> torch.Tensor:
        x = batch.x
        for conv, (edge_index, size, *_) in zip(self.convs, batch.layers):
            x = conv((x, x[:size[1]]), edge_index).relu()
        return x


def tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def main() -> None:
    options = json.loads(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if options["world_size"] > 1:
        dist.init_process_group("gloo", init_method=f"file://{options['rendezvous']}",
                                rank=options["rank"], world_size=options["world_size"])
    client = hearth.Client(options["server"])
    loader = NeighborLoader(client, layout="layers", **options["loader"])
    valid_loader = NeighborLoader(client, layout="layers", split="valid", **options["loader"])
    pause_step, seconds = options.get("pauses", (0, 0))
    (nodes,) = client.dataset(options["loader"]["dataset"]).node_types
    model = plain = SAGE(nodes.feature_dim, nodes.label_width)
    if options["world_size"] > 1 and not options.get("apart"):
        model = DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if "state" in options:
        loader.load_state_dict(options["state"])
    tell(job=loader.job.id, batches=len(loader), seeds=len(loader.dataset))
    step = 0
    for _ in range(options["epochs"]):
        try:
            for batch in loader:
                loss = F.cross_entropy(model(batch), batch.y)
                optimizer.zero_grad()
                (loss * batch.loss_scale).backward()
                optimizer.step()
                step += 1
                tell(loss=loss.item(), scale=batch.loss_scale, seeds=batch.batch_size,
                     nodes=int(batch.n_id.sum()), state=loader.state_dict(),
                     places=batch.input_id.tolist(), ids=batch.n_id[:batch.batch_size].tolist())
                if step == pause_step:
                    time.sleep(seconds)
                if step == options.get("validates"):
                    tell(valid_seeds=sum(one.batch_size for one in valid_loader))
        except hearth.HearthError as error:
            tell(error=error.code.name)
            return
    tell(parameters=sum(float(one.detach().square().sum()) for one in plain.parameters()))
    loader.close()


if __name__ == "__main__":
    main()
