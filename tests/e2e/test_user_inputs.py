"""What users bring: imported as it is meant, or refused in words that say what is wrong.

`CASES` is the table: what a folder differs in from a plain one, and what becomes of it. A case
that is imported trains, too; one whose batches are those of another case has its loss digest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import pytest

from daemon import Result
from heterographs import planted_heterograph

NODES, EDGES, COLUMNS, CLASSES = 240, 1200, 8, 4


class Inputs:
    """A graph whose features tell its classes, as arrays by the names of their files."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        label = random.integers(0, CLASSES, NODES)
        order = random.permutation(NODES)
        self.random = random
        self.arrays: dict[str, np.ndarray] = {
            "edge_index": random.integers(0, NODES, (2, EDGES)),
            "node_feat": (2 * np.eye(CLASSES, COLUMNS)[label]
                          + random.normal(size=(NODES, COLUMNS))).astype(np.float32),
            "node_label": label,
            "train_idx": np.sort(order[:144]),
            "valid_idx": np.sort(order[144:192]),
            "test_idx": np.sort(order[192:]),
        }

    def mask(self, name: str, dtype: type = bool) -> np.ndarray:
        mask = np.zeros(NODES, dtype)
        mask[self.arrays[name]] = 1
        return mask

    def bytes(self) -> np.ndarray:
        return np.clip(20 * self.arrays["node_feat"], -127, 127).astype(np.int8)

    def write(self, folder: Path, changes: dict[str, Optional[np.ndarray]]) -> Path:
        folder.mkdir(parents=True)
        for name, array in {**self.arrays, **changes}.items():
            if array is not None:
                np.save(folder / f"{name}.npy", array)
        return folder


Changes = Callable[[Inputs], dict[str, Optional[np.ndarray]]]


class Case(NamedTuple):
    changes: Changes
    # What the import says, in its log and in `dataset show`; or why it is refused.
    warns: tuple[str, ...] = ()
    refused: Optional[str] = None
    # The case whose digest training has; what training says; which metrics its report lacks.
    trains_as: Optional[str] = None
    says: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    # Of the dataset's nodes.
    shows: dict[str, Any] = {}


def _with_labels(make: Callable[[Inputs, np.ndarray], np.ndarray]) -> Changes:
    return lambda inputs: {"node_label": make(inputs, inputs.arrays["node_label"])}


def _with_features(make: Callable[[Inputs], np.ndarray]) -> Changes:
    return lambda inputs: {"node_feat": make(inputs)}


def _partly_nan(inputs: Inputs, _: np.ndarray) -> np.ndarray:
    several = (np.random.default_rng(8).random((NODES, 6)) < 0.3).astype(np.float32)
    several[np.random.default_rng(9).random(several.shape) < 0.2] = np.nan
    several[::10] = np.nan
    return several


NO_VALIDATION = "no validation: the dataset has no validation nodes with labels"
NO_TEST = "no test: the dataset has no test nodes with labels"

