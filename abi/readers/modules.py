"""Imports one module of a package without running the package's own `__init__`.

A binding's low-level file seldom needs its package, whose `__init__` pulls in everything else
and often loads the library. If the module does need it, it is imported the usual way.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(name: str) -> ModuleType:
    """The module of a file path or of a dotted name, imported as lightly as it allows."""
    sys.path.append(str(Path.cwd()))
    if name.endswith((".py", ".so")) or "/" in name:
        file = Path(name).resolve()
        folders, dotted = _package_of(file)
        sys.path[:0] = folders
        if "." not in dotted:
            return _from_file(file, dotted)
    else:
        dotted = name
    parents = dotted.split(".")[:-1]
    stood_in = [parent for parent in _prefixes(parents) if _stand_in(parent)]
    try:
        return importlib.import_module(dotted)
    except (ImportError, AttributeError):
        if not stood_in:
            raise
        top = parents[0]
        for loaded in [key for key in sys.modules if key == top or key.startswith(top + ".")]:
            del sys.modules[loaded]
        return importlib.import_module(dotted)


def _from_file(file: Path, name: str) -> ModuleType:
    """That very file: an import could find an extension, or a module of Python's own."""
    taken = name in sys.modules or name in sys.stdlib_module_names
    spec = importlib.util.spec_from_file_location(f"mirror_{name}" if taken else name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, got {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _package_of(file: Path) -> tuple[list[str], str]:
    """The folder to search, and the dotted name of a file in it, inside its packages."""
    if not file.is_file():
        raise ImportError(f"no file {file}")
    # An extension module's file name has the interpreter's tag behind the module's name.
    parts = [file.name.partition(".")[0]]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    return [str(folder)], ".".join(parts)


def _prefixes(parts: list[str]) -> list[str]:
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _stand_in(package: str) -> bool:
    """Enters an empty package that only knows where its modules lie."""
    if package in sys.modules:
        return False
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return False
    module = ModuleType(package)
    module.__path__ = list(spec.submodule_search_locations)
    module.__spec__ = importlib.machinery.ModuleSpec(package, None, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    sys.modules[package] = module
    return True
