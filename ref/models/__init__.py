"""Qwen3.5, dense and mixture of experts, in float64: what an engine's logits must be.

`config` reads the family's own config.json, `model` computes, `state` is what a sequence carries;
`safetensors` and `gguf_file` are the files, `probe` makes random models, `load` opens any of them.
"""