CASES = {
    "plain": Case(lambda inputs: {}),
    # Arrays that the import has no use for.
    "edge_weight": Case(lambda inputs: {"edge_weight": np.ones(EDGES, np.float32)},
                        warns=("edge_weight.npy is left out",), trains_as="plain"),
    "edge_attr": Case(lambda inputs: {"edge_attr": np.ones((EDGES, 4), np.float32),
                                      "node_year": np.arange(NODES)},
                      warns=("edge_attr.npy, node_year.npy are left out",), trains_as="plain"),
    # Labels that look like a mistake.
    "labels_255": Case(
        _with_labels(lambda _, label: np.where(np.arange(NODES) % 5, label, 255).astype(np.uint8)),
        warns=("251 of 256 classes have no nodes", "class 255, of 48 nodes, may stand for no label"),
        shows={"label_width": 256}),
    "labels_from_1": Case(_with_labels(lambda _, label: label + 1),
                          warns=("1 of 5 classes have no nodes, class 0: do the labels begin at 1?",)),
    "labels_gaps": Case(
        _with_labels(lambda _, label: np.array([5, 7, 1000, 60000])[label]),
        warns=("59997 of 60001 classes have no nodes, the first of them class 0",)),
    "labels_one_hot": Case(
        _with_labels(lambda _, label: np.eye(CLASSES, dtype=np.float32)[label]),
        warns=("each has exactly one of 4 labels: are they classes (one-hot)?",),
        shows={"label_kind": "MULTI_LABEL"}),
    "labels_partly_nan": Case(_with_labels(_partly_nan), warns=("training nodes have no label",),
                              says=("training nodes have no label: left out",),
                              shows={"label_kind": "MULTI_LABEL", "label_width": 6}),
    # Parts of the split that are not there, or have other names and forms.
    "no_test": Case(lambda inputs: {"test_idx": None}, warns=("there are no test nodes",),
                    trains_as="plain", says=(NO_TEST,), lacks=("test_metric",)),
    "empty_valid": Case(lambda inputs: {"valid_idx": np.zeros(0, np.int64)},
                        warns=("there are no validation nodes",), trains_as="plain",
                        says=(NO_VALIDATION,), lacks=("valid_metric",)),
    "neither": Case(lambda inputs: {"valid_idx": None, "test_idx": np.array([])},
                    warns=("there are no validation nodes", "there are no test nodes"),
                    trains_as="plain", says=(NO_VALIDATION, NO_TEST),
                    lacks=("valid_metric", "test_metric")),
    "masks": Case(lambda inputs: {"train_idx": None, "valid_idx": None, "test_idx": None,
                                  "train_mask": inputs.mask("train_idx"),
                                  "val_mask": inputs.mask("valid_idx", np.uint8),
                                  "test_mask": inputs.mask("test_idx", np.int64)},
                  trains_as="plain"),
    "val_idx": Case(lambda inputs: {"valid_idx": None, "val_idx": inputs.arrays["valid_idx"]},
                    trains_as="plain"),
    "mask_as_index": Case(lambda inputs: {"train_idx": inputs.mask("train_idx", np.uint8)},
                          refused="train_idx.npy: this is a mask, not a list of nodes"),
    "bools_as_index": Case(lambda inputs: {"test_idx": inputs.mask("test_idx")},
                           refused="test_idx.npy: this is a mask, not a list of nodes"),
    "two_splits": Case(lambda inputs: {"val_mask": inputs.mask("valid_idx")},
                       refused="has valid_idx.npy and val_mask.npy; which of them"),
    "masks_of_ten": Case(lambda inputs: {"test_idx": None,
                                         "test_mask": np.zeros((NODES, 10), bool)},
                         refused="each column is a split of its own"),
    # Features that are no matrix of floats.
    "features_int8": Case(_with_features(lambda inputs: inputs.bytes()),
                          trains_as="features_int8_float"),
    "features_int8_float": Case(
        _with_features(lambda inputs: inputs.bytes().astype(np.float32))),
    "features_bool": Case(_with_features(lambda inputs: inputs.arrays["node_feat"] > 0),
                          trains_as="features_bool_float"),
    "features_bool_float": Case(
        _with_features(lambda inputs: (inputs.arrays["node_feat"] > 0).astype(np.float32))),
    "features_1d": Case(_with_features(lambda inputs: inputs.arrays["node_feat"][:, 0].copy()),
                        trains_as="features_column", shows={"feature_dim": 1}),
    "features_column": Case(_with_features(lambda inputs: inputs.arrays["node_feat"][:, :1].copy())),
    "features_short": Case(_with_features(lambda inputs: inputs.arrays["node_feat"][:150].copy()),
                           refused="node_feat.npy: has 150 rows, all else 240 nodes"),
    "labels_short": Case(_with_labels(lambda _, label: label[:150]),
                         refused="node_label.npy: has 150 rows, all else 240 nodes"),
}

TRAIN = ("--model", "sage", "--fanouts", "5,5", "--hidden", "16", "--batch-size", "48", "--epochs",
         "2", "--seed", "3")


@pytest.fixture(scope="module")
def inputs():
    return Inputs()


