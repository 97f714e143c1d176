"""The checks: each family is one module with its rules and a `check(both)` that finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hotfire.abi.checks import constants, fields, functions, presence, records, symbols
from hotfire.abi.checks.base import Comparison, Rule
from hotfire.abi.manifest import Manifest
from hotfire.verdict import Finding, Severity

CHECKS: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    records.check,
    presence.check,
    fields.check,
    functions.check,
    symbols.check,
    constants.check,
)
RULES: dict[str, Rule] = {
    rule.id: rule
    for family in (records, presence, fields, functions, symbols, constants)
    for rule in family.RULES
}
_ORDER = list(Severity)


def compare(
    mirror: Manifest, library: Manifest, *, names: Mapping[str, str] | None = None
) -> list[Finding]:
    """What is wrong with a mirror, worst first.

    Args:
        mirror: the side as it was written.
        library: the side that it meets.
        names: records that the mirror calls otherwise, as mirror name to library name.

    Raises:
        InputError: if the two are for different targets.
    """
    return compare_both(Comparison(mirror, library, dict(names or {})))


def compare_both(both: Comparison) -> list[Finding]:
    """What is wrong with the mirror of a prepared comparison, worst first."""
    found = [finding for check in CHECKS for finding in check(both)]
    # Two of the mirror's names may stand for one record of the library.
    unique = {(each.rule, *each.subject.items()): each for each in found}
    return sorted(unique.values(), key=lambda finding: _ORDER.index(finding.severity))
