"""Tests of hearth.datasets.planetoid against hand-made files and against PyG.

Comparisons with PyG need torch_geometric; the one of the published files also
needs their folder, HEARTH_PLANETOID_RAW. They are skipped, with the reason, if
one of these is absent.
"""

import contextlib
import io
import json
import os
import pickle
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hearth.datasets import planetoid, planetoid_pickle  # noqa: E402
from hearth.datasets.manifest import ConversionError  # noqa: E402

NUM_TRAIN, NUM_FIRST, DIM, CLASSES = 3, 510, 4, 3
TEST_INDEX = [513, 510, 515, 511]  # 512 and 514 are gaps


def python2_array(array):
    """The opcodes that Python 2's numpy wrote for an array, in protocol 2."""
    def text(value):
        data = value.encode("latin1")
        return b"T" + len(data).to_bytes(4, "little") + data

    shape = b"(" + b"".join(b"J" + n.to_bytes(4, "little") for n in array.shape) + b"t"
    code = array.dtype.str
    dtype = (b"cnumpy\ndtype\n(" + text(code[1:]) + b"K\x00K\x01tR(K\x03" + text(code[0])
             + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
    return (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text("b")
            + b"tR(K\x01" + shape + dtype + b"\x89" + text(array.tobytes().decode("latin1"))
            + b"tb")


def csr_parts(dense):
    rows, columns = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int32)
    return {"indptr": indptr, "indices": columns.astype(np.int32), "data": dense[rows, columns]}


def python2_csr(shape, parts):
    """The opcodes that Python 2's scipy wrote for a csr_matrix."""
    shape = b"(" + b"".join(b"J" + n.to_bytes(4, "little") for n in shape) + b"t"
    body = b"U\x06_shape" + shape
    for name, array in parts.items():
        body += b"U" + bytes([len(name)]) + name.encode() + python2_array(array)
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + body + b"ub"


def whole(opcodes):
    return b"\x80\x02" + opcodes + b"."


def one_hot(labels):
    return np.eye(CLASSES, dtype=np.int32)[labels]


class PlanetoidTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = Path(holder.name)
        self.raw, self.output = self.root / "raw", self.root / "out"
        self.raw.mkdir()
        random = np.random.RandomState(1)
        self.allx = (random.rand(NUM_FIRST, DIM) * (random.rand(NUM_FIRST, DIM) < 0.5)).astype("f4")
        self.tx = random.rand(len(TEST_INDEX), DIM).astype(np.float32)
        self.first_labels = random.randint(0, CLASSES, NUM_FIRST)
        self.test_labels = random.randint(0, CLASSES, len(TEST_INDEX))
        self.adjacency = {0: [0, 1, 1, 512], 1: [0, 515], 515: [1], 512: [0], 9: [514], 7: []}
        self.write()

    def write(self):
        for part, dense in (("allx", self.allx), ("x", self.allx[:NUM_TRAIN]), ("tx", self.tx)):
            self.put(part, whole(python2_csr(dense.shape, csr_parts(dense))))
        for part, labels in (("ally", self.first_labels), ("y", self.first_labels[:NUM_TRAIN]),
                             ("ty", self.test_labels)):
            self.put(part, whole(python2_array(one_hot(labels))))
        self.put("graph", pickle.dumps(self.adjacency, protocol=2))
        self.put("test.index", "".join(f"{node}\n" for node in TEST_INDEX).encode())

    def put(self, part, data):
        (self.raw / f"ind.tiny.{part}").write_bytes(data)

    def run_main(self, *more):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = planetoid.main(["--raw", str(self.raw), "--name", "tiny",
                                     "--output", str(self.output), *more])
        return status, text.getvalue()

    def convert(self, *more):
        status, text = self.run_main(*more)
        self.assertEqual(status, 0, text)
        return {path.stem: np.load(path) for path in self.output.glob("*.npy")}

    def expect_error(self, pattern):
        status, text = self.run_main()
        self.assertEqual(status, 1, text)
        self.assertRegex(text, pattern)
        self.assertFalse(self.output.exists())


