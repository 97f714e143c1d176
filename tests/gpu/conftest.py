"""What the GPU tests share: the checkout, a build of native/gpu, a device or a reason to skip."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire.device.runtime import KINDS, unavailable

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = {
    "gfx906": ("hipcc", "co"),
    "gfx1100": ("hipcc", "co"),
    "sm_90": ("nvcc", "cubin"),
}


def need_compiler(target):
    """Skips where the target's compiler is not installed."""
    name = COMPILERS[target][0]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed, so nothing compiles for {target}")


def build(folder, target, native=ROOT / "native"):
    """Configures native/gpu of a tree and builds one target; the finished process."""
    configured = subprocess.run(
        ["cmake", "-S", native / "gpu", "-B", folder, f"-DPython_EXECUTABLE={sys.executable}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert configured.returncode == 0, configured.stderr
    return subprocess.run(
        ["cmake", "--build", folder, "--target", f"hotfire_gpu_{target}"],
        capture_output=True,
        text=True,
        check=False,
    )


def scratch(folder, change):
    """A copy of native/ and of what the build calls, with one GPU kernel, changed."""
    for part in ("native", "ref", "abi", "src"):
        shutil.copytree(
            ROOT / part,
            folder / part,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "_lib"),
        )
    for kernel in (folder / "native/gpu/kernels").glob("*.cpp"):
        if kernel.stem == "rms_norm":
            kernel.write_text(change(kernel.read_text()))
        else:
            kernel.unlink()
    return folder / "native"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """target -> the folder with its code objects, built once."""
    folders = {}

    def folder(target):
        need_compiler(target)
        if target not in folders:
            folders[target] = tmp_path_factory.mktemp(target)
            done = build(folders[target], target)
            assert done.returncode == 0, done.stdout + done.stderr
        return folders[target]

    return folder


@pytest.fixture(scope="session", params=KINDS)
def kind(request):
    """Each kind of device that is here."""
    reason = unavailable(request.param)
    if reason:
        pytest.skip(reason)
    return request.param