@pytest.fixture(scope="module")
def folders(inputs, tmp_path_factory):
    root = tmp_path_factory.mktemp("inputs")
    return {name: inputs.write(root / name, case.changes(inputs)) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def import_case(daemon, folders):
    """Imports a case, once, under its name; gives what the client wrote."""
    imported: dict[str, Result] = {}

    def import_once(name: str) -> Result:
        if name not in imported:
            imported[name] = daemon.hearth("dataset", "import", name, "--source",
                                           str(folders[name]))
        return imported[name]
    return import_once


@pytest.fixture(scope="module")
def train_case(daemon, import_case):
    """Trains on a case, once; gives what the client wrote, and the job."""
    trained: dict[str, tuple[Result, dict]] = {}

    def train_once(name: str) -> tuple[Result, dict]:
        if name not in trained:
            import_case(name)
            result = daemon.hearth("train", "--dataset", name, *TRAIN)
            job = max(daemon.json("job", "list")["jobs"],
                      key=lambda job: int(job["id"].split("-")[1]))
            trained[name] = result, daemon.json("job", "show", job["id"])
        return trained[name]
    return train_once


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_is_refused(daemon, folders, name):
    refused = daemon.hearth("dataset", "import", "x", "--source", str(folders[name]), code=1)
    assert CASES[name].refused in refused.err
    assert "x" not in [dataset["name"] for dataset in daemon.json("dataset", "list")["datasets"]]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
def test_is_imported_and_trains(daemon, import_case, train_case, name):
    case = CASES[name]
    imported = import_case(name)
    shown = daemon.hearth("dataset", "show", name)
    for text in case.warns:
        assert text in imported.err and text in shown.out
    if not case.warns:
        assert "warning" not in imported.err
    assert case.shows.items() <= daemon.json("dataset", "show", name)["node_types"][0].items()

    trained, job = train_case(name)
    for text in case.says:
        assert text in trained.err
    for text in {NO_VALIDATION, NO_TEST} & set(case.says):
        assert text in trained.out
    report = job["report"]
    assert (report["test_metric"] is None) == ("test_metric" in case.lacks)
    assert all((epoch["valid_metric"] is None) == ("valid_metric" in case.lacks)
               for epoch in report["epochs"])
    if case.trains_as is not None:
        assert report["loss_digest"] == train_case(case.trains_as)[1]["report"]["loss_digest"]


# ---- Jobs that need a part of the split which is not there


def test_patience_needs_validation(daemon, import_case):
    import_case("empty_valid")
    refused = daemon.hearth("train", "--dataset", "empty_valid", *TRAIN, "--patience", "2", code=1)
    assert "no validation nodes, by which patience would compare epochs" in refused.err


def test_sweeps_by_validation_need_it(daemon, import_case):
    sweep = ("sweep", "submit", "--space", "lr=0.01,0.02")
    for name in ("empty_valid", "no_test"):
        import_case(name)
    refused = daemon.hearth(*sweep, "--dataset", "empty_valid", *TRAIN, code=None)
    assert refused.code != 0 and 'dataset "empty_valid" has no validation nodes' in refused.err
    daemon.hearth(*sweep, "--metric", "loss", "--dataset", "empty_valid", *TRAIN)
    untested = daemon.hearth(*sweep, "--dataset", "no_test", *TRAIN)
    assert NO_TEST in untested.out + untested.err


def test_evaluate_needs_a_test(daemon, train_case):
    _, job = train_case("no_test")
    refused = daemon.hearth("evaluate", job["id"], code=1)
    assert "no test nodes, which a model would be evaluated on" in refused.err


@pytest.mark.parametrize("strategy", [("mmap",), ("gnndrive",), ("ginex",),
                                      ("diskgnn", "--cpu-cache", "16KiB"), ("outre",), ("gids",)],
                         ids=lambda strategy: strategy[0])
def test_every_strategy_goes_without(daemon, import_case, strategy):
    import_case("neither")
    job = ("--dataset", "neither", *TRAIN, "--strategy", *strategy)
    daemon.hearth("explain", *job)
    if strategy[0] in ("diskgnn", "outre"):
        shared = [option for option in job if option not in ("--model", "sage", "--hidden", "16")]
        daemon.hearth("prepare", *shared)
    trained = daemon.hearth("train", *job)
    assert NO_VALIDATION in trained.out and NO_TEST in trained.out


# ---- Several types


def test_a_type_without_nodes_is_left_out(daemon, tmp_path):
    plain = planted_heterograph(papers=200)
    with_books = plain._replace(
        features={**plain.features, "book": np.zeros((0, 8), np.float32)},
        edges={**plain.edges, ("paper", "in", "book"): np.zeros((2, 0), np.int64)})
    digests = set()
    for name, graph in (("typed-plain", plain), ("typed-empty", with_books)):
        imported = daemon.hearth("dataset", "import", name, "--source",
                                 str(graph.write(tmp_path / name)))
        job = daemon.json("train", "--dataset", name, *TRAIN, "--model", "rsage")
        digests.add(job["report"]["loss_digest"])
    assert ('"book": there are none; the type is left out, and so are the edges "paper:in:book"'
            in imported.err)
    assert len(digests) == 1


# ---- Exports


def test_an_export_has_what_there_is(daemon, import_case, folders, tmp_path):
    for name in ("neither", "labels_partly_nan"):
        import_case(name)
    daemon.hearth("dataset", "export", "neither", "--to", str(tmp_path / "neither"), "--format",
                  "numpy")
    assert not {"valid_idx.npy", "test_idx.npy"} & {
        path.name for path in (tmp_path / "neither").iterdir()}
    assert daemon.import_graph("again", tmp_path / "neither")["state"] == "SUCCEEDED"
    refused = daemon.hearth("dataset", "export", "neither", "--to", str(tmp_path / "ogb"),
                            "--format", "ogb", code=1)
    assert "the graph has no validation nodes; the format ogb needs them" in refused.err
    daemon.hearth("dataset", "export", "labels_partly_nan", "--to", str(tmp_path / "nan"),
                  "--format", "numpy")
    np.testing.assert_array_equal(np.load(tmp_path / "nan" / "node_label.npy"),
                                  np.load(folders["labels_partly_nan"] / "node_label.npy"))


# ---- Paths


def test_a_link_to_nothing_is_named(daemon, inputs, tmp_path):
    folder = inputs.write(tmp_path / "dangling", {"node_feat": None})
    (folder / "node_feat.npy").symlink_to("nowhere.npy")
    refused = daemon.hearth("dataset", "import", "x", "--source", str(folder), code=1)
    assert "node_feat.npy: is a link to nothing" in refused.err
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    refused = daemon.hearth("dataset", "import", "x", "--source", str(tmp_path / "link"), code=None)
    assert refused.code != 0 and "is a link to nothing" in refused.err


def test_in_place_takes_floats_alone(daemon, folders):
    refused = daemon.hearth("dataset", "import", "x", "--source", str(folders["features_int8"]),
                            "--in-place", code=1)
    assert "node_feat.npy: has int8 elements; only float32" in refused.err


def test_a_path_that_is_not_utf8_is_named(daemon, folders, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    os.symlink(os.fsencode(folders["plain"]), path)
    refused = daemon.hearth("dataset", "import", "x", "--source", os.fsdecode(path), code=None)
    assert refused.code != 0
    assert "caf\\xe9" in refused.err and "is not UTF-8" in refused.err


# ---- Memory


def test_an_import_takes_no_more_memory_than_there_is(start_daemon, folders):
    daemon = start_daemon("--memory-limit", "600MiB")
    imported = daemon.hearth("dataset", "import", "plain", "--source", str(folders["plain"]))
    job = imported.err.split()[0]
    assert "memory limit: 300.0 MiB, half of what jobs may take" in daemon.hearth("job", "logs", job).out
    refused = daemon.hearth("dataset", "import", "x", "--source", str(folders["plain"]),
                            "--memory-limit", "700MiB", code=1)
    assert "a smaller --memory-limit fits" in refused.err and "fan-outs" not in refused.err
