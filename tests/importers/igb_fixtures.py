"""IGB and IGBH, by hand: their writers are not published. Expected is what their loaders use.

The loaders (igb/dataloader.py) open the arrays with np.load, and those of papers
and authors in `large` and `full` with np.memmap as float32 from byte 0, whether
or not they are named .npy. They draw a random split, which is not kept here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fixture_arrays import new_folder, random_edges, random_labels, save, save_expected

DIM = 1024
RELATIONS = {"paper:cites:paper": 30, "paper:written_by:author": 24,
             "author:affiliated_to:institute": 10, "paper:topic:fos": 16,
             "paper:published:journal": 9, "paper:venue:conference": 7}


def make_all(root: Path) -> None:
    _make(root / "igb_tiny", "tiny", {"paper": 20})
    _make(root / "igbh_tiny", "tiny", {"paper": 11, "author": 6, "institute": 3, "fos": 3})
    _make(root / "igbh_large_headerless", "large",
          {"paper": 9, "author": 5, "institute": 3, "fos": 2, "journal": 2, "conference": 2},
          headerless=("paper", "author"))


def _make(folder: Path, size: str, counts: dict[str, int],
          headerless: tuple[str, ...] = ()) -> None:
    random = np.random.RandomState(len(counts))
    new_folder(folder)
    processed = folder / size / "processed"
    for place, (kind, num) in enumerate(counts.items()):
        _save(processed / kind / "node_feat.npy", _features(place, num), raw=kind in headerless)
    labels = {}
    for name, classes in (("19", 4), ("2K", 9)):
        values = random_labels(random, counts["paper"], classes, dtype=np.float32)
        _save(processed / f"paper/node_label_{name}.npy", values, raw="paper" in headerless)
        labels[f"paper.{name}"] = values
    save(processed / "paper/paper_id_index_mapping.npy",
         {f"W{100 + paper}": paper for paper in range(counts["paper"])})
    edges = {}
    for relation, num_edges in RELATIONS.items():
        source, _, destination = relation.split(":")
        if source in counts and destination in counts:
            pairs = random_edges(random, counts[source], counts[destination], num_edges)
            save(processed / relation.replace(":", "__") / "edge_index.npy", pairs.T.copy())
            edges[relation] = pairs
    save_expected(folder / "expected", edges=edges, features={}, labels=labels, split={},
                  facts={"num_nodes": counts, "headerless": headerless,
                         "features": "float32 64 * PLACE + ROW + COLUMN / 1024, where PLACE is "
                                     "the place of the type in num_nodes, from 0"})


def _features(place: int, num_nodes: int) -> np.ndarray:
    """Told by a formula, exact in float32, because a second copy would be large."""
    rows, columns = np.meshgrid(np.arange(num_nodes), np.arange(DIM), indexing="ij")
    return (64 * place + rows + columns / 1024).astype(np.float32)


def _save(path: Path, array: np.ndarray, raw: bool) -> None:
    if raw:
        path.parent.mkdir(parents=True, exist_ok=True)
        array.tofile(path)
    else:
        save(path, array)
