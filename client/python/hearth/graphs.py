"""Datasets and uploads, as the daemon describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Optional, TypeVar

from hearth.rows import Record, Rows, optional_time, same_fields
from hearth.v1 import datasets_pb2, spec_pb2


@dataclass(frozen=True)
class NodeType:
    """Nodes of one type; statistics are in `message`."""

    name: str
    num_nodes: int
    feature_dim: int
    """Columns of the features; 0 = no features."""
    feature_dtype: str
    feature_path: str
    """Path of features registered in place; empty = in the data directory."""
    label_kind: str
    """"classes", "multi-label" or "targets"; empty = no labels."""
    label_width: int
    """Number of classes, of labels that a node may have, or of targets."""
    num_train: int
    num_valid: int
    num_test: int
    message: datasets_pb2.NodeType = field(repr=False, compare=False)


@dataclass(frozen=True)
class EdgeType:
    """Edges of one type; statistics are in `message`."""

    name: str
    source_type: str
    destination_type: str
    num_edges: int
    message: datasets_pb2.EdgeType = field(repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class DatasetRecord(Record):
    """A dataset as of the call; `message` has all fields, which datasets.proto explains."""

    name: str
    fingerprint: str
    node_types: Rows[NodeType]
    edge_types: Rows[EdgeType]
    create_time: Optional[datetime]
    size_bytes: int
    transforms: tuple[str, ...]
    """Changes that the import made to the source, and decisions about it."""
    warnings: tuple[str, ...]
    """Signs of a mistake in the source."""
    message: datasets_pb2.Dataset = field(repr=False, compare=False)
    _calls: Any = field(default=None, repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("name", "num_nodes", "num_edges", "size_bytes",
                                        "create_time", "warnings")

    @property
    def id(self) -> str:
        """Name of the dataset."""
        return self.name

    @property
    def num_nodes(self) -> int:
        """Nodes of all types."""
        return sum(one.num_nodes for one in self.node_types)

    @property
    def num_edges(self) -> int:
        """Edges of all types."""
        return sum(one.num_edges for one in self.edge_types)

    def _repr_html_(self) -> str:
        return (super()._repr_html_() + self.node_types._repr_html_()
                + self.edge_types._repr_html_())


AnyDataset = TypeVar("AnyDataset", bound=DatasetRecord)


@dataclass(frozen=True, repr=False)
class Upload(Record):
    """A graph that is sent, or has been sent, and is not imported yet."""

    id: str
    name: str
    """Name of the future dataset."""
    owner: str
    num_files: int
    received_bytes: int
    size_bytes: int
    job_id: str
    """The import that uses the upload, which is deleted at its end; empty = none."""
    expire_time: Optional[datetime]
    """Time of deletion if nothing more comes; None while a job uses the upload."""
    message: datasets_pb2.Upload = field(repr=False, compare=False)

    shown: ClassVar[tuple[str, ...]] = ("id", "name", "owner", "received_bytes", "size_bytes",
                                        "num_files", "job_id", "expire_time")


def upload_from(message: datasets_pb2.Upload) -> Upload:
    return Upload(expire_time=optional_time(message, "expire_time"), message=message,
                  **same_fields(Upload, message))


def dataset_from(message: datasets_pb2.Dataset, type_of_dataset: type[AnyDataset],
                 calls: Any = None) -> AnyDataset:
    return type_of_dataset(
        node_types=Rows(map(_nodes_from, message.node_types)),
        edge_types=Rows(EdgeType(message=one, **same_fields(EdgeType, one))
                        for one in message.edge_types),
        create_time=optional_time(message, "create_time"),
        transforms=tuple(message.transforms), warnings=tuple(message.warnings), message=message,
        _calls=calls, **same_fields(DatasetRecord, message))


def _nodes_from(message: datasets_pb2.NodeType) -> NodeType:
    kind = spec_pb2.LabelKind.Name(message.label_kind).lower().replace("_", "-")
    return NodeType(label_kind=kind if message.label_kind else "", message=message,
                    **same_fields(NodeType, message))