class ArraysTest(PlanetoidTest):
    def test_rows_of_test_nodes_lie_where_test_index_says(self):
        features = self.convert()["node_feat"]
        self.assertEqual((features.dtype, features.shape), (np.float32, (516, DIM)))
        np.testing.assert_array_equal(features[:NUM_FIRST], self.allx)
        np.testing.assert_array_equal(features[TEST_INDEX], self.tx)

    def test_gaps_are_zero_rows_without_a_label(self):
        arrays = self.convert()
        np.testing.assert_array_equal(arrays["node_feat"][[512, 514]], np.zeros((2, DIM)))
        self.assertEqual(arrays["node_label"][[512, 514]].tolist(), [-1, -1])
        np.testing.assert_array_equal(arrays["node_label"][TEST_INDEX], self.test_labels)
        np.testing.assert_array_equal(arrays["node_label"][:NUM_FIRST], self.first_labels)
        self.assertEqual(arrays["node_label"].dtype, np.int64)

    def test_edges_go_both_ways_once_without_self_loops(self):
        edges = self.convert()["edge_index"]
        self.assertEqual(edges.dtype, np.int64)
        self.assertEqual(edges.T.tolist(), [[1, 0], [512, 0], [0, 1], [515, 1], [514, 9], [0, 512],
                                            [9, 514], [1, 515]])

    def test_split(self):
        arrays = self.convert()
        self.assertEqual(arrays["train_idx"].tolist(), [0, 1, 2])
        self.assertEqual(arrays["valid_idx"].tolist(), list(range(3, 503)))
        self.assertEqual(arrays["test_idx"].tolist(), sorted(TEST_INDEX))

    def test_normalized_rows_are_noted(self):
        plain = self.convert()["node_feat"]
        noted = json.loads((self.output / "source.json").read_text())
        self.assertIs(noted["normalize_features"], False)
        self.assertEqual(noted["counts"]["num_unlabeled"], 2)
        normal = self.convert("--normalize-features")["node_feat"]
        noted = json.loads((self.output / "source.json").read_text())
        self.assertIs(noted["normalize_features"], True)
        sums = plain.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(normal, plain / np.maximum(sums, 1), rtol=1e-6)
        self.assertTrue((sums > 1).any() and (sums < 1).any())

    def test_pickles_of_python_3_and_protocol_4_are_read(self):
        expected = self.convert()
        try:
            from scipy.sparse import csr_matrix
        except ImportError:
            print("\nSKIPPED: scipy is absent", file=sys.stderr)
            self.skipTest("scipy is absent")
        for protocol in (2, 4):
            for part, dense in (("allx", self.allx), ("x", self.allx[:NUM_TRAIN]), ("tx", self.tx)):
                self.put(part, pickle.dumps(csr_matrix(dense), protocol=protocol))
            self.put("ty", pickle.dumps(one_hot(self.test_labels), protocol=protocol))
            arrays = self.convert()
            for name, array in expected.items():
                np.testing.assert_array_equal(arrays[name], array)

    def test_second_run_reuses_and_a_changed_file_replaces(self):
        self.convert()
        self.assertIn("reused", self.run_main()[1])
        self.tx[0, 0] = 9
        self.write()
        self.assertEqual(self.convert()["node_feat"][TEST_INDEX[0], 0], 9)

    def test_a_foreign_folder_is_left_alone(self):
        self.output.mkdir()
        (self.output / "thesis.txt").write_text("mine")
        status, text = self.run_main()
        self.assertEqual(status, 1)
        self.assertIn("not a converted dataset of Planetoid", text)
        self.assertEqual([path.name for path in self.output.iterdir()], ["thesis.txt"])


