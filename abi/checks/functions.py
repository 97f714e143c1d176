"""Functions: how many arguments, of what class, what comes back, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi.checks.base import Comparison, Pair, Rule, called_back_with, finding
from hotfire.abi.checks.records import passed_alike
from hotfire.abi.checks.relation import Difference, Kind, conventions_differ, difference
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Function
from hotfire.verdict import Finding, Severity

FN_ARGC = Rule(
    "FN_ARGC",
    "the library reads an argument that nobody passed, or misses one",
    "declare the library's arguments",
)
FN_ARG_TYPE = Rule(
    "FN_ARG_TYPE",
    "the argument is read from another register, or with bytes that nobody set",
    "give the argument the library's type",
)
FN_ARG_ORDER = Rule(
    "FN_ARG_ORDER",
    "two arguments of one type changed places, which no type check can see",
    "pass the arguments in the library's order",
)
FN_RET_TYPE = Rule(
    "FN_RET_TYPE",
    "the result is read from another register, or cut to another width",
    "give the function the library's return type",
)
FN_VARIADIC = Rule(
    "FN_VARIADIC",
    "some targets pass the arguments of variadic functions elsewhere",
    "declare the function as variadic as the library does",
)
FN_CONVENTION = Rule(
    "FN_CONVENTION",
    "the arguments are looked for in other registers, or left on the stack",
    "declare the function with the library's calling convention",
)
FN_UNTYPED = Rule(
    "FN_UNTYPED",
    "without declared arguments nothing is converted or checked",
    "declare the argument types",
)
BY_VALUE_ABI = Rule(
    "BY_VALUE_ABI",
    "caller and callee disagree about the bytes or registers that a record passed by value takes",
    "declare the fields of the library's record",
)
CALLBACK = Rule(
    "CALLBACK",
    "the library calls it with other arguments than it takes",
    "give the callback the library's signature",
)
RULES = (
    FN_ARGC,
    FN_ARG_TYPE,
    FN_ARG_ORDER,
    FN_RET_TYPE,
    FN_VARIADIC,
    FN_CONVENTION,
    FN_UNTYPED,
    BY_VALUE_ABI,
)

_SEVERITY = {
    Kind.ERASED: Severity.INFO,
    Kind.BOOL: Severity.INFO,
    Kind.ADDRESS: Severity.INFO,
    Kind.SIGN: Severity.INFO,
    Kind.RANGE: Severity.INFO,
    Kind.MEANING: Severity.SILENT_WRONG,
}


def check(both: Comparison) -> Iterator[Finding]:
    """Every function that the mirror binds, and every one that takes a drifted record by value."""
    for mine, theirs in both.bound:
        yield from _arguments(both, mine, theirs)
        yield from _order(mine, theirs)
        yield from _result(both, mine, theirs)
    yield from _by_value(both)


def _arguments(both: Comparison, mine: Function, theirs: Function) -> Iterator[Finding]:
    want = theirs.type.args
    if want is None:
        return
    if mine.type.args is None:
        if want:
            yield finding(
                FN_UNTYPED,
                Severity.INFO,
                f"{mine.name} takes {len(want)} arguments, the mirror declares none",
                theirs.location,
                function=mine.name,
                mirror="undeclared",
                library=str(theirs.type),
            )
        return
    got = mine.type.args
    if len(got) != len(want):
        yield finding(
            FN_ARGC,
            Severity.MEMORY_UNSAFE,
            f"{mine.name} takes {len(want)} arguments, the mirror passes {len(got)}",
            theirs.location,
            function=mine.name,
            mirror=str(mine.type),
            library=str(theirs.type),
        )
        return
    yield from _manner(both, mine, theirs)
    for index, (one, other) in enumerate(zip(got, want, strict=True)):
        found = difference(both, one, other)
        if found is not None:
            yield _argument(mine, theirs, index, one, other, found)


def _manner(both: Comparison, mine: Function, theirs: Function) -> Iterator[Finding]:
    """How the call is made, whatever its arguments are."""
    if mine.type.variadic != theirs.type.variadic:
        can_say = both.mirror.source != "ctypes"
        yield finding(
            FN_VARIADIC,
            Severity.LATENT if can_say else Severity.INFO,
            f"{mine.name} is {'' if theirs.type.variadic else 'not '}variadic in the library",
            theirs.location,
            function=mine.name,
            mirror=str(mine.type),
            library=str(theirs.type),
        )
    if conventions_differ(both, mine.type, theirs.type):
        yield finding(
            FN_CONVENTION,
            Severity.MEMORY_UNSAFE,
            f"{mine.name} is called as {theirs.type.convention or 'usual'}, the mirror calls it as "
            f"{mine.type.convention or 'usual'}",
            theirs.location,
            function=mine.name,
            mirror=mine.type.convention or "usual",
            library=theirs.type.convention or "usual",
        )


def _argument(
    mine: Function, theirs: Function, index: int, one: Type, other: Type, found: Difference
) -> Finding:
    name = (
        theirs.names[index] if index < len(theirs.names) and theirs.names[index] else f"{index + 1}"
    )
    return finding(
        CALLBACK if found.kind is Kind.CALLBACK else FN_ARG_TYPE,
        _SEVERITY.get(found.kind, Severity.MEMORY_UNSAFE),
        f"{mine.name}: argument {name} is {other}, the mirror passes {one}: {found.why}",
        theirs.location,
        function=mine.name,
        argument=name,
        mirror=str(one),
        library=str(other),
    )


def _order(mine: Function, theirs: Function) -> Iterator[Finding]:
    """Shared names at other places: the only sign that same-typed arguments were swapped."""
    if len(mine.names) != len(theirs.names):
        return
    moved = [
        name
        for at, name in enumerate(mine.names)
        if name and name in theirs.names and theirs.names[at] != name
    ]
    # One name that moved may be a rename; two that traded places are a swap.
    swapped = [name for name in moved if mine.names[theirs.names.index(name)] in moved]
    if len(swapped) < 2:
        return
    yield finding(
        FN_ARG_ORDER,
        Severity.SILENT_WRONG,
        f"{mine.name} takes ({', '.join(theirs.names)}), "
        f"the mirror passes ({', '.join(mine.names)})",
        theirs.location,
        function=mine.name,
        mirror=", ".join(mine.names),
        library=", ".join(theirs.names),
    )


def _result(both: Comparison, mine: Function, theirs: Function) -> Iterator[Finding]:
    got, want = mine.type.target, theirs.type.target
    if want.kind == "void" and not mine.returns_known:
        return
    if got.kind == "void" and want.kind != "void":
        severity = Severity.MEMORY_UNSAFE if want.is_record else Severity.INFO
        why = "the mirror ignores it"
    elif want.kind == "void" and got.kind != "void":
        severity, why = Severity.SILENT_WRONG, "what it reads is whatever the register held"
    else:
        found = difference(both, got, want)
        if found is None:
            return
        severity = _SEVERITY.get(found.kind, Severity.MEMORY_UNSAFE)
        if found.kind is Kind.SIGN:
            severity = Severity.LATENT
        elif found.kind is Kind.RANGE:
            severity = Severity.SILENT_WRONG
        why = found.why
    yield finding(
        FN_RET_TYPE,
        severity,
        f"{mine.name} returns {want}, the mirror expects {got}: {why}",
        theirs.location,
        function=mine.name,
        mirror=str(got),
        library=str(want),
    )


def _by_value(both: Comparison) -> Iterator[Finding]:
    drifted: dict[str, Pair] = {
        pair.library.name: pair for pair in both.pairs if not passed_alike(both, pair)
    }
    for function in both.met_functions:
        parts = [("takes", arg) for arg in function.type.args or ()]
        for arg in function.type.args or ():
            parts += [("calls back with", of) for of in called_back_with(arg)]
        for verb, of in [*parts, ("returns", function.type.target)]:
            pair = drifted.get(of.name) if of.is_record else None
            if pair is None:
                continue
            yield finding(
                BY_VALUE_ABI,
                Severity.MEMORY_UNSAFE,
                f"{function.name} {verb} {pair.name} by value: {pair.library.size} bytes in the "
                f"library, {pair.mirror.size} in the mirror{_registers(pair)}",
                function.location,
                function=function.name,
                record=pair.name,
                mirror=f"{pair.mirror.size} bytes",
                library=f"{pair.library.size} bytes",
            )


def _registers(pair: Pair) -> str:
    if pair.mirror.size == pair.library.size:
        return ", in other classes of register"
    if pair.mirror.size <= 16 < pair.library.size:
        return "; it grew out of the registers"
    return ""
