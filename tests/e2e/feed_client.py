"""A script that takes batches of its own, for tests that stop, kill or starve it.

    python3 feed_client.py OPTIONS   OPTIONS is JSON: server, loader, epochs, pause (seconds)
    python3 feed_client.py --fork    a process for each line of OPTIONS that it reads

It prints one line for each batch: epoch, number, digest; with --fork, the ids of the processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
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


def taken_through_kills(daemon: Any, address: str, epochs: int, **loader: Any) -> list[list[str]]:
    """Digests of the batches of a script whose daemon is killed twice in each epoch. Memory that a
    killed daemon has given stays."""
    import hearth
    import hearth.torch

    def epoch(batches: Any) -> list[str]:
        found = []
        for number, batch in enumerate(batches):
            if number in (4, 17):
                daemon.kill()
                daemon.start()
            found.append(digest(batch))
        return found

    with hearth.Client(address) as client, \
            hearth.torch.NeighborLoader(client, **loader) as batches:
        return [epoch(batches) for _ in range(epochs)]


def take(options: dict[str, Any]) -> None:
    import hearth
    import hearth.torch

    with hearth.Client(options["server"]) as client:
        with hearth.torch.NeighborLoader(client, **options["loader"]) as loader:
            for epoch in range(options["epochs"]):
                for number, batch in enumerate(loader):
                    print(epoch, number, digest(batch), flush=True)
                    time.sleep(options.get("pause", 0))


def fork() -> None:
    """Takes options from standard input, each in a process of its own; prints its id."""
    import torch_geometric  # noqa: F401

    import hearth.torch  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            take(json.loads(line))
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--fork":
        fork()
    else:
        take(json.loads(sys.argv[1]))
