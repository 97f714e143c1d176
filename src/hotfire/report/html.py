"""A verdict as one self-contained page: no script, nothing fetched, all text escaped."""

from __future__ import annotations

from importlib.resources import files

import jinja2

from hotfire.verdict import Verdict


def render(verdict: Verdict) -> str:
    """The page."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((files("hotfire.report") / "page.html.jinja").read_text())
    findings = sorted(verdict.all_findings(), key=lambda found: not found.severity.gates)
    return template.render(verdict=verdict, findings=findings)
