"""Layouts of a C interface, and whether a mirror still matches them."""
