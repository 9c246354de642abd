import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from pipeline.results.plots import pictures
from pipeline.results.report import page, write_report
from pipeline.results.report.page import rendered
from tests.results.cases import assert_in_order, config, provenance, summary
from tests.results.full import full

FOLDER = Path("/somewhere/outputs/short_ctx/20261129T164400Z-ab12cd")
VOID = {"meta", "br", "hr", "img", "link", "input", "path", "use"}


class Outline(HTMLParser):
    """Every tag with its attributes, and the text; asserts that what is opened is closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self._open = [], [], []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.text.append(data)


@cache
def html():
    found = full()
    return page(found, config(), provenance(), FOLDER, pictures(found, config(), "H200"))


@cache
def outline():
    return Outline(html())


def words():
    return " ".join(" ".join(outline().text).replace("\N{NO-BREAK SPACE}", " ").split())


def test_it_needs_nothing_but_itself():
    tags = outline().tags
    assert not {tag for tag, _ in tags} & {"script", "link", "iframe", "object", "embed", "base", "img", "image"}
    for tag, attributes in tags:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "data", "srcset", "poster"):
                assert value.startswith("#") or tag == "a", f"{tag} loads {value}"
    style = html()[html().index("<style>") : html().index("</style>")]
    assert "@import" not in style and "url(" not in style
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html()))


def test_the_verdict_comes_first_and_is_coloured():
    text = words()
    before = ["NOT HELD : gate", "row.v2 has no figures at decode-2052"]
    order = [*before, "batch against never in decode", "decode: TPOT ms"]
    assert_in_order(text, order)
    assert '<span class="bad">NOT HELD</span>: gate, 9 of 10 demands held' in html()
    assert '<span class="good">REPRODUCED</span>' in html() and '<span class="open">UNDECIDED</span>' in html()


def test_figures_are_in_the_tables():
    text = words()
    for part in ("0.900 [0.894, 0.905]", "180 rounds would decide", "≥ 95 %", "48,213 launches", "1,965", "conv"):
        assert part in text
    rows = re.findall(r"<tr>(.*?)</tr>", html(), re.DOTALL)
    means = next(row for row in rows if ">all<" in row)
    assert "0.942" in means and "0.986" in means and "180 rounds would decide" in means


def test_pictures_are_drawn_into_it_for_light_and_dark():
    assert html().count("<svg ") == html().count("<figure>") == 7
    used = set(re.findall(r"var\((--c-[0-9a-f]{6}), #", html()))
    told = set(re.findall(r"(--c-[0-9a-f]{6}):", html()))
    assert used and used <= told
    assert html().count("@media (prefers-color-scheme: dark)") == 2


def test_what_others_wrote_stays_text():
    text = words()
    assert "pid 4711 <python>, 3.1 GB" in text and "row.v2 < FAILED > its check" in text
    found = replace(summary(), headline=("a <script>alert(1)</script> | b",))
    assert "<script" not in page(found, config(), provenance(), FOLDER, [])


def test_an_interval_and_a_percentage_stay_on_one_line():
    blank = "\N{NO-BREAK SPACE}"
    assert f"[0.894,{blank}0.905] ±0.8{blank}%" in rendered("[0.894, 0.905] ±0.8 %")
    assert '<span class="good">FASTER</span>' in rendered("`x` FASTER")


def test_a_run_without_findings_has_no_empty_sections():
    bare = page(summary(), config(), provenance(), FOLDER, [])
    for name in ("Stages and limits", "Claim", "What was compiled", "Times and ratios", 'class="outcomes"'):
        assert name not in bare
    assert "Reproduce" in bare


def test_a_folder_holds_both_and_the_pictures(tmp_path):
    write_report(full(), config(), provenance(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.html", "plots"}
    linked = re.findall(r"\]\((plots/[^)]*)\)", (tmp_path / "report.md").read_text())
    assert sorted(linked) == sorted(f"plots/{path.name}" for path in (tmp_path / "plots").iterdir())
    assert len(linked) == 7
