"""safetensors and GGUF: round trips, the packages' own readers, hostile files."""

import json
import struct
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotfire.errors import InputError
from hotfire.ref.models import container, gguf_file, load, probe, safetensors
from hotfire.ref.models.model import Model
from hotfire.ref.models.tensors import DTYPES, encode

gguf = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def folder(config, weights, tmp_path_factory):
    made = tmp_path_factory.mktemp("checkpoint")
    load.save_folder(made, config, weights)
    return made


@pytest.fixture(scope="module")
def gguf_path(config, weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    gguf_file.write(path, config, weights, "f32")
    return path


def test_safetensors_round_trip(folder, config, weights):
    """Our writer's file, read by us and by the package."""
    package = pytest.importorskip("safetensors.numpy")
    found, stored = load.load(str(folder))
    assert found == config
    theirs = package.load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        full = name if name == "lm_head.weight" else f"model.{name}"
        assert (stored[name].values() == tensor.values()).all()
        assert (theirs[full] == tensor.values()).all()


def test_bf16_and_f16_agree_with_torch(tmp_path):
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("safetensors.torch")
    x = torch.randn(5, 7)
    package.save_file({"a": x.bfloat16(), "b": x.half()}, tmp_path / "x.safetensors")
    found = safetensors.read(tmp_path / "x.safetensors")
    assert (found["a"].values() == x.bfloat16().double().numpy()).all()
    assert (found["b"].values() == x.half().double().numpy()).all()
    assert (encode(x.numpy(), "bf16").values() == x.bfloat16().double().numpy()).all()


def test_shards(folder, tmp_path, config):
    """A checkpoint in two files, with an index."""
    whole = safetensors.read(folder / "model.safetensors")
    names = sorted(whole)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, own in halves.items():
        safetensors.write(tmp_path / shard, {name: whole[name] for name in own})
    index = {"weight_map": {name: shard for shard, own in halves.items() for name in own}}
    (tmp_path / safetensors.INDEX).write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    assert len(load.load(str(tmp_path))[1]) == len(whole)
    (tmp_path / safetensors.INDEX).write_text(json.dumps({"weight_map": {"x": "../a"}}))
    with pytest.raises(InputError, match="plain file name"):
        load.load(str(tmp_path))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gguf_round_trip(config, weights, tmp_path, dtype):
    """Configuration and weights survive; quantised tensors decode as gguf's own code does."""
    path = tmp_path / "model.gguf"
    gguf_file.write(path, config, weights, dtype)
    found, stored, whole = gguf_file.read(path)
    assert asdict(found) == asdict(config)
    for tensor in gguf.GGUFReader(path).tensors:
        want = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert (whole.tensors[tensor.name].values() == want).all()
    kept = [name for name, tensor in weights.items() if len(tensor.shape) == 1]
    for name in kept:  # vectors stay f32; A_log goes through exp and log
        assert stored[name].values() == pytest.approx(weights[name].values(), abs=1e-6)


def test_gguf_is_the_same_model(gguf_path, model, tokens):
    """The permutation of value heads and the norms' 1 are undone: the logits agree."""
    config, weights, _ = gguf_file.read(gguf_path)
    got = Model(config, weights, "gguf").forward(tokens[:40]).logits
    assert np.abs(got - model.forward(tokens[:40]).logits).max() < 1e-5


def test_value_heads_are_tiled():
    """Two key heads with two value heads each: v0 v1 v2 v3 is stored as v0 v2 v1 v3."""
    config = probe.config({"n_key_heads": 2, "n_value_heads": 4})
    values = np.arange(4.0)
    [(name, stored)] = gguf_file.to_gguf("layers.0.linear_attn.dt_bias", values, config)
    assert name == "blk.0.ssm_dt.bias"
    assert stored.tolist() == [0, 2, 1, 3]
    back = gguf_file.from_gguf("layers.0.linear_attn.dt_bias", [stored], config)
    assert back.tolist() == values.tolist()


def test_gguf_cannot_say_two_head_dims(config, weights, tmp_path):
    with pytest.raises(InputError, match="key_dim"):
        gguf_file.write(tmp_path / "x.gguf", replace(config, key_dim=8), weights, "f32")


def _header(entries, data=b""):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b"\xff" * 8, "header of"),
        (struct.pack("<Q", 2**63) + b"{}", "header of"),
        (struct.pack("<Q", 4) + b"abcd", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "no JSON object"),
        (struct.pack("<Q", 200000) + b"[" * 200000, "not JSON"),
        (_header({"a": ENTRY}, b"\0" * 7), "truncated"),
        (_header({"a": ENTRY}, b"\0" * 9), "end at 8 of 9"),
        (_header({"a": ENTRY, "b": ENTRY}, b"\0" * 8), "overlaps"),
        (_header({"a": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12), "gap"),
        (_header({"a": {**ENTRY, "shape": [3]}}, b"\0" * 8), "takes 8 bytes"),
        (_header({"a": {**ENTRY, "shape": [2**62, 2**62]}}, b"\0" * 8), "takes 8 bytes"),
        (_header({"a": {**ENTRY, "shape": [-2]}}, b"\0" * 8), "expected dtype"),
        (_header({"a": {**ENTRY, "shape": [1] * 9}}, b"\0" * 8), "expected dtype"),
        (_header({"a": {**ENTRY, "dtype": 4}}, b"\0" * 8), "expected dtype"),
        (_header({"a": None}), "expected dtype"),
        (_header({}).replace(b"{}", b'{"a":1,"a":2}').replace(b"\x02", b"\x0d", 1), "twice"),
    ],
)  # fmt: skip
def test_hostile_safetensors(tmp_path, content, says):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        safetensors.read(path)


