"""safetensors files: an 8-byte length, a JSON header, the tensors' bytes.

Format: https://huggingface.co/docs/safetensors. Tensors must follow one another without gaps or
overlaps and end with the file. Bytes are mapped and never copied before they are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.models.tensors import Tensor, n_bytes

DTYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
HEADER_MAX = 100_000_000
RANK_MAX = 8
INDEX = "model.safetensors.index.json"


def read(path: Path) -> dict[str, Tensor]:
    """Tensors by name; those of other dtypes are left out.

    Raises:
        InputError: if the file is truncated, or its header does not describe it.
    """
    size, begin, header = _header(path)
    data = np.memmap(path, dtype=np.uint8, mode="r")
    found: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, first, end = _entry(path, name, entry)
        if not 0 <= first <= end <= size - begin:
            raise InputError(
                f"{path}: tensor {name} lies at {first}..{end} of {size - begin} bytes of data; "
                "the file is truncated or damaged"
            )
        spans.append((first, end, name))
        if dtype in DTYPES:
            stored = DTYPES[dtype]
            if n_bytes(stored, shape) != end - first:
                raise InputError(
                    f"{path}: tensor {name} takes {end - first} bytes; {dtype} {list(shape)} takes "
                    f"{n_bytes(stored, shape)}"
                )
            found[name] = Tensor(stored, shape, data[begin + first : begin + end])
    _check_spans(path, spans, size - begin)
    return found


def _header(path: Path) -> tuple[int, int, dict[str, Any]]:
    """File size, where the data begins, the parsed header."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(HEADER_MAX, size - 8):
                raise InputError(
                    f"{path}: header of {length} bytes in a file of {size}; it is truncated or no "
                    "safetensors file"
                )
            text = file.read(length)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    try:
        header = json.loads(text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: the header is no JSON object")
    return size, 8 + length, header


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _entry(path: Path, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63

    if isinstance(entry, dict):
        dtype, shape = entry.get("dtype"), entry.get("shape")
        offsets = entry.get("data_offsets")
        if (
            isinstance(dtype, str)
            and isinstance(shape, list)
            and len(shape) <= RANK_MAX
            and all(map(whole, shape))
            and isinstance(offsets, list)
            and len(offsets) == 2
            and all(map(whole, offsets))
        ):
            return dtype, tuple(shape), offsets[0], offsets[1]
    raise InputError(
        f"{path}: tensor {name!r}: expected dtype, a shape of at most {RANK_MAX} sizes and two "
        "data_offsets"
    )


def _check_spans(path: Path, spans: list[tuple[int, int, str]], size: int) -> None:
    at = 0
    for first, end, name in sorted(spans):
        if first != at:
            kind = "overlaps the tensor before it" if first < at else "leaves a gap"
            raise InputError(f"{path}: tensor {name} begins at {first}, expected {at}: it {kind}")
        at = end
    if at != size:
        raise InputError(f"{path}: tensors end at {at} of {size} bytes; the file is damaged")


def read_folder(folder: Path) -> dict[str, Tensor]:
    """Tensors of a checkpoint: `model.safetensors`, or the shards that its index names.

    Raises:
        InputError: if there is neither, or a shard lacks what the index promises.
    """
    index = folder / INDEX
    if not index.exists():
        return read(folder / "model.safetensors")
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted({str(shard) for shard in shards.values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index} has no usable weight_map: {error}") from None
    found: dict[str, Tensor] = {}
    for shard in names:
        if Path(shard).name != shard:
            raise InputError(f"{index}: {shard!r} is no plain file name")
        found |= read(folder / shard)
    missing = sorted(set(shards) - set(found))
    if missing:
        raise InputError(f"{index} promises {missing[0]}, which no shard has")
    return found


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors of the dtypes f32, f16 and bf16.

    Raises:
        InputError: for another dtype.
    """
    codes = {stored: code for code, stored in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in codes:
            raise InputError(f"safetensors has no dtype {tensor.dtype}; write GGUF instead")
        end = at + len(tensor.data)
        header[name] = {
            "dtype": codes[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.data.tobytes())
