from dataclasses import replace

from pipeline.evidence.detected import Bar, Detection, SelfTest
from pipeline.evidence.findings import Findings
from pipeline.results.folder.record import open_run, read_summary, write_summary
from pipeline.results.report import report
from pipeline.results.report.selftest import section, shown
from tests.results.cases import config, provenance, summary

VERDICTS = ("SLOWER", "FASTER", "SAME", "UNDECIDED")
DETECTIONS = (
    Detection("same", 0.0, 0.0, 1.0, 1.0003, 0.0021, 0, 1, 97, 2, 96, 100, 71, 0.0034),
    Detection("delay-1", 0.01, 1.8123e-6, 1.0098, 1.0101, None, 0, 93, 5, 2, 94, 100),
)
BARS = (Bar("a delay of 1 % SLOWER", 93, 90, 100), Bar("the interval holds the truth of A against A", 80, 90, 100))
TESTED = SelfTest("decode-4096", "emit", 181.2e-6, 100, 24, 0.01, 0.01, DETECTIONS, BARS)


def test_the_table_has_a_row_for_each_delay():
    header, rule, *rows = shown(TESTED).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (header, *rows)]
    assert cells == [
        ["put in", "true", "found", "± interval", "± noise", *VERDICTS, "holds the truth"],
        ["nothing", "+0.00 %", "+0.03 %", "0.21 %", "0.34 %", "1", "0", "97", "2", "96 of 100 (71)"],
        ["1 %, 1.81 µs", "+0.98 %", "+1.01 %", "-", "-", "93", "0", "5", "2", "94 of 100 (0)"],
    ]
    assert set(rule) <= set("|-: ")
    assert len({len(row) for row in (header, rule, *rows)}) == 1


def test_the_section_says_what_was_held_and_what_was_missed():
    text = section(TESTED)
    assert "**1 %** of a step" in text
    assert "- held: a delay of 1 % SLOWER, 93 of 100, 90 needed" in text
    assert "- **MISSED**: the interval holds the truth of A against A, 80 of 100, 90 needed" in text
    assert "100 runs of 24 rounds" in text and "181.2 µs" in text and "`emit`" in text
    assert "**none** of a step" in section(replace(TESTED, smallest=None))


def test_it_is_in_the_report_and_survives_the_folder(tmp_path):
    made, found = config(str(tmp_path)), replace(summary(), findings=Findings(self_test=TESTED))
    run = open_run(made, provenance(str(tmp_path)))
    write_summary(run, found)
    assert read_summary(run.folder).findings.self_test == TESTED
    assert section(TESTED) in report(found, made, provenance(), run.folder, [])
    assert "detects" not in report(summary(), made, provenance(), run.folder, [])
