"""report.md: short enough for a pull request, what is long is folded away; and the note of a tracker."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.evidence.summary import Summary
from pipeline.results.arms import arms
from pipeline.results.folder.provenance import Provenance
from pipeline.results.report.section import Section, bullets, literal
from pipeline.results.report.sections import answered, behind
from pipeline.results.report.timed import reproduce
from pipeline.results.verdict import WORD, doubts, found, outcomes, title
from pipeline.schema import Config

LONGEST = 60_000  # characters; GitHub takes 65,536
ELSEWHERE = "Too long for this page: it is in report.html."


def report(summary: Summary, config: Config, provenance: Provenance, folder: Path, plots: Sequence[Path] = ()) -> str:
    """GitHub's Markdown. `folder` is the run's; plots are linked relative to it."""
    told = " · ".join(f"`{arm}`: {said}" for arm, said in arms(summary, config).items())
    parts = [f"# {config.name}", f"{title(summary, config, provenance)}.", *verdict(summary), f"Arms: {told}."]
    parts += [_shown(section) for section in answered(summary, config)]
    sections = behind(summary, config, provenance, whole=False)
    if plots:
        shown = "\n\n".join(f"![{plot.stem}]({plot.relative_to(folder).as_posix()})" for plot in plots)
        sections.insert(0, Section("Plots", shown, folded=True))
    last = _shown(reproduce(provenance, folder))
    room = LONGEST - sum(map(len, parts)) - len(last)
    parts += [_shown(section) for section in _fitting(sections, room)]
    return "\n\n".join([*parts, last]) + "\n"


def note(summary: Summary, config: Config) -> str:
    """The verdict, the short tables and the answers alone."""
    return "\n\n".join([*verdict(summary), *(_shown(section) for section in answered(summary, config))])


def verdict(summary: Summary) -> list[str]:
    """What was asked, what undermines it, what was found."""
    told, doubted = outcomes(summary.findings), doubts(summary)
    parts = [bullets(map(_strong, told))] if told else []
    if doubted:
        parts.append("Before believing it:\n\n" + bullets(f"⚠ {literal(line)}" for line in doubted))
    lines = bullets(map(_strong, found(summary)))
    return [*parts, f"Found:\n\n{lines}" if parts else lines]


def _strong(line: str) -> str:
    return WORD.sub(r"**\1**", literal(line))


def _fitting(sections: Sequence[Section], room: int) -> list[Section]:
    """The longest give way first."""
    found = list(sections)
    while sum(len(section.body) for section in found) > room:
        longest = max(range(len(found)), key=lambda at: len(found[at].body))
        if found[longest].body == ELSEWHERE:
            break
        found[longest] = replace(found[longest], body=ELSEWHERE)
    return found


def _shown(section: Section) -> str:
    if not section.folded:
        return f"### {section.title}\n\n{section.body}"
    return f"<details><summary>{section.title}</summary>\n\n{section.body}\n\n</details>"
