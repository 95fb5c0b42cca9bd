"""Converters that turn public data into folders that Hearth imports."""

try:
    import numpy as _  # noqa: F401
except ImportError as missing:
    raise ImportError("hearth.datasets needs numpy: pip install numpy") from missing
