from dataclasses import replace

from pipeline.evidence.findings import Applies, ClaimOutcome, Crossing, Findings, GateOutcome, Projected, Weighted
from pipeline.results.answers import lines
from pipeline.results.report.answers import applies_section, claim_section, gate_section, projected_section

WEIGHTED = Weighted("conv", "A trace, CC-BY", "tpot", 0.85, 0.84, 0.862, 0.9, 0.946, "decode steps", 64, 0.0012)
CROSSINGS = (Crossing(1024, 2051, None), Crossing(2051, 2052, 2051.6))
APPLIES = Applies("decode", "batch", (1024, 2051), CROSSINGS, (WEIGHTED,), "", (1024, 2051, 2052), (1024,))
MODEL = ClaimOutcome(
    "pr_1", "https://example.org/1", "tpot", -0.0098, None, None, None, "NOT DECIDABLE HERE", "of a model", (), "Title",
    "TPOT", "model", "stage locate alone",
)  # fmt: skip
CLAIM = ClaimOutcome(
    "pr_1", "https://example.org/1", "step", -0.151, -0.256, -0.261, -0.251, "REPRODUCED", "more than claimed",
    ("gpu: not told there, NVIDIA H200 here", "experts: parallel there; not set here"), "Title", "kernel", "locate",
    "constexpr against runtime, step of stage locate alone, case decode-4096", "", (7.5e-6, 6.37e-6),
    (2.5385e-6, 1.88456e-6), (MODEL,),
)  # fmt: skip
PROJECTED = Projected("decode-1024", "batch", "tpot", 0.04, -0.0945, -0.084, "21 csa layers take 52% of its time")
UNSAID = Projected("decode-2048", "batch", "tpot", 0.04, None, None, "21 csa layers cannot be projected: few")
GATE = GateOutcome(False, ("VIOLATED: batch at decode-1024", "0 of 1 demands held: gate.max_regression=1%"))


def table_rows(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_nothing_asked_is_nothing_said():
    assert (gate_section(None), claim_section(None), applies_section(()), projected_section(())) == ("",) * 4
    assert lines(Findings()) == []


def test_a_gate_and_its_reasons():
    section = gate_section(GATE)
    assert section.splitlines()[0] == "### Gate: NOT HELD"
    assert section.splitlines()[2:] == [f"- {line}" for line in GATE.lines]
    held = gate_section(replace(GATE, held=True))
    assert held.splitlines()[0] == "### Gate: held"


def test_a_claim_has_both_figures_side_by_side_and_what_differs():
    section = claim_section(CLAIM)
    assert section.startswith("### Claim: [pr_1](https://example.org/1)\n\nTitle\n")
    assert table_rows(section) == [
        "| kernel (locate, step) | -15.1 % (7.5 to 6.37 us) | -25.6 % [-26.1, -25.1] (2.538 to 1.885 us) | "
        "**REPRODUCED** |",
        "| TPOT (model, tpot) | -0.98 % | - | **NOT DECIDABLE HERE** |",
    ]
    assert "Setting: `gpu` not told there, NVIDIA H200 here; `experts` parallel there; not set here." in section
    assert "*TPOT*: of a model. Timed: stage locate alone." in section


def test_where_it_applies_names_contexts_break_even_and_the_traffic():
    section = applies_section((APPLIES,))
    assert table_rows(section)[0] == (
        "| decode | `batch` | 1,024 | 1,024, 2,051 | between 1,024 and 2,051, 2,052 (between 2,051 and 2,052) |"
    )
    assert table_rows(section)[-1] == (
        "| `conv` | decode | `batch` | TPOT 0.850 [0.840, 0.862] | 95% of decode steps | 90% | 0.1% of batches of 64 |"
    )
    assert "- `conv`: A trace, CC-BY." in section
    bare = applies_section((replace(APPLIES, weighted=(), crossings=(), mode="cold"),))
    assert table_rows(bare) == ["| decode (cold) | `batch` | 1,024 | 1,024, 2,051 | none between these contexts |"]
    assert "Not observable" not in section + bare


def test_a_fast_path_that_nobody_sees_is_not_called_none():
    unseen = replace(APPLIES, fast_path=None, weighted=(replace(WEIGHTED, on_fast_path=None, batches=None),))
    section = applies_section((unseen,))
    assert table_rows(section)[0].startswith("| decode | `batch` | 1,024 | not observable |")
    assert table_rows(section)[-1].endswith("| 95% of decode steps | not observable | - |")
    assert "Not observable: no shortcut that the host takes;" in section


def test_what_it_is_worth_is_a_range_or_a_reason():
    section = projected_section((PROJECTED, UNSAID))
    assert table_rows(section) == [
        "| decode-1024 | `batch` | TPOT, 40 ms | -9.4 % to -8.4 % |",
        "| decode-2048 | `batch` | TPOT, 40 ms | - |",
    ]
    assert section.endswith("- decode-2048: 21 csa layers cannot be projected: few.")


def test_plain_lines_for_a_terminal():
    found = lines(Findings(applies=(APPLIES,), claim=CLAIM))
    assert found == [
        "decode, batch over conv: TPOT 0.850 [0.840, 0.862], of 95% of its decode steps",
        "claim pr_1 REPRODUCED: kernel: published -15.1 % (7.5 to 6.37 us), found -25.6 % [-26.1, -25.1] "
        "(2.538 to 1.885 us); more than claimed",
        "claim pr_1 NOT DECIDABLE HERE: TPOT: published -0.98 %, found -; of a model",
    ]
