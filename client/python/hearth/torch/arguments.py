"""Arguments of PyG's NeighborLoader: those that are options of a feed, those that do nothing
here, and those that cannot work."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from hearth.errors import invalid
from hearth.options.values import Value
from hearth.torch.batches import LAYOUTS
from hearth.v1 import feeds_pb2

NumNeighbors = Union[Sequence[int], Mapping[Any, Sequence[int]]]
SPLITS = {"train": feeds_pb2.FEED_TRAIN, "valid": feeds_pb2.FEED_VALID,
          "test": feeds_pb2.FEED_TEST}
_LEAST_CREDITS = 3
_OF_LAYERS = ("layers", "graphbolt")

# Batches are made by the daemon, not by workers of this process.
_WITHOUT_EFFECT = {"num_workers", "persistent_workers", "worker_init_fn", "multiprocessing_context",
                   "timeout", "generator", "pin_memory_device", "in_order", "is_sorted"}
_OWN_SAMPLING = "a node's neighbors are drawn uniformly, without replacement, by the daemon"
# Arguments that cannot work, the values that ask for nothing, and why.
_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "data": ((), "is a dataset of the daemon: give its name as dataset"),
    "input_time": ((None,), "datasets have no times"),
    "time_attr": ((None,), "datasets have no times"),
    "temporal_strategy": (("uniform",), "datasets have no times"),
    "weight_attr": ((None,), _OWN_SAMPLING),
    "replace": ((False,), _OWN_SAMPLING),
    "disjoint": ((False,), "seeds of a batch share their subgraph"),
    "subgraph_type": (("directional",), "subgraphs are directional"),
    "directed": ((True,), "subgraphs are directional"),
    "neighbor_sampler": ((None,), _OWN_SAMPLING),
    "transform_sampler_output": ((None,), "the daemon samples; transform gets whole batches"),
    "filter_per_worker": ((None, False), "batches are not made by workers"),
    "custom_cls": ((None,), "layout chooses the class of batches"),
    "collate_fn": ((None,), "the daemon makes whole batches; transform gets them"),
    "batch_sampler": ((None,), "the daemon orders the seeds"),
    "trainers": ((), "is world_size here, by default that of torch.distributed"),
}


def options_of(num_neighbors: NumNeighbors, layout: str, batch_size: Optional[int],
               prefetch_factor: Optional[int], more: Mapping[str, Any]) -> dict[str, Value]:
    """The options of the feed job. Raises InvalidRequest, which names the argument."""
    if layout not in LAYOUTS:
        raise invalid("layout", f"{layout!r} is not one of {', '.join(LAYOUTS)}")
    options: dict[str, Value] = {name.replace("-", "_"): value for name, value in more.items()
               if not _is_for_nothing(name, value)}
    options.setdefault("sampler", "neighbor" if layout in _OF_LAYERS else "subgraph")
    if layout == "pyg" and options["sampler"] != "subgraph":
        raise invalid("layout", "pyg needs the sampler subgraph, whose batches are one graph; "
                      "layers takes the others")
    if layout == "graphbolt" and options["sampler"] == "subgraph":
        raise invalid("layout", "graphbolt needs a sampler that draws each layer, as neighbor")
    _set_neighbors(num_neighbors, options)
    if batch_size is not None:
        options["batch_size"] = batch_size
    if prefetch_factor is not None:
        # Scripts ask for 2 where PyG's loader has several workers.
        options.setdefault("credits", max(prefetch_factor, _LEAST_CREDITS))
    return options


def chosen_split(split: Optional[str], shuffle: Optional[bool], has_nodes: bool) -> str:
    """The split that a loader goes through, or whose place its nodes take. Raises InvalidRequest
    for choices that no feed has."""
    if split is None:
        split = "valid" if has_nodes and shuffle is False else "train"
    if split not in SPLITS:
        raise invalid("split", f"{split!r} is not one of {', '.join(SPLITS)}")
    if shuffle is not None and shuffle != (split == "train"):
        order = "shuffled anew in each epoch" if split == "train" else "in order"
        raise invalid("shuffle", f"cannot be {shuffle}: the nodes of {split} come {order}; those "
                      "of input_nodes come either way")
    return split


def wants_all_labels(labels: str, layout: str) -> bool:
    """Whether y is of all nodes. Raises InvalidRequest."""
    if labels not in ("seeds", "all"):
        raise invalid("labels", f"{labels!r} is not one of seeds, all")
    if labels == "all" and layout == "graphbolt":
        raise invalid("labels", "are the seeds' in the layout graphbolt")
    return labels == "all"


def _is_for_nothing(name: str, value: Any) -> bool:
    """Whether an argument of PyG's or PyTorch's loader needs nothing here. Raises
    InvalidRequest for one that cannot work."""
    if name in _REFUSED:
        idle, why = _REFUSED[name]
        if not any(isinstance(value, type(one)) and value == one for one in idle):
            raise invalid(name, why)
        return True
    return name in _WITHOUT_EFFECT


def _set_neighbors(num_neighbors: NumNeighbors, options: dict[str, Value]) -> None:
    if not isinstance(num_neighbors, Mapping):
        options["fanouts"] = list(num_neighbors)
        return
    lists = {_edge_type(kind): list(counts) for kind, counts in num_neighbors.items()}
    if len({len(counts) for counts in lists.values()}) != 1:
        raise invalid("num_neighbors", "has not one number for each layer of every edge type")
    options["fanout_of"] = ";".join(f"{kind}={','.join(map(str, counts))}"
                                    for kind, counts in lists.items())
    # For edge types that it does not name.
    options.setdefault("fanouts", [-1 if -1 in hop else max(1, *hop)
                                   for hop in zip(*lists.values())])


def _edge_type(kind: Any) -> str:
    return kind if isinstance(kind, str) else ":".join(kind)
