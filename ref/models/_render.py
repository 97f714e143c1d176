"""The child process of `chat`: one JSON object a line in, one out. Imports nothing of hotfire."""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY_MAX = 1 << 29
"""Bytes of address space: a template that multiplies strings fails here, not in the parent."""


class Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; the text is what matters."""

    tags = {"generation"}  # noqa: RUF012 - the base class says set

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Any) -> Any:
        return caller()


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment() -> ImmutableSandboxedEnvironment:
    """The environment that `transformers` renders in."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    env.filters["tojson"] = _to_json
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return env


def answer(question: dict[str, Any], state: dict[str, Any], text_max: int) -> dict[str, str]:
    """One request: a template to compile, or variables to render it with."""
    if "template" in question:
        state["template"] = environment().from_string(question["template"])
        return {}
    parts, length = [], 0
    for part in state["template"].generate(**question["variables"]):
        parts.append(part)
        length += len(part)
        if length > text_max:
            return {"error": f"it writes more than {text_max} characters"}
    return {"text": "".join(parts)}


def main() -> None:
    """Answers until its input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    text_max, state = int(sys.argv[1]), dict[str, Any]()
    for line in sys.stdin:
        try:
            said = answer(json.loads(line), state, text_max)
        except Exception as error:  # whatever a template does wrong is its answer
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
