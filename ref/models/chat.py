"""Chat templates: Jinja that came with a model, rendered in a process that can be stopped.

A template is a program from a stranger. It runs in Jinja's immutable sandbox with the functions
that `transformers` offers (utils/chat_template_utils.py), in a child process with a limit on
memory and on seconds: a template that never ends costs one child and gives one clear error.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hotfire.errors import InputError

SECONDS = 5.0
TEXT_MAX = 1 << 24
"""Longest rendered text in characters, and longest template."""

Message = Mapping[str, Any]


class ChatTemplate:
    """Renders conversations; use as a context manager, which ends the child process.

    Args:
        source: the template.
        seconds: how long one rendering may take.
        name: where it comes from, for messages.

    Raises:
        InputError: if the template has a syntax error or is too long.
    """

    def __init__(self, source: str, *, seconds: float = SECONDS, name: str = "the template"):
        if len(source) > TEXT_MAX:
            raise InputError(f"{name} has {len(source)} characters; expected at most {TEXT_MAX}")
        self._source, self._seconds, self._name = source, seconds, name
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._ask({"template": source})
        except InputError:
            self.close()
            raise

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The conversation as text.

        Args:
            messages: each with a role and a content.
            add_generation_prompt: whether the assistant's turn is begun.
            tools: functions that the model may call, as JSON schemas.
            variables: whatever else the template reads, such as `enable_thinking`.

        Raises:
            InputError: if the template refuses, fails, takes too long or writes too much.
        """
        given = {"messages": list(messages), "tools": tools and list(tools), **variables}
        given["add_generation_prompt"] = add_generation_prompt
        if self._child is None:
            self._ask({"template": self._source})
        return self._ask({"variables": given})

    def _ask(self, question: Mapping[str, Any]) -> str:
        child = self._child or self._start()
        assert child.stdin is not None
        try:
            line = json.dumps(question).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise InputError(f"{self._name}: messages are not JSON: {error}") from None
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise InputError(f"{self._name}: its process ended; render again") from None
        answer = json.loads(self._line(child))
        if "error" in answer:
            raise InputError(f"{self._name}: {answer['error']}")
        return str(answer.get("text", ""))

    def _line(self, child: subprocess.Popen[bytes]) -> bytes:
        assert child.stdout is not None
        deadline, got = time.monotonic() + self._seconds, bytearray()
        while not got.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                self.close()
                raise InputError(f"{self._name} did not end within {self._seconds:g} seconds")
            part = child.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not part:
                self.close()
                raise InputError(f"{self._name}: its process ended, over its memory or time limit")
            got += part
        return bytes(got)

    def _start(self) -> subprocess.Popen[bytes]:
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("_render.py")), str(TEXT_MAX)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._child

    def close(self) -> None:
        """Ends the child process; the next rendering starts another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
