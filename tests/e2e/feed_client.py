"""A script that takes batches of its own, for tests that stop, kill or starve it.

    python3 feed_client.py OPTIONS   OPTIONS is JSON: server, loader, epochs, pause (seconds)

It prints one line for each batch: epoch, number, digest.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any

ARRAYS = ("x", "y", "n_id", "in_degrees", "edge_index")


def digest(batch: Any) -> str:
    """Of all that a batch of one graph holds."""
    found = hashlib.sha256()
    for name in ARRAYS:
        found.update(memoryview(batch[name].contiguous().numpy()).cast("B"))
    found.update(json.dumps([batch.batch_size, batch.num_sampled_nodes,
                             batch.num_sampled_edges]).encode())
    return found.hexdigest()[:16]


def main() -> None:
    import hearth
    import hearth.torch

    options = json.loads(sys.argv[1])
    with hearth.Client(options["server"]) as client:
        with hearth.torch.NeighborLoader(client, **options["loader"]) as loader:
            for epoch in range(options["epochs"]):
                for number, batch in enumerate(loader):
                    print(epoch, number, digest(batch), flush=True)
                    time.sleep(options.get("pause", 0))


if __name__ == "__main__":
    main()
