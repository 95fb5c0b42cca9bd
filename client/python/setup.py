"""Makes the modules of the API before setuptools gathers the package."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))

from make_protos import make  # noqa: E402


class BuildWithProtos(build_py):
    def run(self) -> None:
        make()
        super().run()


setup(cmdclass={"build_py": BuildWithProtos})
