"""Tests of hearth.datasets.tables: tables as folders, and every refusal."""

import bz2
import contextlib
import gzip
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    print(f"\nSKIPPED: the conversion of tables: {missing}", file=sys.stderr)
    raise unittest.SkipTest(str(missing)) from missing

from hearth.datasets import table_reader, tables  # noqa: E402
from hearth.datasets.id_map import IdMap  # noqa: E402

NODES = {"id": [30, 10, 20, 40, 50], "feat": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0],
                                              [9.0, 10.0]],
         "year": [1, 2, 3, 4, 5], "label": [1, 0, None, 1, 0],
         "split": ["train", "train", None, "valid", "test"]}
EDGES = {"src": [10, 20, 20, 50, 10], "dst": [30, 20, 30, 10, 30]}


class TablesTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = Path(holder.name)
        self.output = self.root / "out"

    def parquet(self, name, columns, types=None, **options):
        path = self.root / f"{name}.parquet"
        arrays = {key: pa.array(values, (types or {}).get(key)) for key, values in columns.items()}
        pq.write_table(pa.table(arrays), path, **options)
        return path

    def text(self, name, text):
        path = self.root / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    def run_main(self, *arguments):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            try:
                status = tables.main(["--output", str(self.output), *map(str, arguments)])
            except SystemExit as stop:
                status = stop.code
        return status, text.getvalue()

    def convert(self, *arguments):
        status, text = self.run_main(*arguments)
        self.assertEqual(status, 0, text)
        return {path.relative_to(self.output).as_posix().removesuffix(".npy"): np.load(path)
                for path in self.output.rglob("*.npy")}

    def convert_plain(self, nodes, edges, *more):
        return self.convert("--nodes", f"paper={nodes}", "--edges", f"paper:cites:paper={edges}",
                            *more)

    def expect_error(self, pattern, nodes, edges=None, *more):
        edges = edges or self.parquet("edges", EDGES)
        status, text = self.run_main("--nodes", f"paper={nodes}", "--edges",
                                     f"paper:cites:paper={edges}", *more)
        self.assertEqual(status, 1, text)
        self.assertRegex(text, pattern)
        self.assertEqual([path.name for path in self.root.iterdir()
                          if path.name.startswith((".", "out"))], [])


