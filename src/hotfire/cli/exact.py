"""`hotfire exact`: two targets along the same tokens."""

from __future__ import annotations

from pathlib import Path

import click

from hotfire.cli.options import command_line, verdict_command
from hotfire.cli.progress import Progress
from hotfire.verdict import Verdict


def _ways(text: str, walks: bool) -> list[int]:
    from hotfire.engines.outcome import WALK
    from hotfire.errors import InputError

    words = [word for word in text.split(",") if word]
    if not all(word.isdecimal() for word in words) or not (words or walks):
        raise InputError(f"--ubatch {text!r}; expected sizes such as 1,4,64,512, 0 for whole")
    return [*map(int, words), *([WALK] if walks else [])]


def _seed(text: str) -> int:
    from hotfire import evidence
    from hotfire.errors import InputError

    if text == "commit":
        head = evidence.commit(Path.cwd())
        if head == "unknown":
            raise InputError("--seed commit: this is no git checkout; give a number")
        return int(head[:8], 16)
    if not text.isdecimal():
        raise InputError(f"--seed {text!r}; expected a number >= 0, or commit")
    return int(text)


@click.command()
@click.argument("reference")
@click.argument("target")
@click.option("--prompts", type=click.IntRange(min=1), default=8, show_default=True)
@click.option(
    "--length",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="Longest prompt in tokens; the rest is shorter, 1 and the edges of chunks among them.",
)
@click.option(
    "--generate",
    type=click.IntRange(min=0),
    default=16,
    show_default=True,
    help="Tokens that the reference picks after each prompt.",
)
@click.option(
    "--ubatch",
    default="0,64",
    show_default=True,
    help="How TARGET is given each prompt: tokens at a time, 0 for all at once.",
)
@click.option(
    "--walk",
    "walks",
    is_flag=True,
    help="Also lead TARGET through rollbacks, copies, saves, restarts and neighbours.",
)
@click.option(
    "--seed",
    default="0",
    show_default=True,
    help="Of the prompts: a number, or `commit` for one that the checkout's commit determines.",
)
@click.option(
    "--conditioning",
    metavar="TARGET",
    help="A numpy: target of the same model: it measures how far rounding may move each row, where "
    "REFERENCE is not float64 itself.",
)
@verdict_command
def exact(
    reference: str,
    target: str,
    prompts: int,
    length: int,
    generate: int,
    ubatch: str,
    walks: bool,
    seed: str,
    conditioning: str | None,
) -> Verdict:
    """Compare TARGET with REFERENCE, logit by logit, along the reference's tokens.

    A target is hash:, numpy:MODEL, transformers:MODEL, libllama:MODEL or native:MODEL; MODEL is
    nano, probe, a folder or a .gguf file, and options follow, as in
    numpy:probe,n_layers=24,n_experts=8,seed=3.
    """
    from contextlib import nullcontext

    from hotfire.engines import open_engine
    from hotfire.engines.exact import check
    from hotfire.engines.tracks import Prompts

    ways = _ways(ubatch, walks)
    drawn = Prompts(n_prompts=prompts, length_max=length, n_generated=generate, seed=_seed(seed))
    with (
        open_engine(reference) as one,
        open_engine(target) as other,
        open_engine(conditioning) if conditioning else nullcontext() as third,
        Progress(prompts + len(ways)) as progress,
    ):
        return check(
            one, other, drawn, ways, conditioning=third, reproduce=command_line(),
            step=progress.step,
        )  # fmt: skip
