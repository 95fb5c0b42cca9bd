"""Loads a model that Hearth exported into PyG, strictly, and computes its logits.

    pyg_load.py --model-dir D --data NUMPY_FOLDER --nodes 0:1000 --output logits.npy
                [--compare hearth_logits.npy --tolerance 1e-4]

D holds `model.safetensors` and `config.json`; pyg_models.py lists the tensors.
Logits are of the full graph (every neighbor, no dropout). With --compare, the
exit status is 1 if a logit differs from the given one by more than the tolerance.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Mapping, NamedTuple, Optional

import numpy as np
import torch

from numpy_folder import read_numpy_folder
from pyg_models import Model, ModelConfig
from pyg_relational_models import RelationalConfig, new_model

FORMAT = "hearth-model-1"

# BF16 is absent from numpy: its bits are the upper half of a float32's.
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


class Comparison(NamedTuple):
    logits: np.ndarray  # float32 (len(nodes), out_channels)
    max_difference: Optional[float]  # to the expected logits, where these were given


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads a whole file: a length (u64), a JSON header, then the tensors' bytes."""
    content = path.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    if not 8 <= header_end <= len(content):
        raise ValueError(f"{path}: the header ends at {header_end} of {len(content)} bytes")
    header = json.loads(content[8:header_end])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (header_end + offset for offset in entry["data_offsets"])
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        if end > len(content) or end - begin != math.prod(entry["shape"]) * dtype.itemsize:
            raise ValueError(f"{path}: the bytes of {name} do not fit its shape {entry['shape']}")
        values = np.frombuffer(content[begin:end], dtype)
        if entry["dtype"] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def read_config(path: Path) -> ModelConfig | RelationalConfig:
    """Reads `config.json`; a missing or unknown field is an error."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    if fields.pop("format", None) != FORMAT:
        raise ValueError(f"{path}: the format is not {FORMAT}")
    kind = RelationalConfig if "node_types" in fields else ModelConfig
    wanted = {field.name for field in dataclasses.fields(kind)}
    if set(fields) != wanted:
        raise ValueError(f"{path}: missing or unknown fields: {sorted(wanted ^ set(fields))}")
    return kind(**fields)


def load_model(model_dir: Path) -> torch.nn.Module:
    """The exported model, in eval mode; raises unless names and shapes all match."""
    config = read_config(model_dir / "config.json")
    model = Model(config) if isinstance(config, ModelConfig) else new_model(config)
    tensors = read_safetensors(model_dir / "model.safetensors")
    state = {name: torch.from_numpy(np.array(values)) for name, values in tensors.items()}
    model.load_state_dict(state, strict=True)
    return model.eval()


@torch.no_grad()
def full_graph_logits(model: Model, edge_index: np.ndarray, features: np.ndarray,
                      nodes: np.ndarray) -> np.ndarray:
    """Logits with all neighbors. Computed for every node: GCN needs whole degrees."""
    x = torch.from_numpy(np.array(features, dtype=np.float32))
    return model(x, torch.from_numpy(edge_index))[torch.from_numpy(nodes)].numpy()


def load_and_compare(model_dir: Path, arrays: Mapping[str, np.ndarray]) -> Comparison:
    """Loads an export and compares its logits with those expected.

    `arrays` holds `edge_index` (2, E), `node_feat` (N, in_channels), `nodes`
    (the rows wanted) and, to compare, `logits` (len(nodes), out_channels).
    """
    logits = full_graph_logits(load_model(model_dir), arrays["edge_index"], arrays["node_feat"],
                               arrays["nodes"])
    expected = arrays.get("logits")
    if expected is None:
        return Comparison(logits, None)
    if expected.shape != logits.shape:
        raise ValueError(f"expected logits have shape {expected.shape}, PyG's {logits.shape}")
    difference = np.abs(logits - expected).max(initial=0.0)  # NaN if either has one
    return Comparison(logits, float(difference))


def parse_nodes(text: str) -> np.ndarray:
    begin, _, end = text.partition(":")
    return np.arange(int(begin), int(end), dtype=np.int64)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="numpy folder")
    parser.add_argument("--nodes", type=parse_nodes, required=True, help="BEGIN:END")
    parser.add_argument("--output", type=Path, required=True, help="where the logits go (.npy)")
    parser.add_argument("--compare", type=Path, help="logits of the same nodes (.npy)")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    torch.set_num_threads(options.threads)
    data = read_numpy_folder(options.data)
    arrays = {"edge_index": data.edge_index, "node_feat": data.features, "nodes": options.nodes}
    if options.compare is not None:
        arrays["logits"] = np.load(options.compare)
    result = load_and_compare(options.model_dir, arrays)
    np.save(options.output, result.logits)
    print(json.dumps({"nodes": len(options.nodes), "max_difference": result.max_difference}))
    if result.max_difference is None or result.max_difference <= options.tolerance:
        return 0
    print(f"logits differ by up to {result.max_difference}, more than {options.tolerance}",
          file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
