"""PyG's layers on Hearth's batches: hearth.torch's loader in the place of PyG's.

`--features` is a strategy of the daemon, which has done its preparations before the first epoch
that is reported. The memory is that of the daemon, too.

On a GPU the loader copies batches to it. `--feed` with "device": "cpu" and "pin_memory": true
has the script do it.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Iterator

import torch
import torch_geometric

from peer import Batch, Reporter, parse_arguments
from training import Trainer
from trimmed_sage import Sage, step

sys.path.append(str(Path(__file__).resolve().parents[3] / "client/python"))
from make_protos import use_tree  # noqa: E402

use_tree()

import hearth  # noqa: E402
import hearth.torch  # noqa: E402


def _batches(loader: hearth.torch.NeighborLoader, trainer: Trainer,
             device: str) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(batch.num_nodes, batch.to(device, non_blocking=True))
    trainer.wait()


def main() -> None:
    options = parse_arguments()
    with hearth.Client(options.server) as client:
        (nodes,) = client.dataset(options.dataset.name).node_types
        widths = [nodes.feature_dim, *[options.hidden] * (len(options.fanouts) - 1),
                  nodes.label_width]
        trainer = Trainer(Sage(widths), options.precision, options.device)
        reporter = Reporter(4 * nodes.feature_dim, options.daemon)
        with hearth.torch.NeighborLoader(
                client, dataset=options.dataset.name, num_neighbors=options.fanouts,
                batch_size=options.batch_size,
                **{"device": options.device, **options.feed}) as loader:
            len(loader)  # Waits for the preparations.
            for _ in range(options.epochs):
                reporter.epoch(_batches(loader, trainer, options.device),
                               (lambda batch: step(trainer, batch))
                               if options.model == "sage" else None)
    reporter.write(options.report, {"torch": torch.__version__,
                                    "torch_geometric": torch_geometric.__version__,
                                    "sampler": "subgraph", "layers": "trimmed"})


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
