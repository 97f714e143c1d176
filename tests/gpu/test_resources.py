"""The build compares what kernels take of a GPU, and fails with the figure."""

import json
import re

import pytest

from hotfire.device import code_object, resources
from hotfire.errors import InputError

from .conftest import COMPILERS, ROOT, build, need_compiler, scratch

SPILLS = """    float held[400];
#pragma unroll
    for (int i = 0; i < 400; ++i)
        held[i] = row[i];
    for (int64_t j = 0; j < n_embd; ++j)
#pragma unroll
        for (int i = 0; i < 400; ++i)
            held[i] = fmaf(held[i], held[(i + 1) % 400], row[j]);
#pragma unroll
    for (int i = 0; i < 400; ++i)
        squares[0] += held[i];
"""
"""More live values than a thread has registers for."""


@pytest.mark.parametrize("target", sorted(COMPILERS))
def test_the_committed_manifest_holds(built, target):
    """Every kernel's figures are committed, within the limits, and what the compiler gives."""
    suffix = COMPILERS[target][1]
    objects = [code_object.read(path) for path in sorted(built(target).glob(f"*.{suffix}"))]
    got = resources.manifest_of(objects)
    want = json.loads((ROOT / f"native/gpu/manifests/{target}.json").read_text())
    assert set(want["kernels"]) == {
        path.stem for path in (ROOT / "native/gpu/kernels").glob("*.cpp")
    }
    assert resources.differences(want, got) == []


def with_spill(text):
    place = "    share_sums(squares, partial);\n"
    assert place in text, "the kernel has changed: name another line"
    return text.replace(place, SPILLS + place)


def with_shared(n_words):
    """Shared memory of that many words, all of it used."""
    return lambda text: text.replace("partial, MAX_WAVES)", f"partial, {n_words})").replace(
        "    const float scale", f"    partial[n_embd % {n_words}] = mean;\n    const float scale"
    )


@pytest.mark.parametrize("target", sorted(COMPILERS))
def test_a_spill_fails_the_build_with_the_figure(tmp_path, target):
    """Done when: a kernel that spills is not built."""
    need_compiler(target)
    done = build(tmp_path / "build", target, scratch(tmp_path, with_spill))
    words = done.stdout + done.stderr
    assert done.returncode != 0
    figure = "stack_bytes" if target == "sm_90" else "vgpr_spills"
    assert re.search(rf"{target}: rms_norm: {figure} is [1-9]\d*, the limit is 0", words), words


@pytest.mark.parametrize("target", ["gfx906", "sm_90"])
def test_too_much_shared_memory_fails_the_build_with_the_figure(tmp_path, target):
    """Here the compiler itself refuses; either way the figure is said."""
    need_compiler(target)
    done = build(tmp_path / "build", target, scratch(tmp_path, with_shared(20000)))
    words = done.stdout + done.stderr
    assert done.returncode != 0
    assert "80000" in words or "0x13880" in words, words


def test_more_shared_memory_than_the_manifest_says_fails_the_build(tmp_path):
    """A change within the limits is drift, like a changed struct."""
    need_compiler("gfx906")
    done = build(tmp_path / "build", "gfx906", scratch(tmp_path, with_shared(1000)))
    assert done.returncode != 0
    assert "rms_norm: lds_bytes is 4000, the manifest says 32" in done.stdout + done.stderr


MANIFEST = {
    "target": "gfx906",
    "compiler": "clang 15.0.6",
    "kernels": {
        "k": {"vgprs": 8, "lds_bytes": 32, "scratch_bytes": 0, "vgpr_spills": 0, "sgpr_spills": 0}
    },
}


def changed(compiler="clang 15.0.6", **figures):
    """The manifest above with other figures."""
    return {
        **MANIFEST,
        "compiler": compiler,
        "kernels": {"k": {**MANIFEST["kernels"]["k"], **figures}},
    }


def test_equal_figures_differ_in_nothing():
    """The healthy case."""
    assert resources.differences(MANIFEST, changed()) == []


def test_the_same_compiler_must_give_the_same_figures():
    """Every figure counts."""
    assert resources.differences(MANIFEST, changed(vgprs=9)) == [
        "k: vgprs is 9, the manifest says 8"
    ]


def test_another_compiler_is_held_to_the_limits_alone():
    """It may allot registers as it likes, but not spill."""
    assert resources.differences(MANIFEST, changed("clang 17.0.0", vgprs=9)) == []
    assert resources.differences(MANIFEST, changed("clang 17.0.0", vgpr_spills=3)) == [
        "k: vgpr_spills is 3, the limit is 0"
    ]


def test_a_kernel_that_is_not_in_the_manifest_is_drift():
    """And one that is there alone."""
    assert resources.differences(MANIFEST, {**MANIFEST, "kernels": {}}) == [
        "k: in the manifest alone"
    ]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__\x02"])
def test_a_damaged_code_object_is_one_clear_error(tmp_path, data):
    """Bad input never raises what pyelftools happens to meet."""
    path = tmp_path / "damaged.co"
    path.write_bytes(data)
    with pytest.raises(InputError):
        code_object.read(path)
