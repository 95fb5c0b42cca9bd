#!/usr/bin/env python3
"""Writes the files beside it: `make_files.py` with torch 2.11 and
numpy 2.4; `make_files.py graphbolt` with torch 2.1.2, numpy 1.26 and
dgl 2.1.0.
"""

import collections
import pathlib
import sys

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).parent


def values():
    base = torch.arange(12, dtype=torch.float32)
    return {
        "none": None, "true": True, "int": -5, "long": 2**40,
        "least": -2**63, "float": 1.5, "text": "pa\u00fcs", "bytes": b"\x00\xff",
        "no_bytes": b"", "list": [1, [2]], "tuple": (1, "a"), 7: "seven",
        "size": torch.Size([2, 3]),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "numpy": np.arange(6, dtype=np.int64).reshape(2, 3),
        "fortran": np.asfortranarray([[1, 2], [3, 4]], dtype=np.float32),
        "mask": np.array([True, False]),
        "scalar": np.float64(0.25),
        "base": base, "row": base.reshape(3, 4)[1],
        "transposed": base.reshape(3, 4).t(),
        "one": torch.tensor(3, dtype=torch.int16),
        "empty": torch.empty(0, 5, dtype=torch.float64),
        "thin": base.reshape(12, 1).t(),
        "parameter": torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        **{str(t).removeprefix("torch."): torch.tensor([1, 0], dtype=t)
           for t in (torch.float16, torch.int8, torch.int32, torch.int64,
                     torch.uint8, torch.bool)},
    }


def graphbolt():
    import dgl.graphbolt
    indptr = torch.tensor([0, 2, 3, 5])
    indices = torch.tensor([1, 2, 0, 0, 1])
    make = dgl.graphbolt.fused_csc_sampling_graph
    torch.save(make(indptr, indices), FOLDER / "graphbolt_homogeneous.pt")
    torch.save(make(
        indptr.int(), indices.int(),
        node_type_offset=torch.tensor([0, 2, 3]),
        type_per_edge=torch.tensor([0, 0, 1, 0, 1], dtype=torch.uint8),
        node_type_to_id={"author": 0, "paper": 1},
        edge_type_to_id={"author:writes:author": 0, "paper:cites:author": 1},
        node_attributes={"age": torch.tensor([1., 2., 3.])},
        edge_attributes={"weight": torch.ones(5)}),
        FOLDER / "graphbolt_heterogeneous.pt")


def main():
    if sys.argv[1:] == ["graphbolt"]:
        graphbolt()
        return
    torch.save(values(), FOLDER / "values.pt")
    torch.save(values(), FOLDER / "values_protocol5.pt", pickle_protocol=5)
    torch.save(values(), FOLDER / "values_old.pth",
               _use_new_zipfile_serialization=False)
    np.savez_compressed(FOLDER / "arrays.npz",
                        edge_index=np.arange(2000).reshape(2, 1000),
                        node_feat=np.ones((3, 4), np.float16))
    torch.save({"path": pathlib.PurePosixPath("/tmp")},
               FOLDER / "foreign_class.pt")


if __name__ == "__main__":
    main()
