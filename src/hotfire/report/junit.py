"""A verdict as JUnit XML: one test case a part, or one for a verdict without parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from hotfire.verdict import Status, Verdict

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(verdict: Verdict) -> str:
    """The document."""
    leaves = list(_leaves(verdict))
    suite = Element("testsuite", name=_clean(verdict.name), tests=str(len(leaves)))
    for leaf in leaves:
        case = SubElement(suite, "testcase", name=_clean(leaf.name), classname="hotfire")
        if "seconds" in leaf.measurements:
            case.set("time", str(leaf.measurements["seconds"]))
        if leaf.status is Status.SKIPPED:
            SubElement(case, "skipped", message=_clean(leaf.reason))
        elif leaf.status is not Status.PASSED:
            text = "\n".join(
                f"{found.severity.value} {found.rule} {' '.join(found.subject.values())}: "
                f"{found.message}\n{found.reproduce}"
                for found in leaf.findings
            )
            failure = SubElement(case, "failure", message=_clean(f"{leaf.status} {leaf.reason}"))
            failure.text = _clean(text)
    suite.set("failures", str(len(suite.findall("*/failure"))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


def _leaves(verdict: Verdict) -> Iterator[Verdict]:
    if not verdict.parts:
        yield verdict
    for part in verdict.parts:
        yield from _leaves(part)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
