#!/usr/bin/env python3
"""Writes a folder of seed inputs for each fuzzer: make_seeds.py OUTPUT.

Real files if the repository has some, otherwise made ones. Only the standard
library is used.
"""

import gzip
import io
import json
import pathlib
import pickle
import struct
import sys
import zipfile

TESTDATA = (pathlib.Path(__file__).parents[2] / "engine" / "ingest" / "parse" /
            "testdata")


def npy(descr, shape, data, fortran=False, version=1):
    header = (f"{{'descr': '{descr}', 'fortran_order': {fortran}, "
              f"'shape': {shape}, }}").encode()
    header = header.ljust(117 if version == 1 else 115) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def zipped(members, compression):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(data)
    return out.getvalue()


def manifest():
    array = {
        "path": "node.features.npy", "in_place": False, "dtype": "float32",
        "shape": [3, 2], "data_offset": 4096, "file_size_bytes": 4120,
        "modified_ns": 0, "header_crc32c": 1, "file_id": 2,
        "crc_block_bytes": 4096, "crc_path": "node.features.npy.crc",
        "crc_file_crc32c": 3,
    }
    indptr = dict(array, dtype="int64", shape=[4], path="edge.indptr.npy",
                  file_size_bytes=4128, crc_path="edge.indptr.npy.crc")
    indices = dict(array, dtype="int32", shape=[5], path="edge.indices.npy",
                   file_size_bytes=4116, crc_path="edge.indices.npy.crc")
    body = json.dumps({
        "format": "hearth-dataset", "version": "1.0", "required_features": [],
        "name": "d", "fingerprint": "0123456789abcdef",
        "created_unix_seconds": 1700000000,
        "node_types": [{"name": "node", "num_nodes": 3, "num_classes": 0,
                        "features": array}],
        "edge_types": [{"name": "edge", "source_type": "node",
                        "destination_type": "node", "num_edges": 5,
                        "indptr": indptr, "indices": indices}],
        "transforms": ["one"],
    }, indent=2)
    return body[:-2].encode()


def safetensors():
    header = json.dumps({
        "__metadata__": {"a": "b"},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "y": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]},
    }).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


