"""Makes fixtures/: small datasets in the formats of other projects, with their readers' answers.

    VENV/bin/python tests/importers/make_fixtures.py [NAME...]

NAME is one of graphbolt, ogb, igb, diskgnn, ginex; without one all are made. This is
not part of the tests: it needs the tools that wrote the formats, in a scratch
environment of Python 3.11,

    pip install torch==2.1.2 dgl==2.1.0 ogb==1.3.6 numpy==1.26.4 pandas==2.2.3 \\
        scipy==1.11.4 torchdata==0.7.1 'pydantic<2.8' 'setuptools<70' pyyaml

What each file holds, and which of them a tool wrote, is in README.md.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent / "fixtures"
MODULES = ("graphbolt", "ogb", "igb", "diskgnn", "ginex")
MAX_FOLDER_BYTES = 128 << 10


def main() -> int:
    names = sys.argv[1:] or MODULES
    unknown = set(names) - set(MODULES)
    if unknown:
        print(f"make_fixtures: unknown: {', '.join(sorted(unknown))}; known: {MODULES}",
              file=sys.stderr)
        return 2
    for name in names:
        importlib.import_module(f"{name}_fixtures").make_all(ROOT)
    for folder in sorted(ROOT.iterdir()):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{folder.name}: {size:,} bytes")
        if size > MAX_FOLDER_BYTES:
            print(f"make_fixtures: {folder} is too large to commit", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
