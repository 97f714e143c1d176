"""Runs a module of this checkout, before it is installed: `from_source.py MODULE [WORD ...]`.

PYTHONPATH would do the same, but the build's isolated environment lives in it.
"""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
