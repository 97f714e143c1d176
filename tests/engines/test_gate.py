"""The exactness gate of the main job: shut for planted faults, and it says if it would not be."""

from hotfire.engines import gate
from hotfire.engines.faults import FAULTS
from hotfire.engines.tracks import Prompts
from hotfire.verdict import Status


def test_the_gate_passes_and_its_alarms_ring():
    parts = list(gate.gate(str))
    assert [part.status for part in parts] == [Status.PASSED] * (1 + len(gate.FAULTS))
    assert "PREFILL_TO_DECODE" in parts[1].measurements["rules"]
    assert "ROLLBACK_" in parts[2].measurements["rules"]
    assert set(gate.FAULTS) <= set(FAULTS)


def test_a_silent_alarm_fails(monkeypatch):
    """The canary: where nothing is planted, the alarm's verdict is a failure."""
    monkeypatch.setattr(gate, "PROMPTS", Prompts(n_prompts=1, length_max=8, n_generated=2))
    verdict = gate._alarm(gate.SUBJECT)
    assert verdict.status is Status.FAILED
    assert verdict.findings[0].rule == "ALARM_SILENT"


def test_a_missing_model_is_no_pass(monkeypatch):
    monkeypatch.setattr(gate, "REFERENCE", "numpy:nowhere")
    [part] = gate.gate(str)
    assert part.status is Status.SKIPPED
    assert "nowhere" in part.reason