def pickles():
    value = {"a": [1, 2.5, None, True], 3: ("x", b"y"), "long": 2**40}
    for protocol in (2, 3, 4, 5):
        yield pickle.dumps(value, protocol)
    for path in sorted(TESTDATA.glob("*.pt")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith("/data.pkl"):
                    yield archive.read(name)


def metadata():
    """GraphBolt's metadata.yaml, raw, preprocessed, and with aliases."""
    sets = """tasks:
- name: nodes
  num_classes: 4
  train_set: &set
  - type: paper
    data:
    - {name: seeds, format: numpy, path: set/seeds.npy, in_memory: true}
    - {name: labels, format: torch, path: set/labels.pt}
  validation_set: *set
  test_set: null
"""
    features = """feature_data:
- {domain: node, type: paper, name: feat, format: numpy, path: data/f.npy}
"""
    raw = """dataset_name: toy
graph:
  nodes:
  - {num: 30, type: paper}
  edges:
  - {type: "paper:cites:paper", format: csv, path: edges/cites.csv}
"""
    topology = """graph_topology:
  type: FusedCSCSamplingGraph
  path: preprocessed/fused_csc_sampling_graph.pt
"""
    return [(raw + features + sets).encode(),
            (topology + features + sets).encode(), b"a: &a {tasks: [*a]}"]


# zstd is not in the standard library: "0,1\\n1,2\\n" with a checksum, and a frame
# that repeats a byte.
ZSTD = [bytes.fromhex(text) for text in (
    "28b52ffd0458410000302c310a312c320a4245090e", 
    "28b52ffd045855000010000001009b8639c002db234ef3")]


def edge_lists():
    """Options, and the beginnings of edge lists."""
    return [b"\0src,dst,weight\n0,1,0.5\n1,2,0.25\n", b"\0# c\n0\t1\n1 2\n",
            b"\x04source;target\na;b\n", b"\x1c1 2 3\n4 5 6\n", b"\1\"a\" \"b\"\n0 1\n",
            b"\0%%MatrixMarket matrix coordinate pattern symmetric\n% c\n3 3 1\n2 1\n",
            b"\0%%MatrixMarket matrix coordinate real general\n3 3 1\n2 1 0.5\n"]


def feed():
    """Steps of a feed: packets of its client (FeedUp), and what its job does."""
    def message(number, body):
        return bytes([number << 3 | 2, len(body)]) + body

    def packet(data):
        return b"\0" + struct.pack("<H", len(data)) + data

    def opened(number, split, layout):
        return packet(message(2, bytes([8, number, 16, split, 40, layout])))

    hello = packet(message(1, message(1, b"ticket")))
    batch, end, read, release = b"\3", b"\4", b"\6", b"\7"
    close, leave, bye = (packet(message(4, b"\x08\1")), packet(message(5, b"")),
                         packet(message(7, b"")))
    epoch = packet(message(8, b"\x08\1\x1a\x08accuracy\x21" + struct.pack("<d", 0.5)))
    seconds = packet(message(6, b"\x09" + struct.pack("<d", 1.5) + b"\x18\1"))
    return [hello + opened(1, 1, 1) + batch * 3 + read + release * 3 + batch + end +
            epoch + bye,
            hello + opened(1, 1, 2) + batch + close + opened(2, 2, 2) + batch + b"\2" +
            release + leave + b"\1" + opened(3, 3, 1) + batch + seconds,
            hello + packet(message(3, b"\x0a\1\1")), packet(message(1, b"")),
            hello + hello]


def seeds():
    array = npy("<f4", "(2, 3)", bytes(24))
    text = b"0,1\n1,2\r\n 3 , -4\n"
    members = {"edge_index.npy": npy("<i8", "(2, 2)", bytes(32)),
               "node_feat.npy": array}
    return {
        "npy": [array, npy("|b1", "(1,)", b"\1", version=2),
                npy("<i8", "()", bytes(8), fortran=True, version=3)],
        "gzip": [gzip.compress(text), gzip.compress(text) * 2 + bytes(9),
                 gzip.compress(bytes(100000)), gzip.compress(b"", 0)],
        "zip": [zipped(members, zipfile.ZIP_DEFLATED),
                zipped(members, zipfile.ZIP_STORED),
                zipped({}, zipfile.ZIP_STORED)] +
               [p.read_bytes() for p in TESTDATA.glob("*.npz")],
        "pickle": list(pickles()),
        "torch": [p.read_bytes() for p in sorted(TESTDATA.glob("*.pt*"))],
        "delimited": [b"\x0a" + text, b"\x02" + text.replace(b",", b" "),
                      b"\x0b1.5,-2e-3,nan\n", b"\x0a" + gzip.compress(text), b"\x12" + text.replace(b",", b";"),
                      b"\x1a" + text.replace(b",", b"\t"), b"\x0a" + ZSTD[0]],
        "edge_list": edge_lists(),
        "feed": feed(),
        "manifest": [manifest()],
        "metadata": metadata(),
        "safetensors": [safetensors()],
        "zstd": ZSTD + [ZSTD[0] + ZSTD[1], b"\x50\x2a\x4d\x18\4\0\0\0size" + ZSTD[0]],
        "yaml": [b"batch-size: 1024\nfanout: [10, 10]\ndataset: \"d\"\n",
                 b"epochs: &a 3\nbatch-size: *a\n"],
    }


def main():
    output = pathlib.Path(sys.argv[1])
    for name, inputs in seeds().items():
        folder = output / name
        folder.mkdir(parents=True)
        for number, data in enumerate(inputs):
            (folder / f"seed{number}").write_bytes(data)


if __name__ == "__main__":
    main()
