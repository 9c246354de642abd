import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from pipeline.results.report import note, report
from pipeline.results.report.markdown import ELSEWHERE, LONGEST
from tests.results.cases import assert_in_order, config, provenance, summary
from tests.results.full import WARNING, full

FOLDER = Path("/somewhere/outputs/short_ctx/20261129T164400Z-ab12cd")
PLOTS = [FOLDER / "plots" / "decode-tpot.png"]


def text(found=None):
    seen = provenance(overrides=("+exp=short_ctx", "model.topk=128"))
    return report(found or summary(), config(), seen, FOLDER, PLOTS)


def markdown_tables(page):
    """Cells of every table, checked to be one by GitHub's rules: equal widths and a line of dashes below the header."""
    found, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            assert len({len(row) for row in rows}) == 1
            assert all(set(cell) <= set(":-") for cell in rows[1])
            found.append([rows[0], *rows[2:]])
            rows = []
    return found


def tables_of(page):
    """By their first column, first come first kept."""
    return {tuple(table[0][:2]): table for table in reversed(markdown_tables(page))}


def test_the_verdict_comes_first():
    lines = text().splitlines()
    assert lines[0] == "# short_ctx"
    [arms] = [line for line in lines if line.startswith("Arms: ")]
    assert arms.startswith("Arms: `never`: the baseline · `batch`: never again · `row.v2`: attend.reference (mode=1e3")
    assert arms.endswith("`noise`: never again.") and lines.index(arms) > lines.index("Found:")
    assert lines[2] == "tiny, layers csa, tp 8, scope stack, requests 4, on NVIDIA H200."
    found = lines.index("Found:")
    failure = "row.v2 has no figures at decode-2052, its check failed: layer 0, step 3: output error 0.31 > 0.03"
    assert f"- ⚠ {failure}" in lines[:found]
    assert lines[found + 2] == "- row.v2 failed its check"
    assert lines[found + 3].startswith("- batch is **FASTER** than never at 4 of 7")


def test_what_was_asked_and_what_undermines_it_stand_before_what_was_found():
    page = text(full())
    order = [
        "claim pr_1 **REPRODUCED**: TPOT at 2k: published -12.0 %, found -10.0 % [-10.7, -9.4]",
        "- **NOT HELD**: gate, 9 of 10 demands held: 1%",
        "Before believing it:",
        "- ⚠ row.v2 has no figures at decode-2052",
        f"- ⚠ {WARNING}".replace("<", "&lt;"),
        "- ⚠ batch is FASTER at decode-2047, and the stages that it changes do not explain it",
        "Found:",
        "- batch against never in decode (TPOT): **FASTER** by 10.0 % up to context 2051",
        "- the stages that batch changes explain 97 % of its difference in 1 case",
        "### decode: TPOT ms",
        "### Claim: [pr_1]",
        "### Where it applies",
        "<details><summary>Plots</summary>",
        "<details><summary>Gate: NOT HELD</summary>",
        "<details><summary>Does what changed explain it?</summary>",
        "<details><summary>Where a step goes</summary>",
        "<details><summary>Every figure</summary>",
        "<details><summary>The machine while it was timed</summary>",
        "<details><summary>In cycles of the device</summary>",
        "<details><summary>What was compiled</summary>",
        "<details><summary>What was timed</summary>",
        "### Reproduce",
    ]
    assert_in_order(page, order)


def test_the_short_table_has_a_line_for_each_context_and_the_mean_of_all():
    short = tables_of(text(full()))["context", "`never` TPOT ms"]
    assert short[0] == [
        *("context", "`never` TPOT ms", "`batch` ratio [95 % jointly]", "`row.v2` ratio [95 % jointly]", "noise"),
    ]
    faster = ["**FASTER** 0.900 [0.894, 0.905]", "**FASTER** 0.970 [0.963, 0.976]"]
    assert short[1] == ["1,024", "9.463", *faster, "±0.8 %"]
    lines = {line[0]: line for line in short}
    assert lines["2,052"][3] == "**FAILED**"
    assert lines["4,096"][3] == "UNDECIDED 1.000 [0.993, 1.006]<br>too noisy"
    assert lines["all"][1:] == [
        *("-", "**FASTER** 0.942 [0.938, 0.946]", "UNDECIDED 0.986 [0.982, 0.990]<br>180 rounds would decide"),
        "±0.6 %",
    ]
    assert list(lines) == ["context", "1,024", "2,047", "2,048", "2,051", "2,052", "4,096", "8,192", "all"]


def test_many_arms_get_a_line_each():
    found = summary()
    case = found.cases[0]
    many = {f"row{number}": replace(case.arms["batch"], arm=f"row{number}") for number in range(6)}
    case = replace(case, arms={"never": case.arms["never"], **many, "control": case.arms["control"]})
    short = markdown_tables(note(replace(found, cases=(case,)), config()))[0]
    assert short[0] == ["context", "1,024"]
    assert short[2] == ["`row0` ratio [95 % jointly]", "**FASTER** 0.900 [0.894, 0.905]"]
    assert len(short) == 1 + 1 + 6 + 1


