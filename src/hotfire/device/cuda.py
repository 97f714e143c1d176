"""CUDA's driver interface, through cuda-bindings."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from hotfire.device.runtime import Driver
from hotfire.errors import LibraryError


def driver() -> Driver:
    """The driver's functions.

    Raises:
        LibraryError: if the binding is not installed.
    """
    try:
        cuda: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise LibraryError(f"cuda: run `pip install cuda-bindings`: {error}") from error

    def launch(function: Any, grid: tuple[int, ...], stream: Any, pointers: list[int]) -> Any:
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        return cuda.cuLaunchKernel(function, *grid, stream, ctypes.addressof(table), 0)

    return Driver(
        functions={
            "stream_create": cuda.cuStreamCreate,
            "stream_synchronize": cuda.cuStreamSynchronize,
            "module_load": cuda.cuModuleLoadData,
            "module_function": cuda.cuModuleGetFunction,
            "module_unload": cuda.cuModuleUnload,
            "allocate": cuda.cuMemAlloc,
            "free": cuda.cuMemFree,
            "memory_info": cuda.cuMemGetInfo,
            "copy_to_device": cuda.cuMemcpyHtoD,
            "copy_to_host": cuda.cuMemcpyDtoH,
            "copy_on_device": cuda.cuMemcpyDtoDAsync,
            "fill": cuda.cuMemsetD8Async,
            "launch": launch,
            "event_create": cuda.cuEventCreate,
            "event_record": cuda.cuEventRecord,
            "event_elapsed": cuda.cuEventElapsedTime,
            "event_destroy": cuda.cuEventDestroy,
            "capture_begin": cuda.cuStreamBeginCapture,
            "capture_end": cuda.cuStreamEndCapture,
            "graph_instantiate": cuda.cuGraphInstantiate,
            "graph_launch": cuda.cuGraphLaunch,
            "graph_update": cuda.cuGraphExecUpdate,
            "graph_destroy": cuda.cuGraphDestroy,
            "graph_exec_destroy": cuda.cuGraphExecDestroy,
        },
        success=cuda.CUresult.CUDA_SUCCESS,
        words=lambda status: _words(cuda, status),
        start=lambda: _start(cuda),
        relaxed=cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
    )


def _words(cuda: Any, status: Any) -> str:
    known, text = cuda.cuGetErrorString(status)
    words = text.decode() if known == cuda.CUresult.CUDA_SUCCESS else ""
    return f"{status.name} ({words})" if words else str(status.name)


def _start(cuda: Any) -> str:
    """Makes the primary context of device 0 current, which other libraries share."""
    try:
        (status,) = cuda.cuInit(0)
    except Exception as error:  # the binding raises an error of its own where it finds no driver
        raise LibraryError(f"cuda: no driver: {error}") from error
    if status == cuda.CUresult.CUDA_SUCCESS:
        status, device = cuda.cuDeviceGet(0)
    if status == cuda.CUresult.CUDA_SUCCESS:
        status, context = cuda.cuDevicePrimaryCtxRetain(device)
    if status == cuda.CUresult.CUDA_SUCCESS:
        (status,) = cuda.cuCtxSetCurrent(context)
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise LibraryError(f"cuda: no device: {_words(cuda, status)}")
    _, name = cuda.cuDeviceGetName(128, device)
    return str(name.partition(b"\0")[0].decode())
