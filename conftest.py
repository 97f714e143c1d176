"""Keeps test runs from importing a package folder a second time under its bare name."""

collect_ignore = ["abi", "crosstalk", "native", "props", "ref", "soak"]
