"""The library with mutants under sanitizers, for `ci/sanitized` and the tests.

`python ci/sanitizers.py build KIND` brings build/sanitized-KIND up to date and prints the library's
path; it wants `make build` before it. `python ci/sanitizers.py run KIND COMMAND...` runs a command
that may load it. KIND is `address`, which is undefined behaviour too, or `thread`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
from pathlib import Path

from hotfire import lib
from hotfire.abi import layout
from hotfire.abi.files import write
from hotfire.abi.manifest import Manifest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent

# `undefined` leaves out floats that no integer holds: NaN must not become a code.
FLAGS = {
    "address": "-O1 -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all",
    "thread": "-O1 -fsanitize=thread",
}
RUNTIMES = {"address": ("asan", "ubsan"), "thread": ("tsan",)}

# A report ends the process that runs kernels, as a crash does: it comes with the case. The suite's
# own handlers of signals stay. Undefined behaviour has no summary unless it is asked for.
OPTIONS = (
    "abort_on_error=1:halt_on_error=1:handle_segv=0:handle_sigbus=0:handle_abort=0"
    ":allow_user_segv_handler=1:detect_leaks=0:detect_odr_violation=0"
    ":verify_asan_link_order=0:die_after_fork=0:print_summary=1"
)

NO_RANDOM_ADDRESSES = 0x0040000
"""A flag of personality(2): ThreadSanitizer wants its addresses free."""


def build(kind: str) -> Path:
    """Builds the library; the compiler's words go to stderr."""
    folder = ROOT / f"build/sanitized-{kind}"
    table = folder / "hotfire_layout.inc"
    manifest = lib.path(lib.CORE).with_name("hotfire.manifest.json")
    write(table, layout.initialisers(Manifest.read(manifest)))
    configure = ["-S", ROOT / "native", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DHOTFIRE_LAYOUT_INC={table}"]
    configure += [f"-DCMAKE_CXX_FLAGS={FLAGS[kind]}"]
    for words in (configure, ["--build", folder, "--target", "hotfire_mutants"]):
        subprocess.run([TOOLS / "cmake", *words], stdout=sys.stderr, check=True)
    return folder / lib.MUTANTS


def environment(kind: str, more: str = "") -> dict[str, str]:
    """What a process needs that loads such a library; `more` is added to the options."""
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in (*RUNTIMES[kind], "stdc++")
    ]
    options = dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"), OPTIONS + more)
    # The threads of numpy's products are none of the library's.
    return options | {"LD_PRELOAD": " ".join(libraries), "OPENBLAS_NUM_THREADS": "1"}


def keep_addresses_free() -> bool:
    """For what this process becomes by exec; whether the system allows it."""
    return int(ctypes.CDLL(None).personality(NO_RANDOM_ADDRESSES)) != -1


def main() -> None:
    """Builds, or becomes the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["build", "run"])
    parser.add_argument("kind", choices=FLAGS)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    if chosen.what == "build":
        print(build(chosen.kind))
        return
    if not keep_addresses_free() and chosen.kind == "thread":
        sys.exit("ThreadSanitizer needs addresses that are not random, which this system refuses")
    words = chosen.command
    os.execvpe(words[0], words, os.environ | environment(chosen.kind))  # noqa: S606


if __name__ == "__main__":
    main()
