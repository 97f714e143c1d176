"""HIP, through hip-python.

Never run on an AMD device yet: what is tested here is that it loads, converts its arguments and
says that there is no device.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from hotfire.device.runtime import Driver
from hotfire.errors import LibraryError


def driver() -> Driver:
    """The runtime's functions.

    Raises:
        LibraryError: if the binding or HIP itself is not installed.
    """
    try:
        hip: Any = import_module("hip").hip
    except (ImportError, RuntimeError) as error:
        raise LibraryError(f"hip: run `pip install hip-python`: {error}") from error

    def launch(function: Any, grid: tuple[int, ...], stream: Any, pointers: list[int]) -> Any:
        return hip.hipModuleLaunchKernel(function, *grid, stream, pointers, None)

    def update(graph: Any, recorded: Any) -> Any:
        culprit = ctypes.create_string_buffer(8)
        return hip.hipGraphExecUpdate(graph, recorded, culprit)

    return Driver(
        functions={
            "stream_create": hip.hipStreamCreateWithFlags,
            "stream_synchronize": hip.hipStreamSynchronize,
            "module_load": hip.hipModuleLoadData,
            "module_function": hip.hipModuleGetFunction,
            "module_unload": hip.hipModuleUnload,
            "allocate": hip.hipMalloc,
            "free": hip.hipFree,
            "memory_info": hip.hipMemGetInfo,
            "copy_to_device": hip.hipMemcpyHtoD,
            "copy_to_host": hip.hipMemcpyDtoH,
            "copy_on_device": hip.hipMemcpyDtoDAsync,
            "fill": hip.hipMemsetD8Async,
            "launch": launch,
            "event_create": hip.hipEventCreateWithFlags,
            "event_record": hip.hipEventRecord,
            "event_elapsed": hip.hipEventElapsedTime,
            "event_destroy": hip.hipEventDestroy,
            "capture_begin": hip.hipStreamBeginCapture,
            "capture_end": hip.hipStreamEndCapture,
            "graph_instantiate": hip.hipGraphInstantiateWithFlags,
            "graph_launch": hip.hipGraphLaunch,
            "graph_update": update,
            "graph_destroy": hip.hipGraphDestroy,
            "graph_exec_destroy": hip.hipGraphExecDestroy,
        },
        success=hip.hipError_t.hipSuccess,
        words=lambda status: str(status.name),
        start=lambda: _start(hip),
        relaxed=hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed,
    )


def _start(hip: Any) -> str:
    """Makes device 0 current."""
    try:
        status, count = hip.hipGetDeviceCount()
    except Exception as error:  # the binding loads the library at the first call
        raise LibraryError(f"hip: no runtime: {error}") from error
    if status == hip.hipError_t.hipSuccess and count:
        (status,) = hip.hipSetDevice(0)
    if status != hip.hipError_t.hipSuccess or not count:
        raise LibraryError(f"hip: no device: {status.name}")
    _, name = hip.hipDeviceGetName(128, 0)
    return str(name.decode() if isinstance(name, bytes) else name).partition("\0")[0]
