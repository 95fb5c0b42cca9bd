"""Tests of hearth.datasets.pyg: saved Data, HeteroData and .npz as folders, and refusals."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData, InMemoryDataset  # noqa: E402

from hearth.datasets import pyg  # noqa: E402

N = 10
EDGES = np.array([[0, 1, 2, 9], [1, 2, 0, 0]])
X = np.arange(N * 3, dtype=np.float32).reshape(N, 3)
Y = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, -1])
PARTS = {"train": [0, 1, 2, 3], "valid": [4, 5], "test": [6, 8]}
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}


def mask(part):
    made = np.zeros(N, bool)
    made[PARTS[part]] = True
    return made


def graph(**changes):
    data = Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES), y=torch.from_numpy(Y),
                **{name: torch.from_numpy(mask(part)) for part, name in MASKS.items()})
    for name, value in changes.items():
        data[name] = value
    return data


@pytest.fixture
def convert(tmp_path, capsys):
    """Saves something, converts it, and returns the arrays and what was printed."""
    def run(saved, *flags, name="data.pt", status=0):
        path = tmp_path / name
        if isinstance(saved, dict) and name.endswith(".npz"):
            np.savez(path, **saved)
        elif isinstance(saved, bytes):
            path.write_bytes(saved)
        else:
            torch.save(saved, path)
        output = tmp_path / "out"
        shutil.rmtree(output, ignore_errors=True)
        assert pyg.main(["--data", str(path), "--output", str(output), *flags]) == status
        printed = capsys.readouterr()
        if status:
            assert not output.exists()
            assert printed.err.startswith(f"pyg: error: {path}: ")
            return printed.err
        arrays = {file.relative_to(output).as_posix().removesuffix(".npy"): np.load(file)
                  for file in output.rglob("*.npy")}
        return arrays, printed.out
    return run


def check(arrays, parts=("train", "valid", "test")):
    assert set(arrays) == {"edge_index", "node_feat", "node_label",
                           *(f"{part}_idx" for part in parts)}
    np.testing.assert_array_equal(arrays["edge_index"], EDGES)
    np.testing.assert_array_equal(arrays["node_feat"], X)
    np.testing.assert_array_equal(arrays["node_label"], Y)
    assert arrays["node_feat"].dtype == np.float32
    for part in parts:
        assert arrays[f"{part}_idx"].tolist() == PARTS[part]


def test_data_dictionaries_and_datasets_of_one_graph(convert):
    data = graph()
    collated = InMemoryDataset.collate([data])
    for saved in (data, data.to_dict(), [data], (data, None), collated,
                  (collated[0].to_dict(), collated[1], Data)):
        arrays, printed = convert(saved)
        check(arrays)
        assert "left out" not in printed and "--labels" not in printed


def test_what_is_left_out_and_how_to_import_are_told(convert, tmp_path):
    arrays, printed = convert(graph(edge_attr=torch.ones(4, 2), pos=torch.ones(N, 2),
                                    y=torch.arange(N) / 4))
    assert "pyg: left out: edge_attr, pos\n" in printed
    assert f"--source {tmp_path / 'out'} --labels targets\n" in printed
    assert arrays["node_label"].tolist() == [n / 4 for n in range(N)]
    counts = json.loads((tmp_path / "out" / "source.json").read_text())["counts"]
    assert counts["left_out"] == ["edge_attr", "pos"]


def test_sparse_features_parts_that_are_missing_and_masks_of_numbers(convert):
    data = graph(x=torch.from_numpy(X).to_sparse(), train_mask=torch.from_numpy(mask("train")) * 1)
    del data["test_mask"], data["val_mask"]
    check(convert(data)[0], parts=("train",))


def test_several_splits(convert):
    wide = {name: torch.from_numpy(np.stack([mask("test"), mask(part)], 1))
            for part, name in MASKS.items()}
    assert "train_mask has 2 columns" in convert(graph(**wide), status=1)
    assert "--mask 2: there are 2" in convert(graph(**wide), "--mask", "2", status=1)
    check(convert(graph(**wide), "--mask", "1")[0])


def test_a_split_is_drawn_of_labeled_nodes(convert):
    data = graph()
    for name in MASKS.values():
        del data[name]
    assert "the data have no train_mask" in convert(data, status=1)
    arrays, _ = convert(data, "--split-seed", "3")
    again, _ = convert(data, "--split-seed", "3")
    drawn = [arrays[f"{part}_idx"] for part in PARTS]
    assert sorted(np.concatenate(drawn).tolist()) == list(range(9))
    assert [len(part) for part in drawn] == [5, 2, 2]
    for part in PARTS:
        np.testing.assert_array_equal(arrays[f"{part}_idx"], again[f"{part}_idx"])


def test_hetero_data(convert, tmp_path):
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.from_numpy(X), torch.from_numpy(Y)
    data["paper"].train_mask = torch.from_numpy(mask("train"))
    data["paper"].year = torch.arange(N)
    data["author"].x = torch.ones(4, 2)
    data["author", "writes", "paper"].edge_index = torch.from_numpy(EDGES[:, :3])
    data["author", "writes", "paper"].edge_attr = torch.ones(3, 1)
    for saved in (data, data.to_dict()):
        arrays, printed = convert(saved)
        assert "left out: year of paper, edge_attr of author:writes:paper\n" in printed
        metadata = json.loads((tmp_path / "out" / "metadata.yaml").read_text())
        assert {one["type"]: one["num"] for one in metadata["graph"]["nodes"]} == {
            "paper": N, "author": 4}
        (task,) = metadata["tasks"]
        assert len(task["train_set"]) == 1 and task["test_set"] == []
        np.testing.assert_array_equal(arrays["edges0"], EDGES[:, :3])
        np.testing.assert_array_equal(arrays["train0"], PARTS["train"])


NPZ = {"node_features": X, "node_labels": Y, "edges": EDGES.T,
       **{f"{name}s": np.stack([mask(part)] * 2) for part, name in MASKS.items()}}


def test_npz(convert):
    check(convert(NPZ, "--mask", "1", name="a.npz")[0])
    check(convert({"edge_index": EDGES, "x": X, "y": Y, "names": np.array([{}], object),
                   "train_idx": PARTS["train"], "val_idx": PARTS["valid"],
                   "test_idx": PARTS["test"]}, name="a.npz")[0])
    _, printed = convert({**NPZ, "names": np.array([{}], object)}, "--mask", "0", name="a.npz")
    assert "left out: names\n" in printed


def csr(rows, columns, values, shape):
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    return {"data": np.asarray(values)[order], "indices": np.asarray(columns)[order].astype("<i4"),
            "indptr": indptr.astype("<i4"), "shape": np.array(shape)}


def test_npz_of_csr_matrices(convert):
    rows, columns = np.nonzero(X)
    matrices = {"adj": csr(*EDGES, np.ones(4), (N, N)),
                "attr": csr(rows, columns, X[rows, columns], X.shape)}
    saved = {f"{name}_{part}": array for name, matrix in matrices.items()
             for part, array in matrix.items()}
    arrays, _ = convert({**saved, "labels": Y, "train_mask": mask("train"),
                         "val_mask": mask("valid"), "test_mask": mask("test")}, name="a.npz")
    check(arrays)
    saved["adj_indices"] = saved["adj_indices"][:3]
    assert "adj_indptr ends with 4, adj_indices has 3" in convert(saved, name="a.npz", status=1)


class Hostile:
    def __reduce__(self):
        return os.mkdir, (str(Path(os.environ["HOSTILE"]) / "ran"),)


def test_nothing_that_a_pickle_names_is_run(convert, tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTILE", str(tmp_path))
    refused = convert([graph(), Hostile()][::-1], status=1)
    assert "posix.mkdir" in refused and "--trust-pickle" in refused
    assert not (tmp_path / "ran").exists()
    convert(graph(extra=Hostile()), "--trust-pickle")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("saved, name, words", [
    (b"not a file of torch", "data.pt", "is not what torch.save writes"),
    (torch.ones(3), "data.pt", "holds a Tensor, not Data or HeteroData"),
    (InMemoryDataset.collate([graph(), graph()]), "data.pt", "holds 2 graphs; one is converted"),
    ([graph(), graph()], "data.pt", "holds a list of 2"),
    ({"x": torch.ones(N, 2), "adj_t": torch.ones(N, N)}, "data.pt", "has adj_t"),
    (graph(y=None), "data.pt", "the data have no y"),
    (graph(train_mask=torch.full((N,), 2)), "data.pt", "values other than 0 and 1"),
    (graph(train_mask=torch.ones(3, dtype=torch.bool)), "data.pt", "is not a mask of the 10"),
    ({"y": Y}, "a.npz", "has no matrix of features"),
    (b"PK", "a.npz", ""),
    (graph(), "data.pickle", "not named .pt, .pth or .npz"),
])
def test_what_is_refused(convert, saved, name, words):
    assert words in convert(saved, name=name, status=1)


def test_other_folders_are_not_touched(convert, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")
    path = tmp_path / "data.pt"
    torch.save(graph(), path)
    assert pyg.main(["--data", str(path), "--output", str(tmp_path / "out")]) == 1
    assert (tmp_path / "out" / "mine").read_text() == "keep"
