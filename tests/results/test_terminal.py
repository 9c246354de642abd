import io
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.results.terminal import progress, show
from tests.results.cases import assert_in_order, config, summary
from tests.results.full import full

FOLDER = Path("/somewhere/outputs/short_ctx/20261129T164400Z-ab12cd")
LONG = "global_topk_with_eight_rows_per_program_and_every_word_spelt_out"


def shown(width, found=None):
    file = io.StringIO()
    show(found or summary(), config(), FOLDER, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_nothing_important_is_cut(width):
    page = shown(width)
    rows = [" ".join(line.split()) for line in page.splitlines()]
    for start in ("1,024 never baseline 9.463 - - ok", "noise ±0.8 % 9.482 1.002", "batch FASTER 9.832 0.900",
                  "row.v2 FAILED - - 0/7 FAILED"):  # fmt: skip
        assert any(row.startswith(start) for row in rows)
    assert "0.900 [0.894, 0.905]" in page and "7/7" in page
    assert "…" not in page
    for clause in summary().headline:
        assert clause in " ".join(page.split())
    assert f"report   {FOLDER}/report.md\n" in page
    assert max(map(len, page.splitlines()[:20])) <= width
    assert ("406.8" in page) == (width == 140)


def test_a_long_name_folds_and_leaves_the_verdict():
    found = summary()
    case = found.cases[0]
    arms = {LONG if name == "batch" else name: replace(arm, arm=LONG if name == "batch" else name)
            for name, arm in case.arms.items()}  # fmt: skip
    page = shown(80, replace(found, cases=(replace(case, arms=arms, context=1 << 20),)))
    assert "1,048,576" in page and "UNDECIDED" not in page[: page.index("Timed:")]
    assert "FASTER" in page and "0.900 [0.894, 0.905]" in page and "…" not in page
    columns = [line[12:].split("  ")[0].strip() for line in page.splitlines()]
    assert LONG in "".join(columns)


@pytest.mark.parametrize("width", [80, 120])
def test_what_was_found_besides_stands_last_and_fits(width):
    page = shown(width, full())
    told = page[page.index("Timed:") : page.index("\nreport ")]
    assert max(map(len, told.splitlines())) <= width and "…" not in page
    flat = " ".join(told.split())
    order = [
        "Outliers: 20 of 800 rounds",
        "Stages in decode at 4,096",
        "never attend 47% (2x), select 34% (2x), compress 7% (2x)",
        "Compiled: never 9 kernels in 14 forms, 6,200 ms",
        "claim pr_1 REPRODUCED: TPOT at 2k: published -12.0 %",
        "NOT HELD: gate, 9 of 10 demands held",
        "VIOLATED: row.v2 at decode-2052",
        "warning: row.v2 has no figures at decode-2052",
        "warning: another process on the device",
        "warning: batch is FASTER at decode-2047, and the stages that it changes do not explain it",
        "batch against never in decode (TPOT): FASTER by 10.0 %",
        "the stages that batch changes explain 97 % of its difference in 1 case",
        "worth in the model, batch at decode-1024: TPOT -9.4 % to -8.4 %",
    ]
    assert_in_order(flat, order)


def rows(width):
    return [" ".join(line.split()) for line in shown(width, full()).splitlines()]


def test_the_mean_of_all_contexts_ends_a_table():
    assert "all batch FASTER - 0.942 [0.938, 0.946] - -" in rows(80)
    assert rows(80).index("all batch FASTER - 0.942 [0.938, 0.946] - -") > max(
        number for number, row in enumerate(rows(80)) if row.startswith("8,192")
    )


def test_undecided_says_how_many_rounds_would_decide():
    narrow = rows(80)
    assert narrow[narrow.index("row.v2 UNDECIDED - 0.986 [0.982, 0.990] - -") + 1] == "180 rounds"
    assert any(row.startswith("row.v2 UNDECIDED, too noisy") for row in rows(120))


def test_a_long_list_of_demands_is_cut():
    found = full()
    gate = replace(found.findings.gate, lines=(*(f"VIOLATED: {number}" for number in range(9)), "0 of 9 demands held"))
    page = shown(80, replace(found, findings=replace(found.findings, gate=gate)))
    assert "VIOLATED: 3" in page and "VIOLATED: 4" not in page and "and 5 more, see the report" in page


def test_progress_draws_only_when_it_is_called():
    threads = threading.active_count()
    file = io.StringIO()
    with progress(Console(file=file, width=100)) as advance:
        advance("decode-2048", 1, 3)
        assert threading.active_count() == threads
        advance("decode-2048", 3, 3)
        advance("decode-4096", 1, 2)
    assert "decode-2048" in file.getvalue() and "3/3" in file.getvalue() and "1/2" in file.getvalue()
