"""The tokenizer and the chat template, hostile templates among them."""

import json

import pytest

from hotfire.errors import InputError
from hotfire.ref.models import container, gguf_file, vocabulary
from hotfire.ref.models.chat import ChatTemplate
from hotfire.ref.models.tokenizer import Tokenizer

FAMILY = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('unknown role ' + message.role) }}
    {%- endif %}
    {%- if message.role != 'system' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{- tools | tojson }}{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " What is 2 + 2? <b>ä€</b> "},
]


@pytest.mark.parametrize(
    "variables", [{}, {"enable_thinking": False}, {"add_generation_prompt": False}]
)
def test_renders_as_transformers_does(variables):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    tools = [{"name": "f", "parameters": {"x": "<é>"}}]
    given = {"add_generation_prompt": True, **variables}
    [want], _ = utils.render_jinja_template(
        conversations=[CHAT], tools=tools, chat_template=FAMILY, **given
    )
    with ChatTemplate(FAMILY) as template:
        assert template.render(CHAT, tools=tools, **given) == want


def test_one_child_renders_many():
    """A failure does not end it."""
    with ChatTemplate(FAMILY) as template:
        first = template.render(CHAT)
        with pytest.raises(InputError, match="unknown role x"):
            template.render([{"role": "x", "content": ""}])
        assert template.render(CHAT) == first


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "end"),
        ("{{ 'a' * 10 ** 10 }}", "MemoryError"),
        ("{{ 'a' | center(10 ** 11) }}", "MemoryError"),
        ("{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}", "more than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "TypeError|loader"),
        ("{% for", "TemplateSyntaxError"),
    ],
)
def test_hostile_templates(source, says):
    """Each gives one error, within the second that it has."""
    with (
        pytest.raises(InputError, match=says),
        ChatTemplate(source, seconds=1.0) as template,
    ):
        template.render(CHAT)


def test_an_endless_template_costs_one_child():
    """After it, the same object renders again."""
    source = "{% if messages %}{% for a in range(9 ** 5) %}{% for b in range(9 ** 5) %}{% endfor %}"
    with ChatTemplate(source + "{% endfor %}{% endif %}ok", seconds=0.5) as template:
        with pytest.raises(InputError, match="did not end"):
            template.render(CHAT)
        assert template.render([]) == "ok"


@pytest.fixture
def folder(tmp_path):
    """A word-level tokenizer, made by the package itself."""
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"two": 0, "and": 1, "<|im_end|>": 2}, unk_token="two")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.add_special_tokens(["<|im_end|>"])
    inner.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_tokenizer_round_trip(folder):
    tokenizer = Tokenizer.open(folder)
    assert tokenizer.n_vocab == 3
    assert tokenizer.encode("two and two<|im_end|>") == [0, 1, 0, 2]
    assert tokenizer.decode([0, 1, 2]) == "two and <|im_end|>"
    assert tokenizer.decode([0, 1, 2], skip_special=True) == "two and"
    with pytest.raises(InputError, match="cannot be decoded"):
        tokenizer.decode([-1])


def test_the_template_comes_with_the_model(folder):
    tokenizer = Tokenizer.open(folder)
    with pytest.raises(InputError, match="no chat template"):
        tokenizer.chat_template()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "from config"}))
    with Tokenizer.open(folder).chat_template() as template:
        assert template.render([]) == "from config"
    (folder / "chat_template.jinja").write_text("own file")
    with Tokenizer.open(folder).chat_template() as template:
        assert template.render([]) == "own file"


def test_damaged_tokenizers_are_refused(tmp_path):
    pytest.importorskip("tokenizers")
    with pytest.raises(InputError, match="missing"):
        Tokenizer.open(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(InputError, match="no tokenizer"):
        Tokenizer.open(tmp_path)


TEXT = "The cat's 12 hats, ÄÖ naïve e\u0301té 你好\n\n  done<|im_end|> we'LL see"


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    """A byte-level BPE as the family's own class builds it, trained on a few words."""
    tokenizers = pytest.importorskip("tokenizers")
    from hotfire.ref.models.vocabulary import PATTERN

    folder = tmp_path_factory.mktemp("bpe")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.normalizer = tokenizers.normalizers.NFC()
    pre = tokenizers.pre_tokenizers
    inner.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(PATTERN), behavior="isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre.ByteLevel.alphabet()
    )
    inner.train_from_iterator(["the cat has hats and a cat's hat is that"] * 9, trainer)
    inner.add_special_tokens(["<|endoftext|>", "<|im_end|>"])
    inner.save(str(folder / "tokenizer.json"))
    config = {"eos_token": {"content": "<|im_end|>"}, "chat_template": FAMILY}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_the_family_s_cut_is_ours():
    family = pytest.importorskip("transformers.models.qwen3_5.tokenization_qwen3_5")
    from hotfire.ref.models.vocabulary import PATTERN

    assert family.PRETOKENIZE_REGEX == PATTERN


def test_a_vocabulary_survives_gguf(bpe, config, weights, tmp_path):
    """Tokens, merges, special tokens, template and eos; ids without a token are unused."""
    words = vocabulary.from_folder(bpe, 320)
    assert words.tokens[words.eos] == "<|im_end|>"
    assert words.kinds.count(vocabulary.UNUSED) == 320 - Tokenizer.open(bpe).n_vocab
    path = tmp_path / "words.gguf"
    gguf_file.write(path, config, weights, "f32", words)
    assert vocabulary.from_fields(container.read(path).fields) == words
    from_file, from_folder = Tokenizer.open(path), Tokenizer.open(bpe)
    assert from_file.encode(TEXT) == from_folder.encode(TEXT)
    assert from_file.decode(from_file.encode(TEXT)) == from_folder.decode(from_folder.encode(TEXT))
    with from_file.chat_template() as one, from_folder.chat_template() as other:
        assert one.render(CHAT) == other.render(CHAT)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokenizer.ggml.model": "llama"}, "expected 'gpt2'"),
        ({"tokenizer.ggml.tokens": None}, "damaged"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "damaged"),
        ({"tokenizer.ggml.token_type": [1]}, "do not fit"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "do not fit"),
        ({"tokenizer.ggml.merges": ["no such"]}, "damaged"),
    ],
)
def test_damaged_vocabularies_are_refused(bpe, change, says):
    words = vocabulary.from_folder(bpe, 320)
    fields = {key: value for _, key, value in vocabulary.to_fields(words)}
    with pytest.raises(InputError, match=says):
        vocabulary.tokenizer(vocabulary.from_fields({**fields, **change}))


def test_a_vocabulary_larger_than_the_model_is_refused(bpe):
    with pytest.raises(InputError, match="the model has 100"):
        vocabulary.from_folder(bpe, 100)
