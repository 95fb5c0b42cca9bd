"""Numpy folders with one thing wrong each."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

import numpy as np

from graphs import Graph, planted_graph

FILES = ("edge_index", "node_feat", "node_label", "train_idx", "valid_idx", "test_idx")
INTEGER_FILES = ("edge_index", "node_label", "train_idx", "valid_idx", "test_idx")
SPLITS = ("train_idx", "valid_idx", "test_idx")


class Case(NamedTuple):
    name: str
    file: str  # That the error must name.
    spoil: Callable[[Path], None]
    flags: tuple[str, ...] = ()


GRAPH: Graph = planted_graph(num_nodes=60, dim=4, degree=3)
NUM_NODES = len(GRAPH.node_label)


def replaced(file: str, array: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / f"{file}.npy", array)


def with_bytes(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / f"{file}.npy"
        path.write_bytes(change(path.read_bytes()))
    return spoil


def with_value(file: str, position: int, value: float) -> Callable[[Path], None]:
    array = getattr(GRAPH, file).copy()
    array.flat[position] = value
    return replaced(file, array)


def with_csc(**changed: np.ndarray) -> Callable[[Path], None]:
    """The folder in its other layout, with arrays changed."""
    indptr, indices = GRAPH.csc()

    def spoil(folder: Path) -> None:
        (folder / "edge_index.npy").unlink()
        for name, array in {"indptr": indptr, "indices": indices, **changed}.items():
            np.save(folder / f"{name}.npy", array)
    return spoil


def with_header(text: str) -> Callable[[bytes], bytes]:
    """The header's dictionary replaced, the elements kept."""
    def change(content: bytes) -> bytes:
        elements = content[10 + struct.unpack_from("<H", content, 8)[0]:]
        header = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
        return content[:8] + struct.pack("<H", len(header)) + header + elements
    return change


