"""Edge lists as people have them: headers, marks, more columns, separators, compressions, matrices,
and files that are none; graphs that the Python converters make."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stored import StoredDataset

CLIENT = Path(__file__).resolve().parents[2] / "client" / "python"


def imported(daemon, source: Path, *flags: str):
    """Imports `source` under a name of its own: the dataset, and all that its log and `dataset
    show` tell."""
    name = f"{source.name.replace('.', '-')}-{imported.count}"
    imported.count += 1
    job = daemon.json("dataset", "import", name, "--source", str(source), *flags)
    shown = daemon.json("dataset", "show", name)
    log = daemon.hearth("job", "logs", job["id"]).out
    for told in [*shown["transforms"], *shown.get("warnings", [])]:
        assert told in log
    return StoredDataset(daemon.data_dir, name), log


imported.count = 0
HEADER = "line 1 skipped as a header"
THIRD = "column 3 of the edge list is left out"
LISTS = {
    "header.csv": (b"src,dst\n10,9\n9,10\n", HEADER),
    "mark.csv": (b"\xef\xbb\xbf10,9\n9,10\n", "byte order mark skipped"),
    "mark-header.csv": (b"\xef\xbb\xbf\"from\";\"to\"\n10;9\n9;10\n", HEADER),
    "weights.txt": (b"10 9 0.5\n9 10 0.25\n", THIRD),
    "times.txt": (b"10\t9\t1082008561\n9\t10\t1085597610\n", THIRD),
    "semicolon.csv": (b"10;9\n9;10\n", ""),
    "header.txt.gz": (gzip.compress(b"Source Target Weight\n10 9 1\n9 10 2\n", mtime=0),
                      "column 3 \"Weight\" of the edge list is left out"),
    # What `zstd --check` makes of "10 9\n9 10\n".
    "list.txt.zst": (bytes.fromhex("28b52ffd0458510000313020390a392031300a6c400268"), ""),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_edge_list(daemon, tmp_path, name):
    content, told = LISTS[name]
    (tmp_path / name).write_bytes(content)
    stored, log = imported(daemon, tmp_path / name)
    np.testing.assert_array_equal(stored.edge_list(), [[10, 9], [9, 10]])
    assert told in log
    stored, log = imported(daemon, tmp_path / name, "--relabel")
    np.testing.assert_array_equal(stored.edge_list(), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(stored.node_array("ids"), [9, 10])
    assert told in log


def test_header_and_columns_as_told(daemon, tmp_path):
    source = tmp_path / "friends.csv"
    source.write_text("person,since,friend\nanna,2001,bert\nbert,2002,anna\n")
    stored, log = imported(daemon, source, "--relabel", "--columns", "friend,person")
    np.testing.assert_array_equal(stored.edge_list(), [[1, 0], [0, 1]])
    assert 'column 2 "since" of the edge list is left out' in log
    stored, log = imported(daemon, source, "--relabel", "--columns", "1,3", "--header", "no")
    assert stored.nodes["node"]["num_nodes"] == 4 and "header" not in log
    refused = daemon.json("dataset", "import", "no", "--source", str(source), "--relabel",
                          "--columns", "person,friends", code=1)["error"]["message"]
    # The names in the file are not told: it may be none that was meant.
    assert 'has no column "friends"' in refused and "since" not in refused
    assert "--columns" in daemon.hearth("dataset", "import", "no", "--source", str(source),
                                        "--columns", "1", code=2).err


def test_a_matrix(daemon, tmp_path):
    source = tmp_path / "matrix.mtx"
    source.write_text("%%MatrixMarket matrix coordinate pattern general\n% made up\n4 4 2\n1 2\n"
                      "2 3\n")
    stored, log = imported(daemon, source)
    np.testing.assert_array_equal(stored.edge_list(), [[0, 1], [1, 2]])
    assert stored.nodes["node"]["num_nodes"] == 4
    assert "taken for edge-list: it is a Matrix Market file" in log
    source.write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 1\n3 1 0.5\n")
    stored, log = imported(daemon, source)
    np.testing.assert_array_equal(stored.edge_list(), [[2, 0], [0, 2]])
    assert "the values of the matrix are left out" in log


@pytest.mark.parametrize("name, content, problem", [
    ("utf16.txt", "0 1\n1 2\n".encode("utf-16"), "utf16.txt: is UTF-16 text; UTF-8 is read"),
    ("cut.txt.gz", gzip.compress(b"0 1\n" * 500, mtime=0)[:-9],
     "cut.txt.gz: is truncated, at byte "),
    ("list.txt.bz2", b"BZh91AY&SY\x12\x34", "list.txt.bz2: is compressed by bzip2"),
    ("list.bin", np.arange(100, dtype="<i8").tobytes(), "list.bin: is binary data, not text"),
    ("array.npy", b"\x93NUMPY\x01\x00", "array.npy: is a numpy array, not text"),
    ("dense.mtx", b"%%MatrixMarket matrix array real general\n1 1\n0\n", "a dense matrix"),
], ids=["utf16", "cut", "bzip2", "binary", "npy", "dense"])
@pytest.mark.parametrize("flags", [(), ("--format", "edge-list")], ids=["found", "told"])
def test_what_is_no_edge_list(daemon, tmp_path, name, content, problem, flags):
    (tmp_path / name).write_bytes(content)
    refused = daemon.json("dataset", "import", "none", "--source", str(tmp_path / name), *flags,
                          code=1)
    assert problem in refused["error"]["message"]


def converted(module: str, *arguments: object) -> str:
    done = subprocess.run([sys.executable, "-m", f"hearth.datasets.{module}",
                           *map(str, arguments)], text=True, capture_output=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(CLIENT)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tables_of_numbers_to_predict(daemon, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow as pa
    import pyarrow.parquet as pq
    (tmp_path / "sites").mkdir()
    split = ["train"] * 8 + ["valid", "test"]
    for part in (0, 1):
        rows = slice(5 * part, 5 * part + 5)
        pq.write_table(pa.table({"id": list(range(10))[rows], "f": [0.5] * 5,
                                 "load": [i / 4 for i in range(10)][rows], "split": split[rows]}),
                       tmp_path / "sites" / f"part-{part}.parquet")
    (tmp_path / "links.csv").write_text("src;dst;w\n" + "".join(f"{i};{9 - i};1\n"
                                                               for i in range(10)))
    for relations in (("site:to:site",), ("site:to:site", "site:back:site")):
        edges = [word for one in relations for word in ("--edges", f"{one}={tmp_path}/links.csv")]
        told = converted("tables", "--output", tmp_path / "out", "--nodes",
                         f"site={tmp_path}/sites", *edges, "--target", "site=load")
        assert "import it with --labels targets" in told and "'site:to:site': ['w']" in told
        stored, _ = imported(daemon, tmp_path / "out", "--labels", "targets")
        (kind,) = stored.nodes
        np.testing.assert_array_equal(stored.node_array("labels", kind).reshape(-1),
                                      [i / 4 for i in range(10)])


def test_a_saved_graph(daemon, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    from torch_geometric.data import Data
    ids = torch.arange(12)
    data = Data(x=torch.rand(12, 3), edge_index=torch.stack([ids, ids.roll(1)]), y=ids % 3,
                edge_attr=torch.ones(12, 1), train_mask=ids < 8, val_mask=(ids >= 8) & (ids < 10),
                test_mask=ids >= 10)
    torch.save(data, tmp_path / "data.pt")
    told = converted("pyg", "--data", tmp_path / "data.pt", "--output", tmp_path / "out")
    assert "left out: edge_attr" in told
    stored, _ = imported(daemon, tmp_path / "out")
    np.testing.assert_array_equal(stored.node_array("features"), data.x)
    np.testing.assert_array_equal(stored.node_array("labels"), data.y)
    np.testing.assert_array_equal(stored.node_array("test"), [10, 11])
