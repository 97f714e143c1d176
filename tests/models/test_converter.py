"""Our GGUF against llama.cpp's own converter, byte for byte, its vocabulary step stubbed."""

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from hotfire.ref.models import gguf_file, load

VERSION = "0.3.36"
DTYPES = {"f32": "ALL_F32", "bf16": "MOSTLY_BF16", "q8_0": "MOSTLY_Q8_0"}
CONVERT = """
import sys
import gguf
from pathlib import Path
import conversion.qwen as qwen

for line in sys.stdin:
    folder, out, dtype, name = line.split()
    kind = getattr(qwen, name)
    kind.set_vocab = lambda self: None
    kind.no_mtp, kind.mtp_only = True, False
    kind(Path(folder), gguf.LlamaFileType[dtype], Path(out)).write()
"""


@pytest.fixture(scope="session")
def converter():
    """The folders of llama.cpp's converter and its gguf package, from a source distribution."""
    path = Path(__file__).parents[1] / "abi/subjects.py"
    spec = importlib.util.spec_from_file_location("subjects_of_abi", path)
    subjects = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subjects)
    name = "llama-cpp-python"
    subjects.sdist(name, VERSION, "/llama_cpp/")
    cache = subjects.CACHE / f"{name}=={VERSION}"
    folder = cache / "converter"
    if not folder.is_dir():
        archive = next(each for each in cache.glob("*.tar.gz"))
        partial = cache / f"partial-{os.getpid()}"
        with tarfile.open(archive) as tar:
            wanted = ("/llama.cpp/conversion/", "/llama.cpp/gguf-py/gguf/")
            members = [each for each in tar if any(word in each.name for word in wanted)]
            tar.extractall(partial, members, filter="data")
        partial.rename(folder)
    root = next(folder.glob("*/vendor/llama.cpp"))
    return [root, root / "gguf-py"]


@pytest.fixture(scope="session")
def both(converter, config, weights, kind, tmp_path_factory):
    """For each dtype, what llama.cpp's converter wrote and what we wrote."""
    folder = tmp_path_factory.mktemp(f"converted-{kind}")
    load.save_folder(folder / "model", config, weights)
    name = "Qwen3_5MoeTextModel" if config.n_experts else "Qwen3_5TextModel"
    jobs = [f"{folder / 'model'} {folder / each}.gguf {DTYPES[each]} {name}" for each in DTYPES]
    done = subprocess.run(
        [sys.executable, "-c", CONVERT],
        input="\n".join(jobs),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, converter))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for each in DTYPES:
        gguf_file.write(folder / f"ours-{each}.gguf", config, weights, each)
    return {each: (folder / f"{each}.gguf", folder / f"ours-{each}.gguf") for each in DTYPES}


@pytest.mark.subjects
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bytes_as_llama_cpp(both, dtype):
    """Every tensor: name, type, shape and content. In ssm_a the converter has what torch makes of
    exp, whose last bit depends on the machine (DECISIONS.md).
    """
    gguf = pytest.importorskip("gguf")
    want, got = (
        {each.name: each for each in gguf.GGUFReader(path).tensors} for path in both[dtype]
    )
    assert set(want) == set(got)
    for name, tensor in want.items():
        assert got[name].tensor_type == tensor.tensor_type, name
        assert got[name].shape.tolist() == tensor.shape.tolist(), name
        ours, theirs = got[name].data, tensor.data
        if name.endswith("ssm_a"):
            apart = ours.view(np.int32).astype(np.int64) - theirs.view(np.int32)
            assert np.abs(apart).max() <= 1
        else:
            assert ours.tobytes() == theirs.tobytes(), name
