"""Symbols: what is declared, what is exported, and what a macro quietly renames."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi.checks.base import Comparison, Rule, finding
from hotfire.verdict import Finding, Severity

FN_NOT_EXPORTED = Rule(
    "FN_NOT_EXPORTED",
    "looking the function up fails, at import or at its first use",
    "remove the binding, or bind what replaced it",
)
FN_UNDECLARED = Rule(
    "FN_UNDECLARED",
    "the library still exports it, but its header no longer says how to call it",
    "bind what replaced it",
)
FN_UNBOUND = Rule(
    "FN_UNBOUND",
    "the library offers a function that the mirror does not bind",
    "bind it if it is wanted",
)
MACRO_REDIRECT = Rule(
    "MACRO_REDIRECT",
    "C callers reach another symbol than a mirror that looks the plain name up",
    "bind the symbol that the macro names",
)
RULES = (FN_NOT_EXPORTED, FN_UNDECLARED, FN_UNBOUND, MACRO_REDIRECT)


def check(both: Comparison) -> Iterator[Finding]:
    """Every name that the mirror looks up, and those that it does not."""
    for name in sorted(both.mirror.functions):
        to = both.library.redirects.get(name, name)
        if to != both.mirror.redirects.get(name, name):
            yield _redirect(both, name, to)
        else:
            yield from _absent(both, name)
    if both.mirror.functions:
        yield from _unbound(both)


def _redirect(both: Comparison, name: str, to: str) -> Finding:
    function = both.library.functions.get(to)
    return finding(
        MACRO_REDIRECT,
        Severity.MEMORY_UNSAFE,
        f"in the header {name} stands for the symbol {to}; the mirror binds "
        f"{both.mirror.redirects.get(name, name)}, which may have another layout behind it",
        function.location if function else "",
        function=name,
        to=to,
        mirror=name,
        library=to,
    )


def _absent(both: Comparison, name: str) -> Iterator[Finding]:
    declared = name in both.library.functions
    exports = both.library.exports
    if exports is not None and name not in exports:
        said = "does not export it" if declared else "neither declares nor exports it"
    elif not declared and exports is None and both.library.complete:
        said = "does not declare it"
    elif not declared and both.library.complete:
        yield finding(
            FN_UNDECLARED,
            Severity.INFO,
            f"{name} is exported, but the header does not declare it",
            function=name,
            mirror="bound",
            library="exported only",
        )
        return
    else:
        return
    yield finding(
        FN_NOT_EXPORTED,
        Severity.LATENT,
        f"the mirror binds {name}, the library {said}",
        function=name,
        mirror="bound",
        library="absent",
    )


def _unbound(both: Comparison) -> Iterator[Finding]:
    reached = set(both.mirror.functions)
    reached |= {both.library.redirects.get(name, name) for name in both.mirror.functions}
    for name in sorted(both.library.functions):
        if name in reached or name not in both.library.declared:
            continue
        yield finding(
            FN_UNBOUND,
            Severity.INFO,
            f"{name} is not bound",
            both.library.functions[name].location,
            function=name,
            mirror="absent",
            library=str(both.library.functions[name].type),
        )
