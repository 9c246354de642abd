"""The sections of a report below its verdict, in their order; a run has those that it found something for."""

from pipeline.evidence.summary import Summary
from pipeline.results.folder.provenance import Provenance
from pipeline.results.report import answers, selftest, watched
from pipeline.results.report.figures import legend, long, short
from pipeline.results.report.section import Section, titled
from pipeline.results.report.stages import stages
from pipeline.results.report.timed import timed
from pipeline.schema import Config


def answered(summary: Summary, config: Config) -> list[Section]:
    """What a reader came for."""
    found, tested = summary.findings, []
    if found.self_test:
        tested = [titled(selftest.section(found.self_test))]
    tables = short(summary, config)
    tables[-1] = Section(tables[-1].title, f"{tables[-1].body}\n\n{legend(summary, config)}")
    asked = [answers.claim_section(found.claim), answers.applies_section(found.applies)]
    asked.append(answers.projected_section(found.projected))
    return [*tested, *tables, *(titled(text) for text in asked if text)]


def behind(summary: Summary, config: Config, provenance: Provenance, whole: bool = True) -> list[Section]:
    """What a sceptic asks for; `whole`: with every stage of every step."""
    gate = answers.gate_section(summary.findings.gate)
    parts = [titled(f"### {text}", "stages", folded=True) for text in _split(stages(summary.findings, whole))]
    return [
        *([titled(gate, folded=True)] if gate else []),
        *parts,
        long(summary, config),
        *(titled(text, folded=not config.measure.compile_anew) for text in watched.sections(summary)),
        timed(summary, config, provenance),
    ]


def _split(markdown: str) -> list[str]:
    return [part.strip() for part in f"\n\n{markdown}".split("\n\n### ")[1:]]
