from dataclasses import replace
from pathlib import Path

from cases import config, provenance, summary

from pipeline.results.report import note, report

FOLDER = Path("/somewhere/outputs/short_ctx/20261129T164400Z-ab12cd")
PLOTS = [FOLDER / "plots" / "decode-tpot.png"]


def text():
    return report(summary(), config(), provenance(overrides=("+exp=short_ctx", "model.topk=128")), FOLDER, PLOTS)


def markdown_tables(page):
    """Cells of every table, checked to be one by GitHub's rules: equal widths and a line of dashes below the header."""
    found, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            assert len({len(row) for row in rows}) == 1
            assert all(set(cell) <= set(":-") for cell in rows[1])
            found.append([rows[0], *rows[2:]])
            rows = []
    return found


def test_the_verdict_comes_first():
    lines = text().splitlines()
    assert lines[0] == "# short_ctx"
    assert lines[2] == f"**{summary().headline}**"
    assert "- `row.v2` at `decode-2052`: layer 0, step 3: output error 0.31 > 0.03" in lines[:8]


def test_tables():
    decode, prefill, *serve = markdown_tables(text())
    assert decode[0] == ["context", "arm", "verdict", "TPOT ms", "ratio [95 %]", "skipped", "check", "tok/s"]
    assert decode[7] == ["", "`batch`", "**FASTER**", "9.832", "0.900 [0.894, 0.905]", "7/7", "ok 2e-03", "406.8"]
    assert len(decode) == 1 + 7 * 4 and len(prefill) == 1 + 2 * 4 and len(serve) == 2


def test_a_stage_has_no_throughput():
    found = summary()
    case = replace(found.cases[0], primary="step")
    header = markdown_tables(note(replace(found, cases=(case,)), config()))[0][0]
    assert header == ["context", "arm", "verdict", "µs a call", "ratio [95 %]", "skipped", "check"]


def test_it_says_what_was_timed_on_what_and_how_to_do_it_again():
    page = text()
    for part in (
        "scope: `stack`, layers `csa`, tp 8, model `tiny`",
        "bf16, KV `fp8_ds_mla`, index `fp8`, on cpu",
        "noise floor: 0.8 %",
        "margin: ±2 % counts as the same",
        "NVIDIA H200, driver 580.159; AMD EPYC, 2 cores",
        "torch 2.13.0",
        "commit 0123456789ab with uncommitted changes",
        "python -m pipeline +exp=short_ctx model.topk=128\n",
        "`python -m pipeline --config-dir=outputs/short_ctx/20261129T164400Z-ab12cd +exp=again`",
        "![decode-tpot](plots/decode-tpot.png)",
    ):
        assert part in page
    assert "triton" not in page, "a package that is not there has no version"


def test_without_a_control_the_noise_is_unknown():
    page = report(replace(summary(), control=None), config(), provenance(), FOLDER, [])
    assert "noise floor: unknown, no control arm" in page
    assert "### Plots" not in page


def test_the_note_of_a_usual_run_fits_a_tag():
    assert len(note(summary(), config())) < 8000