class HostileTest(PlanetoidTest):
    """Files that would run something, or have much allocated, in an ordinary unpickler."""

    def test_no_name_outside_the_list_is_called(self):
        witness = self.root / "ran"
        command = f"touch {witness}".encode()
        calls = {
            "os.system": b"cos\nsystem\n(U" + bytes([len(command)]) + command + b"tR",
            "posix.system": b"(U" + bytes([len(command)]) + command + b"iposix\nsystem\n",
            "builtins.eval": b"cbuiltins\neval\n(U\x041//0tR",
            "builtins.getattr": b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93",
            "numpy.core.multiarray.scalar": b"cnumpy.core.multiarray\nscalar\n)R",
            "numpy.load": b"cnumpy\nload\n(U\x01xtR",
        }
        for name, opcodes in calls.items():
            for part in ("x", "graph"):
                with self.subTest(name=name, part=part):
                    self.write()
                    self.put(part, whole(opcodes))
                    self.expect_error(rf"ind\.tiny\.{part}: .*names {name}, .*refused")
        self.assertFalse(witness.exists())

    def test_the_same_file_does_run_in_an_ordinary_unpickler(self):
        witness = self.root / "ran"
        command = f"touch {witness}".encode()
        pickle.loads(whole(b"cos\nsystem\n(U" + bytes([len(command)]) + command + b"tR"))
        self.assertTrue(witness.exists())

    def test_attributes_of_stand_ins_cannot_be_set(self):
        for target in (b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"ccollections\ndefaultdict\n",
                       b"cnumpy.core.multiarray\n_reconstruct\n"):
            state = b"N}U\x0c__setstate__c__builtin__\nlist\ns\x86b"
            with self.subTest(target=target):
                before = dict(vars(planetoid_pickle._Array))
                self.put("x", whole(target + state))
                self.expect_error("not a file of Planetoid")
                self.assertEqual(dict(vars(planetoid_pickle._Array)), before)

    def test_sizes_that_do_not_match_the_bytes(self):
        array = python2_array(one_hot(self.test_labels))
        self.put("ty", whole(array.replace(b"J\x04\x00\x00\x00", b"J\xff\xff\xff\x7f")))
        self.expect_error(r"ind\.tiny\.ty: .*needs \d+ bytes and has 48")

    def test_a_matrix_of_too_many_columns_is_not_built(self):
        parts = csr_parts(self.tx)
        self.put("tx", whole(python2_csr((len(self.tx), 2**31 - 1), parts)))
        self.expect_error(r"ind\.tiny\.tx: .*would take \d+ bytes")

    def test_arrays_of_objects(self):
        for code in (b"T\x02\x00\x00\x00O8", b"T\x02\x00\x00\x00V4"):
            self.put("ty", whole(b"cnumpy\ndtype\n(" + code + b"tR"))
            self.expect_error("only plain numbers")

    def test_sparse_matrices_that_contradict_themselves(self):
        cases = {
            "column 4 of 4": {"indices": np.full(16, 4, np.int32)},
            "column -1 of 4": {"indices": np.full(16, -1, np.int32)},
            "does not ascend": {"indptr": np.array([0, 9, 8, 12, 16], np.int32)},
            "indptr does not ascend over 4 rows": {"indptr": np.array([0, 16], np.int32)},
            "indptr ends at 17": {"indptr": np.array([0, 4, 8, 12, 17], np.int32)},
            "15 values": {"data": np.ones(15, np.float32)},
            "not integers": {"indices": np.zeros(16, np.float32)},
            "not vectors": {"data": np.ones((4, 4), np.float32)},
        }
        for pattern, changed in cases.items():
            with self.subTest(pattern=pattern):
                parts = {**csr_parts(self.tx), **changed}
                self.put("tx", whole(python2_csr(self.tx.shape, parts)))
                self.expect_error(rf"ind\.tiny\.tx: .*{pattern}")

    def test_truncated_and_garbage(self):
        data = (self.raw / "ind.tiny.allx").read_bytes()
        for damaged in (b"", data[:10], data[:-1], data[: len(data) // 2], b"\xff" * 40):
            with self.subTest(length=len(damaged)):
                self.put("allx", damaged)
                self.expect_error(r"ind\.tiny\.allx: not a file of Planetoid")


class BadSourceTest(PlanetoidTest):
    def test_missing_files_are_named(self):
        (self.raw / "ind.tiny.ty").unlink()
        self.expect_error(r"has no ind\.tiny\.ty")

    def test_a_name_is_not_a_path(self):
        with self.assertRaisesRegex(ConversionError, "not the name"):
            planetoid.raw_files(self.raw, "../tiny")

    def test_test_index(self):
        for text, pattern in (("510\nx\n511\n512\n", r"test\.index:2: b'x'"),
                              ("510\n-1\n", r"test\.index:2"),
                              ("510\n510\n511\n512\n", "given twice"),
                              ("510\n511\n", "2 nodes for the 4 rows"),
                              ("9\n510\n511\n512\n", "node 9 has a row in allx"),
                              ("510\n511\n512\n999999999999\n", "999999999999 needs")):
            with self.subTest(text=text):
                self.put("test.index", text.encode())
                self.expect_error(pattern)

    def test_labels_that_are_not_one_class(self):
        for value in (2, 1):
            rows = one_hot(self.test_labels)
            rows[2] = value
            self.put("ty", whole(python2_array(rows)))
            self.expect_error(r"ind\.tiny\.ty: row 2 does not name one class")

    def test_a_row_without_a_class_is_unlabeled(self):
        rows = one_hot(self.test_labels)
        rows[1] = 0
        self.put("ty", whole(python2_array(rows)))
        self.assertEqual(self.convert()["node_label"][TEST_INDEX[1]], -1)

    def test_shapes_that_disagree(self):
        self.put("ty", whole(python2_array(one_hot(self.test_labels[:3]))))
        self.expect_error(r"ind\.tiny\.tx: of shape \(4, 4\), where ind\.tiny\.ty has \(3, 3\)")

    def test_graphs(self):
        for graph, pattern in (({0: [516]}, "node 516 has no features"),
                               ({516: []}, "node 516 has no features"),
                               ({0: [-1]}, "node 0 has the neighbor -1"),
                               ({0: ["a"]}, "node 0 has the neighbor 'a'"),
                               ({"a": [0]}, "entry of 'a'"),
                               ({0: 1}, "entry of 0"),
                               ([0], "holds list")):
            with self.subTest(graph=graph):
                self.put("graph", pickle.dumps(graph, protocol=2))
                self.expect_error(rf"ind\.tiny\.graph: .*{pattern}")

    def test_too_few_nodes_for_validation(self):
        self.allx, self.first_labels = self.allx[:502], self.first_labels[:502]
        self.write()
        self.expect_error(r"502 rows, fewer than the 3 training nodes and 500")


class PygTest(PlanetoidTest):
    """Compares with PyG's Planetoid on the same files, node by node and row by row."""

    def setUp(self):
        super().setUp()
        try:
            from torch_geometric.datasets import Planetoid
            from torch_geometric.transforms import NormalizeFeatures
        except ImportError as error:
            self.skip_aloud(str(error))
        self.dataset_class, self.normalize = Planetoid, NormalizeFeatures()

    def skip_aloud(self, reason):
        print(f"\nSKIPPED: a comparison with PyG: {reason}", file=sys.stderr)
        self.skipTest(reason)

    def test_published_files(self):
        if "HEARTH_PLANETOID_RAW" not in os.environ:
            self.skip_aloud("HEARTH_PLANETOID_RAW does not name a folder of published files")
        source = Path(os.environ["HEARTH_PLANETOID_RAW"])
        names = sorted(path.name.split(".")[1] for path in source.glob("ind.*.allx"))
        self.assertTrue(names, f"{source} has no ind.NAME.allx")
        for name in names:
            self.compare(source, name)

    def test_files_with_and_without_gaps(self):
        for name, index in (("cora", [513, 510, 512, 511]), ("citeseer", TEST_INDEX)):
            self.adjacency = {0: [0, 1, 1, 510], 1: [0, 511], 510: [0], 511: [1, 511], 7: []}
            self.write()
            self.put("test.index", "".join(f"{node}\n" for node in index).encode())
            for path in list(self.raw.glob("ind.tiny.*")):
                path.rename(path.with_name(path.name.replace("tiny", name)))
            self.compare(self.raw, name)

    def compare(self, source, name):
        for transform, more in ((None, []), (self.normalize, ["--normalize-features"])):
            with self.subTest(name=name, normalized=bool(more)):
                self.compare_one(source, name, transform, more)

    def compare_one(self, source, name, transform, more):
        with tempfile.TemporaryDirectory() as root:
            raw = Path(root) / name / "raw"
            raw.mkdir(parents=True)
            for path in source.glob(f"ind.{name}.*"):
                (raw / path.name).symlink_to(path)
            output = Path(root) / "out"
            with contextlib.redirect_stdout(io.StringIO()), \
                    contextlib.redirect_stderr(io.StringIO()):
                data = self.dataset_class(root, name, transform=transform)[0]
                status = planetoid.main(["--raw", str(raw), "--name", name, "--output", str(output),
                                         *more])
            self.assertEqual(status, 0)
            ours = {path.stem: np.load(path) for path in output.glob("*.npy")}
        self.check_equal(ours, data)

    def check_equal(self, ours, data):
        np.testing.assert_allclose(ours["node_feat"], data.x.numpy(), rtol=1e-6)
        labeled = ours["node_label"] >= 0
        np.testing.assert_array_equal(ours["node_label"][labeled], data.y.numpy()[labeled])
        # A node without a label is of class 0 in PyG, and in none of its sets.
        masks = (data.train_mask | data.val_mask | data.test_mask).numpy()
        self.assertFalse(masks[~labeled].any())
        for split, mask in (("train", data.train_mask), ("valid", data.val_mask),
                            ("test", data.test_mask)):
            np.testing.assert_array_equal(ours[f"{split}_idx"], np.flatnonzero(mask.numpy()))
        theirs = data.edge_index.numpy()
        order = np.lexsort((theirs[0], theirs[1]))
        np.testing.assert_array_equal(ours["edge_index"], theirs[:, order])


if __name__ == "__main__":
    unittest.main()
