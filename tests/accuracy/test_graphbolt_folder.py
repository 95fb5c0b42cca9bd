"""Tests of the reader of GraphBolt folders, on one that the converters' layout makes."""

import sys
from pathlib import Path

import numpy as np
import pytest

from graphbolt_folder import read_graphbolt_folder

sys.path.append(str(Path(__file__).parents[2] / "client/python"))
from hearth.datasets.table_layouts import GraphBoltFolder, Nodes  # noqa: E402

EDGES = {"a:r:a": [[0, 1], [1, 2]], "b:rev_s:a": [[0, 1, 1], [0, 0, 3]]}
SPLIT = {"train": [3, 0], "valid": [1], "test": [4]}


@pytest.fixture
def folder(tmp_path):
    layout = GraphBoltFolder(tmp_path)
    for name, ends in EDGES.items():
        np.save(layout.edges(name), np.array(ends))
    for kind, shape in (("a", (5, 3)), ("b", (2, 1))):
        np.save(layout.features(kind), np.ones(shape, np.float32))
    split = {name: np.array(ids) for name, ids in SPLIT.items()}
    labeled = Nodes(5, 3, np.array([2, 0, 1, 1, 0]), split)
    layout.finish({"a": labeled, "b": Nodes(2, 1, None, None)}, list(EDGES))
    return tmp_path


def test_everything_is_read(folder):
    data = read_graphbolt_folder(folder)
    assert data.num_nodes == {"a": 5, "b": 2}
    assert {":".join(key): edges.tolist() for key, edges in data.edges.items()} == EDGES
    assert (data.target, data.num_classes, data.widths) == ("a", 3, {"a": 3, "b": 1})
    assert data.labels.tolist() == [2, 0, -1, 1, 0]
    assert {name: getattr(data, name).tolist() for name in SPLIT} == SPLIT


def test_other_metadata_is_refused(folder):
    (folder / "metadata.yaml").write_text("graph:\n  nodes: []\n")
    with pytest.raises(ValueError, match="0 edge types and 0 tasks"):
        read_graphbolt_folder(folder)
