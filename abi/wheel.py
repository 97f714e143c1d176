"""A wheel's shared libraries against the promise in its name, and against this host."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from hotfire.abi import target
from hotfire.abi.checks import versions
from hotfire.abi.readers import elf
from hotfire.errors import InputError
from hotfire.verdict import Finding, Status, Verdict, judge

MAX_LIBRARY_BYTES = 1 << 30


def check(path: Path, reproduce: str = "") -> Verdict:
    """Whether each library in a wheel loads where its tag says, and on this host.

    Raises:
        InputError: if it is no wheel, or a library in it is damaged.
    """
    if not path.is_file():
        raise InputError(f"expected a wheel, found no file {path}")
    promised, host = versions.promised_glibc(path.name), versions.host_glibc()
    findings: list[Finding] = []
    count = 0
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            for item in archive.infolist():
                if ".so" not in Path(item.filename).name or item.file_size > MAX_LIBRARY_BYTES:
                    continue
                with archive.open(item) as stream:
                    if stream.read(4) != b"\x7fELF":
                        continue
                library = elf.read(Path(archive.extract(item, folder)))
                count += 1
                name = item.filename
                if promised:
                    tag = f"the tag of {path.name}"
                    findings += versions.check_glibc(library, name, promised, tag)
                if host and library.target == target.host():
                    findings += versions.check_glibc(library, name, host, "this host")
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: expected a wheel, got a damaged archive: {error}") from error
    status = judge(findings) if count else Status.SKIPPED
    shown = {"tag": promised, "host": host}
    return Verdict(
        name=f"abi check {path.name}",
        status=status,
        reason="" if count else "the wheel has no ELF library",
        scope={f"glibc_{k}": f"{v[0]}.{v[1]}" if v else "none" for k, v in shown.items()},
        reproduce=reproduce,
        findings=tuple(findings),
        measurements={"n_libraries": count},
    )
