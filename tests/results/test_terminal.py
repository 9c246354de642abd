import io
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from cases import config, summary
from rich.console import Console

from pipeline.results.terminal import progress, show

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
    for start in ("1,024 never baseline 9.463 - - ok", "control ±0.8 % 9.482 1.002", "batch FASTER 9.832 0.900",
                  "row.v2 FAILED - - 0/7 FAILED"):  # fmt: skip
        assert any(row.startswith(start) for row in rows)
    assert "0.900 [0.894, 0.905]" in page and "7/7" in page
    assert "…" not in page
    for clause in summary().headline.removesuffix(".").split("; "):
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
    assert "1,048,576" in page and "UNDECIDED" not in page
    assert "FASTER" in page and "0.900 [0.894, 0.905]" in page and "…" not in page
    columns = [line[12:].split("  ")[0].strip() for line in page.splitlines()]
    assert LONG in "".join(columns)


def test_progress_draws_only_when_it_is_called():
    threads = threading.active_count()
    file = io.StringIO()
    with progress(Console(file=file, width=100)) as advance:
        advance("decode-2048", 1, 3)
        assert threading.active_count() == threads
        advance("decode-2048", 3, 3)
        advance("decode-4096", 1, 2)
    assert "decode-2048" in file.getvalue() and "3/3" in file.getvalue() and "1/2" in file.getvalue()
