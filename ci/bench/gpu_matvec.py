"""Times matvec_bf16 on a GPU beside torch's linear, as fractions of the measured copy bandwidth.

    python ci/bench/gpu_matvec.py cuda CUBIN... [--rows 4096] [--cols 12288]

Each call is timed alone by events, with the L2 cache overwritten before it; figures are medians.
Prints one JSON object. The copy counts bytes read and bytes written, a product its weights, its
vector and its result, once each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotfire.device import code_object
from hotfire.device.runtime import Device, unavailable

N_TIMED = 200
N_WARM = 20
FLUSH_BYTES = 256 << 20
COPY_BYTES = 1 << 30


def median_ms(device: Device, work: Callable[[], None], flush: Callable[[], None]) -> float:
    """The median time of one call of `work`, each after a flush."""
    times: list[float] = []
    for i in range(N_WARM + N_TIMED):
        flush()
        start = device.record()
        work()
        end = device.record()
        device.synchronize()
        elapsed = device.elapsed_ms(start, end)
        if i >= N_WARM:
            times.append(elapsed)
    return statistics.median(times)


def torch_median_ms(torch: Any, work: Callable[[], Any], scratch: Any) -> float:
    """The same for work on torch's stream."""
    times: list[float] = []
    for i in range(N_WARM + N_TIMED):
        scratch.fill_(i % 100)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if i >= N_WARM:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def copy_bytes_per_ms(device: Device) -> float:
    """Bytes read plus bytes written by a large copy within the device, a millisecond."""
    source, target = device.allocate(COPY_BYTES), device.allocate(COPY_BYTES)
    device.fill(source, 1, COPY_BYTES)
    ms = median_ms(device, lambda: device.copy(target, source, COPY_BYTES), lambda: None)
    device.free(source)
    device.free(target)
    return 2 * COPY_BYTES / ms


def kernel_ms(
    device: Device, path: Path, operands: list[int], rows: int, cols: int, scratch: int
) -> float:
    """The median time of a cubin's matvec_bf16."""
    code = code_object.read(path)
    launch = code.launches["matvec_bf16"]
    module = device.load(code.image)
    function = device.function(module, code_object.kernel_symbol("matvec_bf16"))
    arguments = [struct.pack("<Q", each) for each in operands]
    arguments += [struct.pack("<q", size) for size in (rows, cols)]
    return median_ms(
        device,
        lambda: device.launch(function, launch.n_blocks(rows), launch.block_size, arguments),
        lambda: device.fill(scratch, 0, FLUSH_BYTES),
    )


def main() -> None:
    """Measures and prints; 3 where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["cuda", "hip"])
    parser.add_argument("objects", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--cols", type=int, default=12288)
    options = parser.parse_args()
    reason = unavailable(options.kind)
    if reason:
        print(f"hotfire: {reason}", file=sys.stderr)
        sys.exit(3)
    import torch

    rows, cols = options.rows, options.cols
    torch.manual_seed(0)
    weight = torch.randn(rows, cols, device="cuda").bfloat16()
    x = torch.randn(cols, device="cuda")
    y = torch.full((rows,), torch.nan, device="cuda")
    short = x.bfloat16()[None]
    scratch = torch.zeros(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()

    device = Device(options.kind)
    copied = copy_bytes_per_ms(device)
    moved = 2 * rows * cols + 4 * cols + 4 * rows
    want = weight.double() @ x.double()
    size = weight.double().abs() @ x.double().abs()
    found: dict[str, Any] = {"device": device.name, "rows": rows, "cols": cols}
    found["copy_tb_per_s"] = copied / 1e9
    for path in options.objects:
        y.fill_(torch.nan)
        torch.cuda.synchronize()
        operands = [weight.data_ptr(), x.data_ptr(), y.data_ptr()]
        ms = kernel_ms(device, path, operands, rows, cols, scratch.data_ptr())
        error = ((y.double() - want).abs() / size).max().item()
        found[path.stem] = {"us": ms * 1e3, "of_copy": moved / ms / copied, "error": error}
    ms = torch_median_ms(torch, lambda: torch.nn.functional.linear(short, weight), scratch)
    found["torch_linear"] = {"us": ms * 1e3, "of_copy": moved / ms / copied}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