def test_every_figure_is_in_the_long_tables():
    decode, prefill, *serve = [table for table in markdown_tables(text()) if table[0][1] == "arm"]
    assert decode[0] == [
        "context",
        "arm",
        "verdict",
        "TPOT ms",
        "ratio [95 % jointly]",
        "skipped",
        "check (rel. error)",
        "tok/s",
    ]
    assert decode[7] == ["", "`batch`", "**FASTER**", "9.832", "0.900 [0.894, 0.905]", "7/7", "ok (2e-03)", "406.8"]
    assert len(decode) == 1 + 7 * 4 and len(prefill) == 1 + 2 * 4 and len(serve) == 2
    assert "decode 1,024: never 2 of 20; decode 2,047: never 2 of 20" in text(full())


def test_a_stage_has_no_throughput():
    found = summary()
    case = replace(found.cases[0], primary="step", judged=("step",))
    page = text(replace(found, cases=(case,)))
    header = next(table[0] for table in markdown_tables(page) if table[0][1] == "arm")
    assert header == ["context", "arm", "verdict", "µs a call", "ratio [95 % jointly]", "skipped", "check (rel. error)"]


def test_it_says_what_was_timed_on_what_and_how_to_do_it_again():
    page = text()
    for part in (
        "scope: `stack`, layers `csa`, tp 8, model `tiny`",
        "bf16, KV `fp8_ds_mla`, index `fp8`, on cpu",
        "noise floor: 0.8 %",
        "margin: ±2 % counts as the same",
        "way: graph off, L2 warm; a time is that of the call",
        "NVIDIA H200, driver 580.159; AMD EPYC, 2 cores",
        "torch 2.13.0",
        "commit 0123456789ab with uncommitted changes",
        "python -m pipeline +exp=short_ctx model.topk=128\n",
        "`python -m pipeline --config-dir=outputs/short_ctx/20261129T164400Z-ab12cd +exp=again`",
        "![decode-tpot](plots/decode-tpot.png)",
    ):
        assert part in page
    assert "triton" not in page, "a package that is not there has no version"


@pytest.mark.parametrize(
    ("graph", "scope", "told"),
    [
        ("off", "stack", ("graph off, L2 warm; launched call by call from an idle device",)),
        ("full", "attend", ("graph full, L2 warm; replayed as a graph, it is the device's alone",)),
        (
            "both",
            "stack",
            ("steps that only decode: replayed as a graph", "steps with prompts, and all in an eager"),
        ),
    ],
)
def test_it_says_what_a_time_holds_on_a_gpu(graph, scope, told):
    made = config()
    made = replace(
        made,
        engine=replace(made.engine, device="cuda", graph=graph),
        measure=replace(made.measure, scope=scope),
    )
    page = report(summary(), made, provenance(), Path("/somewhere/outputs/short_ctx/a"), [])
    assert all(part in page for part in told)
    assert ("holds the launches" in page) is (graph != "full")


def test_late_launches_are_told_before_what_was_found():
    found = summary()
    pages = [text(replace(found, cases=(replace(found.cases[0], late=late), *found.cases[1:]))) for late in (30, 3)]
    line = "the device was done before the host had launched in 30 of 560 steps of decode-1024"
    assert 0 < pages[0].index(line) < pages[0].index("Found:")
    assert "had launched in 3 of" not in pages[1], "one in two hundred is no reason to doubt"
    assert "late: in 3 replayed steps the device was done before the host had launched" in pages[1]
    assert "had launched" not in text()


def test_without_a_control_the_noise_is_unknown():
    page = report(replace(summary(), control=None), config(), provenance(), FOLDER, [])
    assert "noise floor: unknown, no control arm" in page
    assert "Plots" not in page and "noise |" not in page


def test_github_sees_tables_lists_and_folds():
    html = MarkdownIt("commonmark").enable("table").render(text(full()))
    assert html.count("<table>") == len(markdown_tables(text(full()))) == 15
    assert html.count("<details>") == html.count("</details>") == 9, "the stages of every case are in the page alone"
    assert "|" not in re.sub(r"<[^>]+>", "", html), "a line of a table that is none"
    assert "**" not in html and "<python>" not in html
    verdict = html[: html.index("<h3>")]
    assert verdict.count("<ul>") == 3, "lists that follow each other would be one"


def test_a_report_fits_into_a_pull_request():
    found = full()
    whole = found.findings.breakdowns
    many = tuple(replace(one, case=f"{one.case}-{copy}") for copy in range(100) for one in whole)
    cases = tuple(
        replace(case, case=f"{case.case}-{copy}", context=case.context + copy)
        for copy in range(3)
        for case in found.cases
    )
    page = text(replace(found, cases=cases, findings=replace(found.findings, breakdowns=many)))
    assert len(page) < LONGEST
    assert f"<details><summary>Where a step goes</summary>\n\n{ELSEWHERE}" in page
    assert page.count(ELSEWHERE) == 1 and "### Reproduce" in page


def test_the_note_of_a_usual_run_fits_a_tag():
    assert len(note(full(), config())) < 8000
    assert "<details>" not in note(full(), config())


def test_what_an_experiment_is_about_is_not_folded_away():
    """Compiles, where an experiment compiles anew."""
    chosen = config()
    anew = replace(chosen, measure=replace(chosen.measure, compile_anew=True))
    page = report(full(), anew, provenance(), FOLDER, [])
    assert "\n### What was compiled\n" in page and "\n### What was compiled\n" not in text(full())
