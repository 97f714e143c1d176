"""Searches a property's cases and turns what it finds into a verdict."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from hotfire.errors import InputError
from hotfire.props.case import Case, parse
from hotfire.props.execute import Broken, Subject, Unusable
from hotfire.props.ledger import Known, Ledger
from hotfire.props.properties import PROPERTIES, Property
from hotfire.props.runner import KernelInfo, Runner
from hotfire.props.shrink import shrink
from hotfire.ref.registry import operation
from hotfire.verdict import Finding, Severity, Status, Verdict, worst

PROFILES = {"quick": 100, "full": 1000}
"""Examples a property and kernel."""

MAX_HANGS = 3
"""Hangs after which a search stops shrinking: each costs the whole time-out. The searches of one
kernel after it stop at the first failure."""

N_AGAIN = 4
"""Runs in a fresh process before a failure is said not to come again."""

MEAGRE_SHARE = 0.5
"""If more cases than this prove nothing, the verdict is mistrusted."""


NOTHING_KNOWN = Ledger()


class _Enough(Exception):
    """Ends a search at once."""


@dataclass
class Search:
    """What a search of one property on one kernel came to.

    Args:
        broken: the last failure, on the smallest case, or None.
        case: that case.
        n_cases: cases run, shrinking included.
        n_to_failure: cases up to and including the first failure.
        n_meagre: cases that proved nothing.
        doubt: why the case alone may not fail again, or "".
        options: of a command that searches again.
        shapes: the sizes that were drawn.
    """

    broken: Broken | None = None
    case: Case | None = None
    n_cases: int = 0
    n_to_failure: int = 0
    n_meagre: int = 0
    n_hangs: int = 0
    doubt: str = ""
    options: str = ""
    shapes: set[tuple[int, ...]] = field(default_factory=set)

    def run(self, subject: Subject, stated: Property, case: Case) -> None:
        """Checks one case and keeps count."""
        self.n_cases += 1
        self.shapes.add(tuple(case.sizes.values()))
        try:
            if not stated.holds(subject, case):
                self.n_meagre += 1
        except Unusable as error:
            raise Unusable(str(error), case) from error
        except Broken as broken:
            self.n_to_failure = self.n_to_failure or self.n_cases
            self.broken, self.case = broken, case
            self.n_hangs += broken.status is Status.HUNG
            if self.n_hangs >= MAX_HANGS:
                raise _Enough from None
            raise


def search(
    subject: Subject, stated: Property, max_examples: int, seed: int, make_small: bool = True
) -> Search:
    """Looks for a case on which the property does not hold, and for the smallest such."""
    found = Search()
    rng = random.Random(f"{seed} {stated.name}")  # noqa: S311 - a draw, not a secret
    draw = stated.cases(subject)
    first = stated.first(subject)
    n_examples = max(1, round(max_examples * stated.share))
    n_drawn = max(n_examples - len(first), n_examples // 2)
    try:
        for case in chain(first, (draw(rng) for _ in range(n_drawn))):
            found.run(subject, stated, case)
    except Broken as broken:
        if make_small:
            _make_small(subject, stated, found, broken.status)
    except _Enough:
        pass
    return found


def _make_small(subject: Subject, stated: Property, found: Search, status: Status) -> None:
    """Leaves in `found` the smallest case that ends in the same status."""
    assert found.broken is not None
    assert found.case is not None
    best = (found.broken, found.case)

    def fails(case: Case) -> bool:
        nonlocal best
        try:
            found.run(subject, stated, case)
        except Broken as broken:
            if broken.status is status:
                best = (broken, case)
                return True
        return False

    with suppress(_Enough):
        shrink(subject.operation, found.case, stated.smallest, fails)
    found.broken, found.case = best
    if status is not Status.HUNG:
        found.doubt = _doubt(subject, stated, found.case)


def _doubt(subject: Subject, stated: Property, case: Case) -> str:
    """What is to be said where a failure does not come again in a process of its own."""
    subject.runner.renew()
    n_failed = 0
    for run in range(N_AGAIN):
        try:
            stated.holds(subject, case)
        except Broken:
            n_failed += 1
            if run == 0:
                return ""
    if n_failed:
        return f"flaky: in a fresh process {n_failed} of {N_AGAIN} runs of this case fail"
    return (
        f"not reproduced: {N_AGAIN} runs of this case in a fresh process are right; what earlier "
        "calls left behind decides, or chance"
    )


def kernels_of(
    runner: Runner, names: Iterable[str] = (), variant: str | None = None
) -> Iterator[KernelInfo]:
    """The worker's kernels of these operations, all if none are named.

    Raises:
        InputError: if an operation is not known, asked for or offered, if two kernels have the same
            name, or nothing matches.
    """
    wanted = [operation(name).name for name in names]
    for kernel in runner.kernels:
        operation(kernel.operation)
    pairs = [(kernel.operation, kernel.variant) for kernel in runner.kernels]
    twice = sorted({"/".join(pair) for pair in pairs if pairs.count(pair) > 1})
    if twice:
        raise InputError(f"{runner.provider} offers {', '.join(twice)} twice; name their variants")
    matching = [
        kernel
        for kernel in runner.kernels
        if (not wanted or kernel.operation in wanted) and variant in (None, kernel.variant)
    ]
    if not matching:
        offered = sorted({f"{each.operation}/{each.variant}" for each in runner.kernels})
        raise InputError(
            f"{runner.provider} offers no kernel for {', '.join(wanted) or 'any operation'}"
            f"{f' in variant {variant}' if variant else ''}; it offers {', '.join(offered)}"
        )
    return iter(matching)


def check_kernel(
    runner: Runner,
    kernel: KernelInfo,
    *,
    profile: str = "quick",
    seed: int = 0,
    only: str | None = None,
    on_case: Callable[[], None] = lambda: None,
    ledger: Ledger = NOTHING_KNOWN,
) -> Verdict:
    """Searches every property that applies to a kernel.

    Args:
        runner: the worker that runs it.
        kernel: which.
        profile: a name of `PROFILES`.
        seed: of every search.
        only: the one property to search, or None for all.
        on_case: called after each property, for a progress display.
        ledger: of known failures.
    """
    name = f"{runner.provider} {kernel.operation} {kernel.variant}"
    options = f"--profile {profile} --seed {seed}"
    reproduce = _command(runner, kernel, options)
    if kernel.unavailable:
        return Verdict(
            name=name,
            status=Status.SKIPPED,
            reason=kernel.unavailable,
            reproduce=reproduce,
            scope={"operation": kernel.operation, "variant": kernel.variant},
        )
    subject = Subject(runner, kernel, operation(kernel.operation))
    start = time.monotonic()
    searches: dict[str, Search] = {}
    for stated in PROPERTIES:
        if stated.applies(subject) and only in (None, stated.name):
            known = ledger.of(runner.provider, kernel.operation, kernel.variant, stated.name)
            if known and not known.launch:
                continue
            try:
                hangs = any(each.n_hangs for each in searches.values())
                found = search(subject, stated, PROFILES[profile], seed, make_small=not hangs)
                searches[stated.name] = replace(found, options=options)
            except Unusable as error:
                raise _adapter_failed(name, runner, kernel, error) from error
            on_case()
    verdict = _verdict(name, runner, kernel, searches, ledger)
    seconds = round(time.monotonic() - start, 3)
    return replace(
        verdict, reproduce=reproduce, measurements={**verdict.measurements, "seconds": seconds}
    )


def check_case(runner: Runner, kernel: KernelInfo, text: str, only: str | None = None) -> Verdict:
    """Runs one case, given as text, through every property that applies, or through one."""
    subject = Subject(runner, kernel, operation(kernel.operation))
    case = parse(subject.operation, text)
    searches: dict[str, Search] = {}
    name = f"{runner.provider} {kernel.operation} {kernel.variant}"
    for stated in PROPERTIES:
        if not stated.applies(subject) or not _speaks_of(stated, case, only):
            continue
        found = searches[stated.name] = Search()
        try:
            found.run(subject, stated, case)
        except Broken:
            pass
        except Unusable as error:
            raise _adapter_failed(name, runner, kernel, error) from error
    return replace(
        _verdict(name, runner, kernel, searches),
        reproduce=_command(runner, kernel, f"--case {shlex.quote(text)}"),
    )


def _adapter_failed(name: str, runner: Runner, kernel: KernelInfo, error: Unusable) -> InputError:
    """The adapter's own error, with the line that shows it again."""
    line = _command(runner, kernel, f"--case {shlex.quote(str(error.case))}")
    return InputError(f"{name}: the adapter failed: {error}\n  reproduce: {line}")