class NumpyFolderTest(TablesTest):
    def check(self, arrays):
        self.assertEqual(set(arrays), {"edge_index", "node_feat", "node_label", "train_idx",
                                       "valid_idx", "test_idx"})
        self.assertEqual(arrays["edge_index"].tolist(), [[1, 2, 2, 4, 1], [0, 2, 0, 1, 0]])
        self.assertEqual(arrays["edge_index"].dtype, np.int64)
        expected = [[1, 2, 1], [3, 4, 2], [5, 6, 3], [7, 8, 4], [9, 10, 5]]
        self.assertEqual(arrays["node_feat"].tolist(), expected)
        self.assertEqual(arrays["node_feat"].dtype, np.float32)
        self.assertEqual(arrays["node_label"].tolist(), [1, 0, -1, 1, 0])
        self.assertEqual([arrays[f"{part}_idx"].tolist() for part in ("train", "valid", "test")],
                         [[0, 1], [3], [4]])

    def test_parquet(self):
        self.check(self.convert_plain(self.parquet("nodes", NODES), self.parquet("edges", EDGES)))
        kept = pq.read_table(self.output / "node_ids.paper.parquet")["id"]
        self.assertEqual((kept.type, kept.to_pylist()), (pa.int64(), NODES["id"]))

    def test_batches_row_groups_and_parts_do_not_matter(self):
        whole = pa.table(NODES)
        for number, part in enumerate((whole.slice(0, 3), whole.slice(3))):
            pq.write_table(part, self.root / f"part{number}.parquet", row_group_size=2)
        edges = self.parquet("edges", EDGES, row_group_size=2)
        with mock.patch.object(table_reader, "ROWS_PER_BATCH", 2):
            self.check(self.convert("--nodes", f"paper={self.root}/part0.parquet",
                                    "--nodes", f"paper={self.root}/part1.parquet",
                                    "--edges", f"paper:cites:paper={edges}"))

    def test_folders_of_parts(self):
        whole = pa.table(NODES)
        for name, part in (("part-00000.snappy.parquet", whole.slice(0, 2)),
                           ("nested/part-00000.pq", whole.slice(4)),
                           ("part-00001.parquet", whole.slice(2, 2)),
                           ("part-00002.parquet", whole.slice(0, 0))):
            # In the order of their paths, "nested" comes first.
            (self.root / "papers" / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(part, self.root / "papers" / name)
        for name in ("_SUCCESS", ".part-00000.snappy.parquet.crc", "readme.txt",
                     "_temporary/part-9.parquet"):
            (self.root / "papers" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "papers" / name).write_bytes(b"none")
        (self.root / "cites").mkdir()
        for number, lines in enumerate(("10,30\n20,20\n", "", "20,30\n50,10\n10,30\n")):
            text = "src,dst\n" + lines if lines else ""
            self.text(f"cites/part-{number}.csv", text)
        arrays = self.convert_plain(self.root / "papers", self.root / "cites")
        self.assertEqual(arrays["node_feat"][:, 2].tolist(), [5, 1, 2, 3, 4])
        self.assertEqual(arrays["edge_index"].tolist(), [[2, 3, 3, 0, 2], [1, 3, 1, 2, 1]])
        files = json.loads((self.output / "source.json").read_text())["nodes"]["paper"]
        self.assertEqual(sorted(files["bytes_of_files"])[0], "papers/nested/part-00000.pq")

    def test_columns_that_are_left_out_are_told(self):
        nodes, edges = self.parquet("nodes", NODES), self.parquet("edges", {**EDGES, "w": [1] * 5})
        for arguments, told in (
                ((), r"columns left out: \{'paper:cites:paper': \['w'\]\}"),
                (("--features", "paper=feat"), r"\{'paper': \['year'\], 'paper:cites:paper'")):
            status, text = self.run_main("--nodes", f"paper={nodes}", "--edges",
                                         f"paper:cites:paper={edges}", *arguments)
            self.assertEqual(status, 0, text)
            self.assertRegex(text, told)
        status, text = self.run_main("--nodes", f"paper={nodes}", "--edges",
                                     f"paper:cites:paper={self.parquet('edges', EDGES)}")
        self.assertNotIn("left out", text)
        # Spark writes the values of some columns into the names of folders.
        for year, part in ((2001, pa.table(NODES).slice(0, 2)), (2002, pa.table(NODES).slice(2))):
            folder = self.root / f"papers/decade=2000/year={year}"
            folder.mkdir(parents=True)
            pq.write_table(part.drop(["year"]), folder / "part-0.parquet")
        status, text = self.run_main("--nodes", f"paper={self.root / 'papers'}", "--edges",
                                     f"paper:cites:paper={edges}")
        self.assertEqual(status, 0, text)
        self.assertIn("{'paper': ['decade', 'year']}", text)

    def test_numbers_to_predict(self):
        nodes = self.parquet("nodes", {**NODES, "label": [0.5, -2.0, None, float("nan"), 3.0],
                                       "b": [1, 2, None, None, 5], "split": ["train", "valid", "",
                                                                             "", "test"]})
        edges = self.parquet("edges", EDGES)
        arrays = self.convert_plain(nodes, edges, "--target", "paper=label", "--features",
                                    "paper=feat")
        self.assertEqual(arrays["node_label"].dtype, np.float32)
        np.testing.assert_array_equal(arrays["node_label"], [0.5, -2, np.nan, np.nan, 3])
        arrays = self.convert_plain(nodes, edges, "--target", "paper=b,label", "--features",
                                    "paper=feat", "--split", "paper=", "--split-seed", "1")
        np.testing.assert_array_equal(arrays["node_label"], [[1, 0.5], [2, -2], [np.nan] * 2,
                                                             [np.nan] * 2, [5, 3]])
        drawn = np.concatenate([arrays[f"{part}_idx"] for part in ("train", "valid", "test")])
        self.assertEqual(sorted(drawn.tolist()), [0, 1, 4])
        status, text = self.run_main("--nodes", f"paper={nodes}", "--edges",
                                     f"paper:cites:paper={edges}", "--target", "paper=label",
                                     "--features", "paper=feat")
        self.assertEqual(status, 0)
        self.assertIn("import it with --labels targets", text)

    def test_semicolons_marks_and_compressions(self):
        edges = self.text("edges.csv.gz", "\ufeffsrc;dst\n10;30\n")
        for name, text in (("nodes.csv", "id;label;split;f\n"), ("nodes.tsv", "id;label;split;f\n"),
                           ("nodes.csv.bz2", "id,label,split,f\n")):
            rows = text + "10;0;train;0.5\n20;0;valid;1\n30;1;test;2\n"
            if "," in text:
                rows = rows.replace(";", ",")
            path = self.root / name
            path.write_bytes(bz2.compress(rows.encode()) if "bz2" in name
                             else ("\ufeff" + rows).encode())
            arrays = self.convert_plain(path, edges)
            self.assertEqual(arrays["node_feat"].tolist(), [[0.5], [1], [2]])
            self.assertEqual(arrays["edge_index"].tolist(), [[0], [2]])

    def test_every_type_of_integer_string_and_list(self):
        edges = self.parquet("edges", EDGES)
        for id_type in (pa.int8(), pa.uint64(), pa.int64()):
            for list_type in (pa.list_(pa.float16()), pa.large_list(pa.float64()),
                              pa.list_(pa.int32()), pa.list_(pa.float32(), 2)):
                with self.subTest(id=id_type, features=list_type):
                    columns = dict(NODES)
                    if list_type == pa.list_(pa.float16()):
                        columns["feat"] = [[np.float16(v) for v in row] for row in NODES["feat"]]
                    nodes = self.parquet("nodes", columns, {"id": id_type, "feat": list_type,
                                                            "year": pa.decimal128(5, 2)})
                    self.check(self.convert_plain(nodes, edges))
        texts = {**NODES, "id": [str(i) for i in NODES["id"]]}
        for id_type in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
            with self.subTest(id=id_type):
                self.check(self.convert_plain(self.parquet("nodes", texts, {"id": id_type}), edges))

    def test_csv(self):
        header = "year,id,split,label,f0,f1\n"
        rows = ["1,30,train,1,1,2", "2,10,train,0,3,4", "3,20,,,5,6", "4,40,val,1,7,8",
                "5,50,test,0,9,10"]
        for name in ("nodes.csv", "nodes.tsv", "nodes.csv.gz"):
            text = header + "\n".join(rows) + "\n"
            nodes = self.text(name, text.replace(",", "\t") if "tsv" in name else text)
            edges = self.text("edges.csv", "time,dst,src\n7,30,10\n7,20,20\n7,30,20\n7,10,50\n"
                                           "7,30,10\n")
            self.check(self.convert_plain(nodes, edges, "--features", "paper=f0,f1,year"))

    def test_ids_of_csv_are_text_unless_nodes_have_integers(self):
        nodes = self.text("nodes.csv", "id,label,split,f\n007,0,train,1\n7,0,valid,1\n"
                                       "\"a, b\",1,test,1\n")
        edges = self.text("edges.csv", "src,dst\n7,007\n\"a, b\",7\n")
        self.assertEqual(self.convert_plain(nodes, edges)["edge_index"].tolist(),
                         [[1, 2], [0, 1]])
        kept = pq.read_table(self.output / "node_ids.paper.parquet")["id"]
        self.assertEqual(kept.to_pylist(), ["007", "7", "a, b"])
        integers = self.parquet("nodes", {**NODES, "id": [7, 8, 9, 10, -3]})
        edges = self.text("edges.csv", "src,dst\n007,-3\n")
        self.assertEqual(self.convert_plain(integers, edges)["edge_index"].tolist(), [[0], [4]])

    def test_strings_of_many_lengths_and_alphabets(self):
        random = np.random.RandomState(3)
        ids = [f"{'ü' * (i % 7)}node/{i}" + "x" * (i % 50) for i in range(1000)]
        nodes = self.parquet("nodes", {"id": ids, "f": list(range(1000)),
                                       "label": [i % 3 for i in range(1000)]})
        pairs = random.randint(0, 1000, (2, 5000))
        edges = self.parquet("edges", {"src": [ids[i] for i in pairs[0]],
                                       "dst": [ids[i] for i in pairs[1]]})
        with mock.patch.object(table_reader, "ROWS_PER_BATCH", 64):
            arrays = self.convert_plain(nodes, edges, "--split-seed", "5")
        np.testing.assert_array_equal(arrays["edge_index"], pairs)

    def test_classes_with_names_are_kept(self):
        for labels in (["b", "a", None, "c", "a"], ["b", "a", "", "c", "a"]):
            nodes = self.parquet("nodes", {**NODES, "label": labels})
            arrays = self.convert_plain(nodes, self.parquet("edges", EDGES))
            self.assertEqual(arrays["node_label"].tolist(), [1, 0, -1, 2, 0])
            self.assertEqual(json.loads((self.output / "classes.paper.json").read_text()),
                             ["a", "b", "c"])

    def test_classes_that_are_numbers(self):
        for labels, kind in (([1.0, 0.0, float("nan"), 1.0, 0.0], pa.float64()),
                             ([1, 0, -1, 1, 0], pa.int16()), (["1", "0", "-1", "1", "0"], None),
                             ([True, False, None, True, False], None)):
            with self.subTest(labels=labels):
                nodes = self.parquet("nodes", {**NODES, "label": labels}, {"label": kind})
                arrays = self.convert_plain(nodes, self.parquet("edges", EDGES))
                self.assertEqual(arrays["node_label"].tolist(), [1, 0, -1, 1, 0])
                self.assertFalse((self.output / "classes.paper.json").exists())

    def test_named_columns(self):
        renamed = {"key": NODES["id"], "w": NODES["year"], "note": ["x"] * 5,
                   "topic": NODES["label"], "part": NODES["split"]}
        edges = self.parquet("edges", {"citing": EDGES["src"], "cited": EDGES["dst"]})
        arrays = self.convert_plain(self.parquet("nodes", renamed), edges, "--id", "paper=key",
                                    "--features", "paper=w", "--label", "paper=topic", "--split",
                                    "paper=part", "--ends", "paper:cites:paper=citing,cited")
        self.assertEqual(arrays["node_feat"].tolist(), [[1], [2], [3], [4], [5]])
        self.assertEqual(arrays["edge_index"].tolist(), [[1, 2, 2, 4, 1], [0, 2, 0, 1, 0]])

    def test_drawn_split_holds_labeled_nodes_and_is_seeded(self):
        count = 100
        nodes = self.parquet("nodes", {"id": list(range(count)), "f": [0.5] * count,
                                       "label": [i % 5 - 1 for i in range(count)]})
        edges = self.parquet("edges", {"src": [0], "dst": [1]})
        first = self.convert_plain(nodes, edges, "--split-seed", "1")
        parts = [first[f"{part}_idx"] for part in ("train", "valid", "test")]
        self.assertEqual([len(part) for part in parts], [48, 16, 16])
        self.assertEqual(sorted(np.concatenate(parts)),
                         np.flatnonzero(first["node_label"] >= 0).tolist())
        again = self.convert_plain(nodes, edges, "--split-seed", "1")
        other = self.convert_plain(nodes, edges, "--split-seed", "2")
        self.assertEqual(first["train_idx"].tolist(), again["train_idx"].tolist())
        self.assertNotEqual(first["train_idx"].tolist(), other["train_idx"].tolist())

    def test_no_edges(self):
        edges = self.parquet("edges", {"src": [], "dst": []},
                             {"src": pa.int64(), "dst": pa.int64()})
        arrays = self.convert_plain(self.parquet("nodes", NODES), edges)
        self.assertEqual(arrays["edge_index"].shape, (2, 0))

    def test_as_a_command(self):
        command = [sys.executable, "-m", "hearth.datasets.tables", "--output", str(self.output),
                   "--nodes", f"paper={self.parquet('nodes', NODES)}",
                   "--edges", f"paper:cites:paper={self.parquet('edges', EDGES)}"]
        result = subprocess.run(command, cwd=Path(__file__).resolve().parents[1], text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("layout: numpy", result.stdout)


class IdMapTest(unittest.TestCase):
    def check(self, id_map, names):
        ids = np.array(names)
        order = np.random.RandomState(4).permutation(len(ids))
        self.assertEqual(id_map.rows_of(ids[order]).tolist(), order.tolist())
        absent = np.array([b"", b"a", ids[3][:-1] + b"?", ids[5] + b"longer than any"])
        self.assertEqual(id_map.rows_of(absent).tolist(), [-1] * 4)
        self.assertIsNone(id_map.duplicate())

    def test_hashes_that_collide_do_not_matter(self):
        names = [f"node {i:05d}/{i % 7}".encode() for i in range(3000)]
        self.check(IdMap([np.array(names)]), names)
        # Multiplied by 0 or 2^63 all, or half of, the hashes are equal.
        for multipliers in ((0,), (1 << 63, 0), (0, 0x9E3779B97F4A7C15), ()):
            with self.subTest(multipliers=multipliers):
                self.check(IdMap([np.array(names[:10]), np.array(names[10:])], multipliers), names)
                twice = IdMap([np.array([*names, names[7], names[5]])], multipliers)
                self.assertEqual(twice.duplicate(), (3000, 7))

    def test_integers(self):
        id_map = IdMap([np.array([5, -(2**63), 2**63 - 1]), np.array([0])])
        self.assertEqual(id_map.rows_of(np.array([0, 5, 6, 2**63 - 1, -(2**63)])).tolist(),
                         [3, 0, -1, 2, 1])
        self.assertEqual(IdMap([]).rows_of(np.array([1])).tolist(), [-1])


class GraphBoltTest(TablesTest):
    def convert_hetero(self):
        authors = self.text("authors.csv", "id,h\nann,0.5\nbob,0.25\n")
        fields = self.text("fields.csv", "id\nml\n")
        writes = self.text("writes.csv", "src,dst\nbob,10\nann,50\nbob,50\n")
        about = self.text("about.csv", "src,dst\n50,ml\n")
        return self.convert(
            "--nodes", f"paper={self.parquet('papers', NODES)}", "--nodes", f"author={authors}",
            "--nodes", f"field={fields}", "--edges", f"author:writes:paper={writes}",
            "--edges", f"paper:about:field={about}",
            "--edges", f"paper:cites:paper={self.parquet('cites', EDGES)}")

    def test_arrays(self):
        arrays = self.convert_hetero()
        self.assertEqual(arrays["edges/author.writes.paper"].tolist(), [[1, 0, 1], [1, 4, 4]])
        self.assertEqual(arrays["edges/paper.about.field"].tolist(), [[4], [0]])
        self.assertEqual(arrays["edges/paper.cites.paper"].tolist(),
                         [[1, 2, 2, 4, 1], [0, 2, 0, 1, 0]])
        self.assertEqual(arrays["features/author"].tolist(), [[0.5], [0.25]])
        self.assertEqual(arrays["features/paper"].shape, (5, 3))
        self.assertNotIn("features/field", arrays)
        self.assertEqual(arrays["sets/train_seeds.paper"].tolist(), [0, 1])
        self.assertEqual(arrays["sets/train_labels.paper"].tolist(), [1, 0])
        self.assertEqual(arrays["sets/valid_labels.paper"].tolist(), [1])
        self.assertEqual(arrays["sets/test_seeds.paper"].tolist(), [4])

    def test_metadata(self):
        self.convert_hetero()
        text = (self.output / "metadata.yaml").read_text()
        for line in ('    - {type: "paper", num: 5}', '    - {type: "field", num: 1}',
                     '    - {type: "author:writes:paper", format: numpy, '
                     'path: "edges/author.writes.paper.npy"}',
                     '  - {domain: node, type: "author", name: feat, format: numpy, '
                     'in_memory: false, path: features/author.npy}',
                     "    num_classes: 2", "    validation_set:",
                     "          - {name: labels, format: numpy, "
                     "path: sets/valid_labels.paper.npy}"):
            self.assertIn(line + "\n", text)
        self.assertNotIn("features/field", text)
        try:
            import yaml
        except ImportError:
            return
        value = yaml.safe_load(text)
        self.assertEqual([entry["num"] for entry in value["graph"]["nodes"]], [5, 2, 1])
        for entry in value["graph"]["edges"] + value["feature_data"]:
            self.assertTrue((self.output / entry["path"]).is_file())

    def test_numbers_to_predict_are_a_task_without_classes(self):
        edges = self.parquet("edges", EDGES)
        nodes = self.parquet("nodes", {**NODES, "label": [0.5, 1.5, None, 2.5, 3.5]})
        relations = ("--edges", f"paper:cites:paper={edges}",
                     "--edges", f"paper:extends:paper={edges}")
        arrays = self.convert("--nodes", f"paper={nodes}", *relations, "--target", "paper=label")
        self.assertEqual(arrays["sets/test_labels.paper"].tolist(), [3.5])
        text = (self.output / "metadata.yaml").read_text()
        self.assertIn('- name: "paper_regression"\n', text)
        self.assertNotIn("num_classes", text)
        other = self.parquet("other", NODES)
        status, text = self.run_main("--nodes", f"paper={nodes}", "--nodes", f"book={other}",
                                     *relations, "--target", "paper=label")
        self.assertEqual(status, 1)
        self.assertIn("some node types have classes and some have targets", text)

    def test_two_relations_of_one_type_are_a_heterograph(self):
        edges = self.parquet("edges", EDGES)
        arrays = self.convert("--nodes", f"paper={self.parquet('nodes', NODES)}",
                              "--edges", f"paper:cites:paper={edges}",
                              "--edges", f"paper:extends:paper={edges}")
        self.assertIn("edges/paper.extends.paper", arrays)

    def test_a_target_is_needed(self):
        nodes = self.parquet("nodes", {"id": [1, 2]})
        edges = self.parquet("edges", {"src": [1], "dst": [2]})
        status, text = self.run_main("--nodes", f"a={nodes}", "--nodes", f"b={nodes}",
                                     "--edges", f"a:r:b={edges}")
        self.assertEqual(status, 1)
        self.assertIn("no node type has both classes and a split", text)


class RefusalTest(TablesTest):
    def nodes_with(self, types=None, **columns):
        return self.parquet("nodes", {**NODES, **columns}, types)

    def test_duplicate_ids(self):
        path = self.nodes_with(id=[30, 10, 20, 10, 30])
        self.expect_error(r"nodes\.parquet: row 4: the id of .*nodes\.parquet: row 2 again", path)
        for number in (0, 1):
            self.parquet(f"part{number}", {**NODES, "id": [5 * number + i for i in range(5)]})
        self.parquet("part1", {**NODES, "id": [5, 6, 3, 8, 9]})
        self.expect_error(r"part1\.parquet: row 3: the id of .*part0\.parquet: row 4 again",
                          self.root / "part0.parquet", None,
                          "--nodes", f"paper={self.root}/part1.parquet")

    def test_ids_that_are_none(self):
        self.expect_error("row 2: column 'id': no id", self.nodes_with(id=[1, None, 3, 4, 5]))
        self.expect_error("row 3: column 'id': no id", self.nodes_with(id=["a", "b", "", "c", "d"]))
        self.expect_error("row 1: column 'id': an id with a zero byte",
                          self.nodes_with(id=["a\0", "b", "x", "c", "d"]))
        self.expect_error("ids of type double", self.nodes_with(id=[1.5, 2, 3, 4, 5]))
        self.expect_error("row 5: column 'id': '18446744073709551615' is beyond",
                          self.nodes_with({"id": pa.uint64()}, id=[1, 2, 3, 4, 2**64 - 1]))

    def test_unknown_ids_of_edges(self):
        nodes = self.nodes_with()
        for column in ("src", "dst"):
            edges = self.parquet("edges", {**EDGES, column: [10, 20, 21, 50, 10]})
            with mock.patch.object(table_reader, "ROWS_PER_BATCH", 2):
                self.expect_error(rf"edges\.parquet: row 3: column '{column}': '21' is not the id "
                                  "of a node of type paper", nodes, edges)
        self.expect_error("row 2: column 'dst': 'x' is not an integer", nodes,
                          self.text("edges.csv", "src,dst\n10,20\n10,x\n"))
        texts = self.nodes_with(id=["a", "b", "c", "d", "e"])
        self.expect_error("row 1: column 'src': 'abcdefgh' is not the id", texts,
                          self.text("edges.csv", "src,dst\nabcdefgh,a\n"))
        self.expect_error("row 1: column 'dst': no id", texts,
                          self.text("edges.csv", "src,dst\na,\n"))

    def test_features(self):
        cases = (
            ("row 2: no value in column 'year'", {"year": [1, None, 3, 4, 5]}),
            ("row 3: no value in column 'feat'", {"feat": [[1.0], [1.0], None, [1.0], [1.0]]}),
            ("row 3: column 'feat' has not 2 values", {"feat": [[1., 2.], [1., 2.], [1.], [1., 2.],
                                                                [1., 2.]]}),
            ("row 4: no value in a list of 'feat'", {"feat": [[1., 2.]] * 3 + [[1., None]] * 2}),
            ("row 5: a value of column 'year' is beyond float32", {"year": [1.0] * 4 + [1e39]}),
            ("column 'year' of type string is not a feature: .*--features paper=",
             {"year": ["a"] * 5}),
        )
        for pattern, columns in cases:
            with self.subTest(pattern=pattern):
                self.expect_error(pattern, self.nodes_with(**columns))
        self.expect_error("column 'year' of type string is not a feature",
                          self.nodes_with(year=["a"] * 5), None, "--features", "paper=year")
        self.expect_error("have no features", self.nodes_with(), None, "--features", "paper=")
        self.expect_error(r"nodes\.csv: .*Row #3.*'x'",
                          self.text("nodes.csv", "id,f,label,split\n1,0.5,0,train\n2,x,0,test\n"),
                          None, "--features", "paper=f")
        self.expect_error("row 2: no value in column 'f'",
                          self.text("nodes.csv", "id,f,label,split\n1,0.5,0,train\n2,,0,test\n"))

    def test_classes(self):
        self.expect_error("row 2: column 'label': 0.5 is not a class",
                          self.nodes_with(label=[0.0, 0.5, 1.0, 0.0, 1.0]))
        self.expect_error("class 10000000: there may be 10000000",
                          self.nodes_with(label=[0, 10_000_000, 1, 1, 1]))
        for values in ([[1]] * 5, [b"x"] * 5):
            self.expect_error("row 1: column 'label' of type .*: not integers, floats or strings",
                              self.nodes_with(label=values))
        self.expect_error("have no classes: .*--label paper=", self.nodes_with(), None, "--label",
                          "paper=", "--features", "paper=year")

    def test_targets(self):
        cases = (
            ("row 2: column 'a': a value beyond float32", {"a": [1.0, 1e39, 1.0, 1.0, 1.0]}),
            ("row 3: column 'b': no value, where other targets have", {"b": [1, 1, None, 1, 1]}),
            ("column 'a' of type string is not of numbers", {"a": ["x"] * 5}),
            ("row 4: in valid, and without", {"a": [1, 1, 1, None, 1], "b": [1, 1, 1, None, 1]}),
            ("no column 'b'", {"b": None}),
        )
        for pattern, columns in cases:
            columns = {"a": [0.5] * 5, "b": [2] * 5, **columns}
            columns = {name: values for name, values in columns.items() if values is not None}
            with self.subTest(pattern=pattern):
                self.expect_error(pattern, self.nodes_with(**columns), None, "--target",
                                  "paper=a,b", "--features", "paper=feat")
        self.expect_error("have classes .* or targets .*, not both", self.nodes_with(), None,
                          "--target", "paper=year", "--label", "paper=label")
        self.expect_error("0.5 is not a class; --target takes numbers",
                          self.nodes_with(label=[0.5] * 5))

    def test_splits(self):
        self.expect_error("row 4: column 'split': 'dev' is not train, valid or test",
                          self.nodes_with(split=["train", "valid", "", "dev", "test"]))
        self.expect_error("row 3: in test, and without a class",
                          self.nodes_with(split=["train", "valid", "test", "test", "test"]))
        self.expect_error("no node of type paper is in test",
                          self.nodes_with(split=["train", "valid", "", "train", "train"]))
        self.expect_error("have no split: .*--split-seed", self.nodes_with(), None, "--split",
                          "paper=", "--features", "paper=year")

    def test_columns(self):
        self.expect_error(r"nodes\.parquet: no column 'id'; its columns: key",
                          self.parquet("nodes", {"key": [1]}))
        self.expect_error(r"edges\.parquet: no column 'src'; its columns: a, b", self.nodes_with(),
                          self.parquet("edges", {"a": [1], "b": [1]}))
        self.expect_error("more than one column 'id'",
                          self.text("nodes.csv", "id,id,f\n1,2,3\n"), None)

    def test_files(self):
        self.expect_error("not named .parquet", self.text("nodes.json", "{}"))
        self.expect_error(r"gone\.parquet", self.root / "gone.parquet")
        self.expect_error(r"gone\.csv", self.root / "gone.csv")
        (self.root / "empty").mkdir()
        self.expect_error("empty: a folder without Parquet or CSV files", self.root / "empty")
        self.expect_error(r"nodes\.parquet: ", self.text("nodes.parquet", "no parquet"))
        self.expect_error(r"nodes\.csv: .*[Ee]mpty", self.text("nodes.csv", ""))
        self.expect_error("no nodes", self.text("nodes.csv", "id,f\n"), None, "--features",
                          "paper=f")
        self.expect_error(r"nodes\.csv: .*Expected 2 columns",
                          self.text("nodes.csv", "id,f\n1,2\n1,2,3\n"))

    def test_a_foreign_folder_is_left_alone_and_an_own_one_replaced(self):
        nodes, edges = self.nodes_with(), self.parquet("edges", EDGES)
        self.convert_plain(nodes, edges)
        changed = self.nodes_with(year=[9, 9, 9, 9, 9])
        self.assertEqual(self.convert_plain(changed, edges)["node_feat"][0, 2], 9)
        (self.output / "source.json").unlink()
        status, text = self.run_main("--nodes", f"paper={nodes}", "--edges",
                                     f"paper:cites:paper={edges}")
        self.assertEqual(status, 1)
        self.assertIn("not converted from tables", text)

    def test_arguments(self):
        for arguments, pattern in (
                (["--nodes", "a=x"], "at least one"),
                (["--nodes", "a"], "has no '='"),
                (["--nodes", "a/b=x"], "not a name"),
                (["--nodes", "a=x", "--edges", "a:b=y"], "not SRC:REL:DST"),
                (["--nodes", "a=x", "--edges", "a:r:b=y"], "no --nodes b=FILE"),
                (["--nodes", "a=x", "--edges", "a:r:a=y", "--id", "b=k"], "there is no 'b'"),
                (["--nodes", "a=x", "--edges", "a:r:a=y", "--ends", "a:r:a=k"], "two columns"),
                (["--nodes", "a=x", "--edges", "a:r:a=y", "--split-seed", "-1"], "split-seed")):
            with self.subTest(arguments=arguments):
                status, text = self.run_main(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(pattern, text)


if __name__ == "__main__":
    unittest.main()
