"""The same cases and properties for Hypothesis: its strategies, its shrinker, its `@given`.

`search` draws cases by a plain generator, for speed. Here Hypothesis holds that generator, so a
test of one's own can combine a kernel's cases with anything else that it draws:

    @given(cases_of(subject, property_named("agrees_with_reference")))
    def test_my_kernel(case): ...
"""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck
from hypothesis import strategies as st

from hotfire.props.case import Case
from hotfire.props.execute import Subject
from hotfire.props.properties import Property, property_named


def cases_of(subject: Subject, stated: Property) -> st.SearchStrategy[Case]:
    """The cases that a property speaks of, as a strategy; Hypothesis shrinks every draw."""
    return st.randoms(use_true_random=False).map(stated.cases(subject))


def holds(subject: Subject, stated: Property, max_examples: int = 50, seed: int = 0) -> None:
    """Lets Hypothesis look for a case on which the property does not hold.

    Raises:
        Broken: on the smallest case that Hypothesis found, with that case in its notes.
    """

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(cases_of(subject, stated))
    def check(case: Case) -> None:
        stated.holds(subject, case)

    check()


__all__ = ["cases_of", "holds", "property_named"]
