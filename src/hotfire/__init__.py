"""Proves that native LLM engines are right before anyone trusts them."""

__version__ = "0.1.0"