def test_a_wrong_dtype_is_a_missing_tensor(folder, tmp_path, config):
    """A weight of whole numbers cannot be one."""
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    content = (folder / "model.safetensors").read_bytes().replace(b'"F32"', b'"I32"', 1)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="lacks the tensor"):
        load.load(str(tmp_path))


def _gguf(n_tensors=0, n_fields=0, rest=b"", version=3):
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_fields) + rest


def _string(text):
    return struct.pack("<Q", len(text)) + text


def _info(name, shape, kind, offset):
    return _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


TWO = _info(b"a", [8], 0, 0) + _info(b"b", [8], 0, 32)
FIELD = _string(b"x") + struct.pack("<I", 9)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "magic"),
        (b"GGML" + b"\0" * 40, "does not begin"),
        (_gguf(version=9), "version 9"),
        (_gguf(n_tensors=2**60), "do not fit"),
        (_gguf(n_fields=2**60), "do not fit"),
        (_gguf(0, 1, FIELD + struct.pack("<IQ", 4, 2**61)), "do not fit"),
        (_gguf(0, 1, FIELD + struct.pack("<IQ", 8, 2**61)), "do not fit"),
        (_gguf(0, 1, FIELD + struct.pack("<IQ", 9, 1)), "array of type 9"),
        (_gguf(0, 1, _string(b"x") + struct.pack("<IQ", 77, 0)), "unknown type"),
        (_gguf(0, 1, _string(b"\xff" * 9) + struct.pack("<I", 4)), "not printable UTF-8"),
        (_gguf(1, 0, _info(b"a", [1] * 9, 0, 0)), "9 axes"),
        (_gguf(1, 0, _info(b"a", [8], 12, 0) + b"\0" * 64), "ggml type 12"),
        (_gguf(1, 0, _info(b"a", [2**63, 2**63], 0, 0) + b"\0" * 64), "an axis of"),
        (_gguf(1, 0, _info(b"a", [8], 0, 3) + b"\0" * 64), "truncated"),
        (_gguf(1, 0, _info(b"a", [33], 8, 0) + b"\0" * 64), "multiple of 32"),
        (_gguf(2, 0, TWO.replace(b"b", b"a") + b"\0" * 128), "occurs twice"),
        (_gguf(2, 0, _info(b"a", [16], 0, 0) + _info(b"b", [8], 0, 32) + b"\0" * 128), "overlaps"),
    ],
)  # fmt: skip
def test_hostile_gguf(tmp_path, content, says):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        container.read(path)


FUZZ = settings(
    max_examples=150,
    deadline=2000,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([0, 1, 4, 8]), st.binary(max_size=9)), max_size=3
)


def _edited(content, edits, head):
    """Replaces bytes, mostly in the head, and may cut the file short or add to it."""
    for where, width, new in edits:
        at = int(where * min(len(content), head))
        content = content[:at] + new + content[at + width :]
    return content


@FUZZ
@given(edits=EDITS, keep=st.one_of(st.just(1.0), st.floats(0, 1)))
def test_fuzzed_gguf_is_read_or_refused(gguf_path, tmp_path, edits, keep):
    """Whatever the bytes are: a model, or one InputError, soon."""
    content = _edited(gguf_path.read_bytes(), edits, 4000)
    path = tmp_path / "fuzzed.gguf"
    path.write_bytes(content[: int(keep * len(content))])
    with suppress(InputError):
        config, weights, _ = gguf_file.read(path)
        Model(config, weights, "fuzzed")


@FUZZ
@given(edits=EDITS, keep=st.one_of(st.just(1.0), st.floats(0, 1)))
def test_fuzzed_safetensors_are_read_or_refused(folder, tmp_path, edits, keep):
    content = _edited((folder / "model.safetensors").read_bytes(), edits, 6000)
    path = tmp_path / "model.safetensors"
    path.write_bytes(content[: int(keep * len(content))])
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with suppress(InputError):
        Model(*load.load(str(tmp_path)), "fuzzed")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@FUZZ
@given(data=st.data())
def test_fuzzed_configurations_are_read_or_refused(config, tmp_path, data):
    fields = config.to_json()
    for name in data.draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3)):
        fields[name] = data.draw(JSON)
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with suppress(InputError):
        load.load_folder(tmp_path)


def test_missing_models_are_named():
    for name in ("nowhere", "nowhere.gguf"):
        with pytest.raises(InputError, match="no model"):
            load.load(name)
    with pytest.raises(InputError, match="only a probe"):
        load.load("nowhere", {"n_layers": 2})
