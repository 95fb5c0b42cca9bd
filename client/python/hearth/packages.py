"""PyTorch and the packages around it, imported at their first use."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def torch() -> Any:
    """PyTorch."""
    return _imported("torch")


def geometric() -> Any:
    """PyTorch Geometric."""
    torch()
    module = _imported("torch_geometric")
    _imported("torch_geometric.data")
    return module


def graphbolt() -> Any:
    """GraphBolt of DGL."""
    torch()
    return _imported("dgl.graphbolt")


def numpy() -> Any:
    """numpy."""
    return _imported("numpy")


def _imported(name: str) -> Any:
    # import_module would take the locks of imports, each time.
    module = sys.modules.get(name)
    if module is not None:
        return module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"this needs {package}: pip install {package}") from error