def pickled(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _any_file(file: str) -> Iterator[Case]:
    """What is wrong whatever the array means."""
    array = getattr(GRAPH, file)
    big = array.astype(array.dtype.newbyteorder(">"))
    spoils = {
        "no-bytes": with_bytes(file, lambda content: b""),
        "magic-only": with_bytes(file, lambda content: content[:6]),
        "cut-in-header": with_bytes(file, lambda content: content[:60]),
        "cut-in-elements": with_bytes(file, lambda content: content[:-1]),
        "elements-missing": with_bytes(file, lambda content: content[:128]),
        "too-long": with_bytes(file, lambda content: content + b"\0"),
        "no-magic": with_bytes(file, lambda content: b"\x93NUMPX" + content[6:]),
        "version-9": with_bytes(file, lambda content: content[:6] + b"\x09" + content[7:]),
        "text": with_bytes(file, lambda content: b"0 1\n1 2\n"),
        "objects": with_bytes(file, lambda content: pickled(array.astype(object))),
        "complex": replaced(file, array.astype(np.complex64)),
        "strings": replaced(file, array.astype("U5")),
        "big-endian": replaced(file, big),
        "scalar": replaced(file, np.array(7, array.dtype)),
        "three-dimensions": replaced(file, np.zeros((2, 2, 2), array.dtype)),
        "a-folder": lambda folder: [(folder / f"{file}.npy").unlink(),
                                    (folder / f"{file}.npy").mkdir()],
        "header-of-code": with_bytes(file, with_header("__import__('os').abort()")),
        "header-without-shape": with_bytes(
            file, with_header("{'descr': '<f4', 'fortran_order': False}")),
        "size-that-overflows": with_bytes(file, with_header(
            f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({1 << 62}, 8)}}")),
        "negative-shape": with_bytes(
            file, with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}")),
    }
    if file not in ("valid_idx", "test_idx"):  # A graph may have no such nodes.
        spoils["missing"] = lambda folder: (folder / f"{file}.npy").unlink()
    for what, spoil in spoils.items():
        yield Case(f"{file}-{what}", f"{file}.npy", spoil)


def _features() -> Iterator[Case]:
    file = "node_feat"
    features = GRAPH.node_feat
    yield Case("features-nan", "node_feat.npy", with_value(file, 17, np.nan))
    yield Case("features-infinite", "node_feat.npy", with_value(file, 239, -np.inf))
    yield Case("features-of-large-integers", "node_feat.npy",
               replaced(file, (features * 1e9).astype(np.int64)))
    yield Case("features-of-short-integers", "node_feat.npy",
               replaced(file, features.astype(np.int16)))
    yield Case("features-without-columns", "node_feat.npy", replaced(file, features[:, :0]))
    yield Case("features-without-rows", "node_feat.npy", replaced(file, features[:0]))
    yield Case("features-of-one-node", "node_feat.npy", replaced(file, features[0]))
    wide = features.astype(np.float64)
    wide[5, 2] = 1e300
    yield Case("features-beyond-float32", "node_feat.npy", replaced(file, wide))
    in_place = ("--in-place",)
    yield Case("in-place-float64", "node_feat.npy",
               replaced(file, features.astype(np.float64)), in_place)
    yield Case("in-place-fortran", "node_feat.npy",
               replaced(file, np.asfortranarray(features)), in_place)
    yield Case("in-place-nan", "node_feat.npy", with_value(file, 17, np.nan), in_place)
    yield Case("in-place-cut", "node_feat.npy",
               with_bytes(file, lambda content: content[:-4]), in_place)


def _edges() -> Iterator[Case]:
    edges = GRAPH.edge_index
    for what, position, value in (
            ("first-source-negative", 0, -1), ("source-too-large", 5, NUM_NODES),
            ("destination-too-large", edges.shape[1], NUM_NODES),
            ("last-destination-negative", edges.size - 1, -7),
            ("huge", 3, 1 << 62), ("smallest", 3, -(1 << 63))):
        yield Case(f"edges-{what}", "edge_index.npy", with_value("edge_index", position, value))
    yield Case("edges-of-floats", "edge_index.npy",
               replaced("edge_index", edges.astype(np.float64)))
    yield Case("edges-of-bools", "edge_index.npy", replaced("edge_index", edges > 0))
    yield Case("edges-with-three-rows", "edge_index.npy",
               replaced("edge_index", np.zeros((3, 5), np.int64)))
    yield Case("edges-in-one-dimension", "edge_index.npy", replaced("edge_index", edges[0]))


def _csc() -> Iterator[Case]:
    indptr, indices = GRAPH.csc()

    def changed(array: np.ndarray, position: int, value: int) -> np.ndarray:
        array = array.copy()
        array[position] = value
        return array

    yield Case("indptr-not-from-0", "indptr.npy", with_csc(indptr=changed(indptr, 0, 1)))
    yield Case("indptr-descending", "indptr.npy",
               with_csc(indptr=changed(indptr, 9, indptr[8] - 1)))
    yield Case("indptr-negative", "indptr.npy", with_csc(indptr=changed(indptr, 5, -1)))
    yield Case("indptr-beyond-the-edges", "indptr.npy",
               with_csc(indptr=changed(indptr, -1, len(indices) + 1)))
    yield Case("indptr-before-the-edges-end", "indptr.npy", with_csc(indices=np.append(indices, 0)))
    yield Case("indptr-too-short", "indptr.npy", with_csc(indptr=indptr[:-1]))
    yield Case("indptr-too-long", "indptr.npy", with_csc(indptr=np.append(indptr, indptr[-1])))
    yield Case("indptr-empty", "indptr.npy", with_csc(indptr=indptr[:0]))
    yield Case("indptr-of-floats", "indptr.npy", with_csc(indptr=indptr.astype(np.float32)))
    yield Case("indptr-in-two-dimensions", "indptr.npy", with_csc(indptr=indptr[None]))
    yield Case("indices-too-large", "indices.npy", with_csc(indices=changed(indices, 7, NUM_NODES)))
    yield Case("indices-negative", "indices.npy", with_csc(indices=changed(indices, -1, -1)))
    yield Case("indices-of-floats", "indices.npy", with_csc(indices=indices.astype(np.float32)))
    yield Case("indices-missing", "indices.npy",
               lambda folder: [with_csc()(folder), (folder / "indices.npy").unlink()])
    yield Case("indptr-missing", "indptr.npy",
               lambda folder: [with_csc()(folder), (folder / "indptr.npy").unlink()])
    yield Case("both-layouts", "edge_index.npy",
               lambda folder: np.save(folder / "indptr.npy", indptr))


def _labels() -> Iterator[Case]:
    file, labels = "node_label", GRAPH.node_label
    yield Case("labels-negative", "node_label.npy", with_value(file, 3, -2))
    yield Case("labels-huge", "node_label.npy", with_value(file, 59, 1 << 40))
    yield Case("labels-too-few", "node_label.npy", replaced(file, labels[:-1]))
    yield Case("labels-too-many", "node_label.npy", replaced(file, np.append(labels, 0)))
    yield Case("labels-in-two-columns", "node_label.npy",
               replaced(file, np.stack([labels, labels], axis=1)))
    yield Case("labels-none", "node_label.npy", replaced(file, np.full(NUM_NODES, -1)))
    broken = labels.astype(np.float32)
    broken[4] = 1.5
    yield Case("labels-broken", "node_label.npy", replaced(file, broken))
    broken = labels.astype(np.float32)
    broken[4] = np.inf
    yield Case("labels-infinite", "node_label.npy", replaced(file, broken))


def _split(file: str) -> Iterator[Case]:
    nodes = getattr(GRAPH, file)
    named = f"{file}.npy"
    other = GRAPH.test_idx if file != "test_idx" else GRAPH.train_idx
    if file == "train_idx":  # The others may be.
        yield Case(f"{file}-empty", named, replaced(file, nodes[:0]))
    yield Case(f"{file}-too-large", named, with_value(file, -1, NUM_NODES))
    yield Case(f"{file}-negative", named, with_value(file, 0, -1))
    yield Case(f"{file}-twice", named, replaced(file, np.append(nodes, nodes[0])))
    yield Case(f"{file}-of-floats", named, replaced(file, nodes.astype(np.float64)))
    yield Case(f"{file}-as-mask", named, replaced(file, np.ones(NUM_NODES, bool)))
    yield Case(f"{file}-in-two-dimensions", named, replaced(file, nodes[None]))
    yield Case(f"{file}-overlaps", "_idx.npy", replaced(file, np.append(nodes, other[0])))


def cases() -> list[Case]:
    found = [case for file in FILES for case in _any_file(file)]
    for group in (_features(), _edges(), _csc(), _labels(), *map(_split, SPLITS)):
        found.extend(group)
    return found
