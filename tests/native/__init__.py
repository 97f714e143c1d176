"""Tests of the native library itself, beyond what the properties cover."""
