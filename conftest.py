"""Keeps test runs from importing a package folder a second time under its bare name."""

import os

# Small matrices are slower on several threads, and CI shares its cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

collect_ignore = ["abi", "crosstalk", "native", "props", "ref", "soak"]
