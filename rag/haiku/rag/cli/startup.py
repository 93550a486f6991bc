"""Keeps pandas out of this process.

pyarrow imports pandas, when it is installed, while its dataset module loads; docling installs it;
no command uses it. It was most of the time that `import lance` takes, and a third of a search's.
For processes of our own only: a program that uses the library may well want pandas.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Absent:
    """Finds pandas, so that looking for it succeeds, and fails to import it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The import system's question; see `importlib.abc.MetaPathFinder`."""
        loader: Any = self
        return ModuleSpec(name, loader) if name == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Refuse."""
        raise ImportError(f"{spec.name} is not used in this process")

    def exec_module(self, module: ModuleType) -> None:
        """Never reached; the import system asks that it exists."""


def without_pandas() -> None:
    """From now on `import pandas` raises ImportError, and pyarrow does without it."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Absent())
