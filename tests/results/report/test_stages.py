from dataclasses import replace

from pipeline.evidence.costs import Breakdown, Explanation, Roof, StageCost
from pipeline.evidence.findings import Findings
from pipeline.results.report.stages import stages

ROOF = Roof(copy_bytes_per_second=4.3e12, matrix_flops_per_second=7.5e14, launch=1.2e-6, fp8_flops_per_second=1.4e15)
ATTEND = StageCost("attend", 1, 21e-6, 20.8e-6, 21.2e-6, 18_000_000, 3_200_000_000, 4.3e-6, "flops", 0.15)
SELECT = StageCost("select", 1, 30e-6, None, None, 43_000_000, 0, 10e-6, "bytes", 0.21)
LOCATE = StageCost("locate", 1, 1.5e-6, 1.4e-6, 1.6e-6, 262_144, 0, 6.1e-8, "launch", 0.01, "select")
BEFORE = Breakdown("decode-1024", "never", 140e-6, (SELECT, LOCATE, ATTEND), 89e-6, (0, 1), 14e-6)
QUICK = replace(SELECT, seconds=2e-6, limit=1e-7, bound_by="launch")
COMMON = (replace(LOCATE, share=0.013), replace(ATTEND, share=0.19))
AFTER = replace(BEFORE, arm="batch", step=112e-6, stages=(QUICK, *COMMON), rest=89e-6)
TOLD = Explanation(
    "decode-1024", "batch", ("select",), -28e-6, -28.2e-6, -27.8e-6, -28e-6, -28.5e-6, -27.5e-6, 1.0, True, "fine"
)
FLAGGED = replace(
    TOLD, arm="fast", changed=("locate",), stages=-1e-6, share=0.036, explained=False, detail="only a part"
)


def test_what_runs_side_by_side_is_said():
    beside = replace(TOLD, arm="streams", changed=("streams",), share=None, explained=None, overlaps=True)
    text = stages(Findings(roof=ROOF, explanations=(TOLD, beside), breakdowns=(BEFORE,)))
    assert "| `decode-1024` | `streams` | streams |" in text and "| - | side by side |" in text
    assert "Side by side: in one of the two arms stages overlap in a step" in text
    assert "Side by side" not in stages(Findings(roof=ROOF, explanations=(TOLD,), breakdowns=(BEFORE,)))


def test_nothing_was_taken_apart():
    assert stages(Findings()) == ""


def test_a_stage_has_its_time_its_limit_and_its_rates():
    text = stages(Findings(roof=ROOF, breakdowns=(BEFORE,)))
    assert "copying 4,300 GB/s read plus write, products 750 TFLOP/s, 1,400 in fp8, an empty call 1.20 µs" in text
    assert "behind a read that empties the L2 cache" not in text
    assert "| attend | 1 | 21.0 [20.8, 21.2] | 15.0 % | 4.30 | 20 % | flops | 857 | 152 |" in text
    assert "| select | 1 | 30.0 | 21.0 % | 10.0 | 33 % | bytes | 1,433 | - |" in text
    assert "| &nbsp;&nbsp;locate | 1 |" in text
    assert "<summary>decode-1024: never 140 µs, at the limits 14.3, rest 64 %</summary>\n\n| stage |" in text


def test_what_a_graph_does_to_stages_is_said():
    text = stages(Findings(roof=replace(ROOF, graph_launch=0.8e-6), breakdowns=(replace(BEFORE, graphed=True),)))
    assert "an empty call 1.20 µs, in a graph 0.800 µs." in text
    assert "timed behind a read that empties the L2 cache" in text


def test_other_arms_show_what_they_do_not_have_in_common_with_the_first():
    text = stages(Findings(roof=ROOF, breakdowns=(BEFORE, AFTER)))
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert rows == [
        "| stage",
        "| ---",
        "| select `never`",
        "| &nbsp;&nbsp;locate `never`",
        "| attend `never`",
        "| select `batch`",
    ]
    assert "batch 112 µs" in text


def test_every_table_is_as_wide_as_its_head():
    text = stages(Findings(roof=ROOF, breakdowns=(BEFORE, AFTER), explanations=(TOLD, FLAGGED)))
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert len(blocks) == 2
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1


def test_what_is_not_explained_is_said_first():
    text = stages(Findings(explanations=(TOLD, FLAGGED)))
    assert "- `fast` at `decode-1024`: only a part" in text
    assert text.index("Alone and in the step not the same") < text.index("| case |")
    assert "| `decode-1024` | `batch` | select | -28.0 [-28.2, -27.8] | -28.0 [-28.5, -27.5] | 100 % | yes |" in text
    assert text.count("**no**") == 1
    assert "Not explained" not in stages(Findings(explanations=(TOLD,)))


def test_a_rate_far_below_a_teraflop_is_said_so():
    slow = replace(ATTEND, flops=1000)
    assert "| 857 | < 0.001 |" in stages(Findings(roof=ROOF, breakdowns=(replace(BEFORE, stages=(slow,)),)))
