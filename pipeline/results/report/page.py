"""report.html: one file that needs no other and no network, with the pictures in it, light or dark as the reader's."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt

from pipeline.evidence.summary import Summary
from pipeline.results.arms import arms
from pipeline.results.folder.provenance import Provenance
from pipeline.results.plots import palette
from pipeline.results.plots.picture import Picture, svg
from pipeline.results.report.section import Section, literal
from pipeline.results.report.sections import answered, behind
from pipeline.results.report.timed import commit, reproduce
from pipeline.results.verdict import KINDS, WORD, doubts, found, outcomes, title
from pipeline.schema import Config

HERE = Path(__file__).parent
TEXT = re.compile(r">[^<]+")
APART = re.compile(r"(?<=[\d\]]) (?=%)|(?<=\d,) (?=[-+\d.]+\])")  # blanks at which no line may end


def page(summary: Summary, config: Config, provenance: Provenance, folder: Path, pictures: Sequence[Picture]) -> str:
    drawn = {topic: _pictures(pictures, topic) for topic in ("times", "stages")}
    sections = behind(summary, config, provenance)
    told = [section for section in sections if section.topic == "stages"]
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        style=_variables() + (HERE / "page.css").read_text(encoding="utf-8"),
        name=escape(config.name),
        title=escape(title(summary, config, provenance)),
        arms=_inline(" · ".join(f"`{arm}`: {said}" for arm, said in arms(summary, config).items())),
        when=f"{provenance.utc} · {commit(provenance)}",
        outcomes=_list(outcomes(summary.findings), "outcomes"),
        doubts=_list(doubts(summary), "doubts"),
        headline=_list(found(summary), "headline"),
        answers="".join(_shown(section) for section in answered(summary, config)),
        times=_block("Times and ratios", "plots", drawn["times"]),
        stages=_block("Stages and limits", "stages", drawn["stages"] + "".join(_shown(section) for section in told)),
        behind="".join(_shown(section) for section in sections if section.topic != "stages"),
        reproduce=_shown(reproduce(provenance, folder)),
    )


def rendered(markdown: str) -> str:
    """HTML with verdicts in their colours; tables scroll where they are wider than the page."""
    made = MarkdownIt("commonmark").enable("table").render(markdown)
    made = made.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return _coloured(made)


def _coloured(html: str) -> str:
    return TEXT.sub(lambda text: WORD.sub(_word, APART.sub("\N{NO-BREAK SPACE}", text[0])), html)


def _word(found: re.Match) -> str:
    return f'<span class="{KINDS[found[1]]}">{found[1]}</span>'


def _shown(section: Section) -> str:
    title, body = _inline(section.title), rendered(section.body)
    if not section.folded:
        return f"<section><h2>{title}</h2>{body}</section>"
    return f"<details><summary>{title}</summary>{body}</details>"


def _block(title: str, anchor: str, body: str) -> str:
    return f'<section id="{anchor}"><h2>{title}</h2>{body}</section>' if body else ""


def _inline(markdown: str) -> str:
    return _coloured(f"<span>{MarkdownIt('commonmark').renderInline(markdown)}</span>")


def _list(lines: Iterable[str], kind: str) -> str:
    items = "".join(f"<li>{_inline(literal(line))}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def _pictures(pictures: Sequence[Picture], topic: str) -> str:
    return "".join(f"<figure>{svg(picture)}</figure>" for picture in pictures if picture.topic == topic)


def _variables() -> str:
    """The colours of the pictures, for a light page and for a dark one."""
    everything = {*palette.CANDIDATES, *palette.STAGES.values(), *palette.ON_DARK, palette.CONTROL, "#FFFFFF"}
    dark = {**palette.ON_DARK, "#FFFFFF": "#15181C"}
    light = "".join(f"--c-{colour[1:].lower()}:{colour};" for colour in sorted(everything))
    turned = "".join(f"--c-{colour[1:].lower()}:{other};" for colour, other in sorted(dark.items()))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{turned}}}}}\n"
