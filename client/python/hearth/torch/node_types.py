"""What a daemon's welcome says about the types of nodes."""

from __future__ import annotations

from hearth.v1 import feeds_pb2


def is_typed(welcome: feeds_pb2.FeedWelcome) -> bool:
    """Whether nodes or edges are of several types."""
    return len(welcome.node_types) > 1 or len(welcome.edge_types) > 1


def names_of(welcome: feeds_pb2.FeedWelcome) -> list[str]:
    """Names of the node types of a graph with types, in order. The only node type, which has no
    name, has that of the sources of the first edge type."""
    return [one.name or welcome.edge_types[0].split(":")[0] for one in welcome.node_types]
