"""Nodes that a script chooses as seeds, in place of a split of the dataset."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from hearth.errors import invalid
from hearth.packages import torch
from hearth.v1 import datasets_pb2

if TYPE_CHECKING:
    from hearth.client import Client

_FIELD = "input_nodes"
_ID_BYTES = 8


@dataclass(frozen=True)
class Nodes:
    """Ids among the nodes of the target type, in their order; equal if they are the same."""

    sha256: str
    ids: bytes = field(repr=False, compare=False)
    """8 bytes each, little-endian."""

    @property
    def count(self) -> int:
        return len(self.ids) // _ID_BYTES

    def __str__(self) -> str:
        return f"{self.count} nodes of SHA-256 {self.sha256}"


def nodes_of(given: Any, client: Client, dataset: str, target: str) -> Optional[Nodes]:
    """The nodes that `input_nodes` names: ids, a mask over all nodes of the target type, or a
    pair of that type and those; None for the dataset's split. `target` is the type that the
    options name. Raises InvalidRequest; the daemon checks the ids when it gets them."""
    node_type = None
    if isinstance(given, str):
        given = given, None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        node_type, given = given
        _check_type(_target_of(client, dataset, target), node_type)
    if given is None:
        return None
    try:
        values = torch().as_tensor(given).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise invalid(_FIELD, f"are neither ids nor a mask: {error}") from None
    if values.dim() != 1:
        raise invalid(_FIELD, f"have {values.dim()} dimensions, not one")
    if values.dtype is torch().bool:
        count = _target_of(client, dataset, target).num_nodes
        if len(values) != count:
            raise invalid(_FIELD, f"are a mask of {len(values)} nodes; the type has {count}")
        values = values.nonzero().flatten()
    elif len(values) and (values.is_floating_point() or values.is_complex()):
        raise invalid(_FIELD, f"are {values.dtype}, not whole numbers")
    if not len(values):
        raise invalid(_FIELD, "have no node")
    values = values.to(torch().int64).contiguous()
    ids = ctypes.string_at(values.data_ptr(), _ID_BYTES * len(values))
    return Nodes(hashlib.sha256(ids).hexdigest(), ids)


def _target_of(client: Client, dataset: str, target: str) -> datasets_pb2.NodeType:
    """The node type of the seeds, as the daemon chooses it."""
    types = list(client.dataset(dataset).message.node_types)
    return next((one for one in types if target and one.name == target),
                next((one for one in types if one.label_width and one.num_train), types[0]))


def _check_type(target: datasets_pb2.NodeType, given: str) -> None:
    if given != target.name:
        raise invalid(_FIELD, f"are of type {given!r}, and the seeds of {target.name!r}: the "
                      "option target chooses another")
