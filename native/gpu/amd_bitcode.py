"""Makes a folder of AMD device bitcode that knows gfx1100: `amd_bitcode.py DESTINATION`.

Debian's rocm-device-libs 5.2.3 holds no `oclc_isa_version_1100.bc`. That file says nothing but the
ISA's number, so it is made from that of gfx1030: 10300 becomes 11000.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = (
    Path("/opt/rocm/amdgcn/bitcode"),
    Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"),
    Path("/usr/lib/amdgcn/bitcode"),
)


def tool(name: str) -> str:
    """The LLVM tool of that name: version 15 is hipcc's, an older one cannot read its files."""
    for version in ("-15", "-16", "-17", "-18", "-19", ""):
        found = shutil.which(name + version)
        if found:
            return found
    sys.exit(f"{name} is not installed; Debian's package llvm-15 has it")


def main(destination: Path) -> None:
    """Copies the system's bitcode and adds what it lacks."""
    source = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if source is None:
        sys.exit(f"no AMD device bitcode in {', '.join(map(str, FOLDERS))}")
    shutil.copytree(source, destination, dirs_exist_ok=True)
    made = destination / "oclc_isa_version_1100.bc"
    if made.is_file():
        return
    older = str(destination / "oclc_isa_version_1030.bc")
    text = subprocess.run(
        [tool("llvm-dis"), older, "-o", "-"], capture_output=True, text=True, check=True
    ).stdout
    if text.count("10300") != 1:
        sys.exit(f"{older}: expected the number 10300 once")
    subprocess.run(
        [tool("llvm-as"), "-o", str(made)],
        input=text.replace("10300", "11000"),
        text=True,
        check=True,
    )


main(Path(sys.argv[1]))
