"""Providers that come with hotfire. `ggml` is the one to copy for a library of your own."""
