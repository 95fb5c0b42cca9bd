"""A heterograph with planted communities, written as the GraphBolt folder that Hearth imports."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

NUM_CLASSES = 4
_SAME_COMMUNITY = 0.85
_PARTS = {"train_set": 0.6, "validation_set": 0.2, "test_set": 0.2}

EdgeType = tuple[str, str, str]  # source, relation, destination


class Heterograph(NamedTuple):
    features: dict[str, np.ndarray]  # by node type, (N, dim)
    edges: dict[EdgeType, np.ndarray]  # int64 (2, E): sources, destinations
    labels: np.ndarray  # int64, of papers
    parts: dict[str, np.ndarray]  # the papers of each part of the split

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        text = ["dataset_name: planted", "graph:", "  nodes:"]
        for name, rows in self.features.items():
            text += [f"  - type: {name}", f"    num: {len(rows)}"]
        text.append("  edges:")
        for key, edges in self.edges.items():
            np.save(folder / f"{'__'.join(key)}.npy", edges)
            text += [f"  - type: \"{':'.join(key)}\"", "    format: numpy",
                     f"    path: {'__'.join(key)}.npy"]
        text.append("feature_data:")
        for name, rows in self.features.items():
            np.save(folder / f"{name}.npy", rows)
            text += ["- domain: node", f"  type: {name}", "  name: feat", "  format: numpy",
                     f"  path: {name}.npy"]
        text += ["tasks:", "- name: node_classification", f"  num_classes: {NUM_CLASSES}"]
        for part, papers in self.parts.items():
            text += [f"  {part}:", "  - type: paper", "    data:"]
            for name, values in (("seeds", papers), ("labels", self.labels[papers])):
                np.save(folder / f"{part}_{name}.npy", values)
                text += [f"    - name: {name}", "      format: numpy",
                         f"      path: {part}_{name}.npy"]
        (folder / "metadata.yaml").write_text("\n".join(text) + "\n")
        return folder


def planted_heterograph(papers: int = 2000, seed: int = 1) -> Heterograph:
    """Papers tell little of their community; authors and other papers tell the rest. Authors'
    rows are narrower and of half precision. Nothing leads to venues."""
    random = np.random.default_rng(seed)
    counts = {"paper": papers, "author": papers // 2, "venue": 30}
    widths = {"paper": 32, "author": 20, "venue": 8}
    community = {name: random.integers(0, NUM_CLASSES, count) for name, count in counts.items()}

    def edges(source: str, destination: str, degree: int) -> np.ndarray:
        destinations = np.repeat(np.arange(counts[destination]), degree)
        sources = random.integers(0, counts[source], len(destinations))
        for label in range(NUM_CLASSES):
            same = np.flatnonzero(community[destination][destinations] == label)
            same = same[random.random(len(same)) < _SAME_COMMUNITY]
            members = np.flatnonzero(community[source] == label)
            sources[same] = random.choice(members, len(same))
        keys = np.unique(sources * counts[destination] + destinations)
        return np.stack([keys // counts[destination], keys % counts[destination]])

    written = edges("author", "paper", 3)
    features = {}
    for name, count in counts.items():
        centers = random.standard_normal((NUM_CLASSES, widths[name]))
        rows = 0.3 * centers[community[name]] + random.standard_normal((count, widths[name]))
        features[name] = rows.astype(np.float16 if name == "author" else np.float32)
    ends = np.cumsum([round(share * papers) for share in _PARTS.values()])
    parts = np.split(random.permutation(papers), ends[:-1])
    return Heterograph(features, {
        ("author", "writes", "paper"): written,
        ("paper", "cites", "paper"): edges("paper", "paper", 5),
        ("paper", "written_by", "author"): written[::-1],
        ("venue", "publishes", "paper"): edges("venue", "paper", 1),
    }, community["paper"], dict(zip(_PARTS, (np.sort(part) for part in parts))))
