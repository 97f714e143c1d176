"""Automatic mutants: which slips are made, and what is left alone."""

from hotfire.props.automatic import changes

SOURCE = """\
HOTFIRE_MUTANT(sum, sum_short, "one is left out");
#include "kernel.hpp"
// for (i = 0; i < n; ++i)
float sum(const float *x, long n) {
    float total = 0;
    const long end = sum_short ? n - 1 : n;
    for (long i = 0; i < n; ++i)
        total += x[i] * 2;
    return total;
}
"""


def test_each_kind_of_slip_is_made_and_lands_where_it_says():
    """Bounds, constants, indices, dropped terms; the text around them stays."""
    made = {str(change): change for change in changes(SOURCE)}
    for text in (
        "line 7: < -> <= (bound)",
        "line 7: n -> (n - 1) (bound)",
        "line 8: i -> i + 1 (wrong index)",
        "line 8: x[i] * 2 -> x[i] (dropped term)",
        "line 8: += -> = (dropped term)",
        "line 8: 2 -> 3 (wrong constant)",
    ):
        assert text in made, text
    changed = made["line 7: < -> <= (bound)"].applied(SOURCE)
    assert changed == SOURCE.replace("for (long i = 0; i < n", "for (long i = 0; i <= n")


def test_comments_directives_and_written_mutants_are_left_alone():
    """Or a change would mean nothing."""
    assert {change.line for change in changes(SOURCE)} == {5, 7, 8}