def _speaks_of(stated: Property, case: Case, only: str | None) -> bool:
    """Which properties a case given as text goes through."""
    if only is not None:
        return stated.name == only
    if case.mistake:
        return stated.name == "refuses_mistakes"
    designed = stated.name == "exact_on_designed_inputs"
    return stated.name != "refuses_mistakes" and designed == case.is_designed


def _verdict(
    name: str,
    runner: Runner,
    kernel: KernelInfo,
    searches: dict[str, Search],
    ledger: Ledger = NOTHING_KNOWN,
) -> Verdict:
    findings: list[Finding] = []
    statuses = [Status.PASSED] * bool(searches)
    meagre: list[str] = []
    for stated, each in searches.items():
        known = ledger.of(runner.provider, kernel.operation, kernel.variant, stated)
        found = [_finding(runner, kernel, stated, each)] if each.broken else []
        if known is not None:
            found, status = _known(known, found, ledger, kernel, stated)
            statuses.append(status)
        elif each.broken:
            statuses.append(each.broken.status)
        elif each.n_meagre > MEAGRE_SHARE * each.n_cases:
            meagre.append(stated)
            statuses.append(Status.MISTRUSTED)
        findings += found
    shapes = set().union(*(each.shapes for each in searches.values()))
    return Verdict(
        name=name,
        status=worst(statuses),
        scope={
            "provider": runner.provider,
            "version": runner.version,
            "operation": kernel.operation,
            "variant": kernel.variant,
            "properties": list(searches),
        },
        findings=tuple(findings),
        measurements={
            "n_cases": sum(each.n_cases for each in searches.values()),
            "n_shapes": len(shapes),
            "n_meagre": sum(each.n_meagre for each in searches.values()),
        },
        reason=f"most cases prove little: {', '.join(meagre)}" if meagre else "",
    )


def _known(
    known: Known, found: list[Finding], ledger: Ledger, kernel: KernelInfo, stated: str
) -> tuple[list[Finding], Status]:
    """A known failure: reported while it fails and is tolerated, else a failure itself."""
    about = {"operation": kernel.operation, "variant": kernel.variant, "property": stated}
    if not found:
        message, rule = f"{stated} holds, though it is known to fail: {known}", "unexpected_pass"
        remedy = "take the entry out of the ledger"
    elif ledger.has_expired(known):
        message, rule = f"a known failure has expired: {known}", "known_failure_expired"
        remedy = "repair it, or argue for a later date"
    else:
        quiet = [replace(each, severity=Severity.INFO, remedy=str(known)) for each in found]
        return quiet, Status.PASSED
    entry = Finding(
        rule=rule, severity=Severity.SILENT_WRONG, message=message, remedy=remedy, subject=about
    )
    return [*found, entry], Status.FAILED


def _finding(runner: Runner, kernel: KernelInfo, stated: str, found: Search) -> Finding:
    assert found.broken is not None
    assert found.case is not None
    message = found.broken.message
    if found.broken.stack:
        message += "\n" + "\n".join(f"    {frame}" for frame in found.broken.stack)
    case = str(found.case)
    remedy = "run the line below; the case is as small as the search could make it"
    again = f"--property {stated} --case {shlex.quote(case)}"
    if found.doubt:
        message += f"\n    {found.doubt}"
        remedy = "run the whole search again, as the line below does: the case alone may pass"
        again = f"--property {stated} {found.options}"
    return Finding(
        rule=found.broken.rule,
        severity=found.broken.severity,
        message=message,
        remedy=remedy,
        reproduce=_command(runner, kernel, again),
        subject={
            "operation": kernel.operation,
            "provider": runner.provider,
            "variant": kernel.variant,
            "property": stated,
            "case": case,
        },
    )


def _command(runner: Runner, kernel: KernelInfo, rest: str) -> str:
    provider = shlex.quote(runner.provider)
    return (
        f"hotfire props run {kernel.operation} --provider {provider} "
        f"--variant {shlex.quote(kernel.variant)} {rest}"
    )


__all__ = ["PROFILES", "Search", "Severity", "check_case", "check_kernel", "kernels_of", "search"]
