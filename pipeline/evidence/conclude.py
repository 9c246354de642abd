"""What a summary means: where the arms pay, whether a claim is true, what a gain is worth, whether it may pass."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipeline.evidence.answers.applies import applies
from pipeline.evidence.answers.claim import judged
from pipeline.evidence.answers.gate import gated
from pipeline.evidence.answers.projection import projected
from pipeline.evidence.answers.untold import untold
from pipeline.evidence.findings import GateOutcome
from pipeline.evidence.summary import Summary
from pipeline.evidence.timing.modes import in_modes
from pipeline.schema import Config
from pipeline.work.brought import NOTHING, Brought
from pipeline.work.workload import cases


def conclude(summary: Summary, config: Config, gpu: str | None, known: Brought = NOTHING) -> Summary:
    """The same summary with these findings added. What fails costs its own section: `broken` says why, and a gate that
    fails is not held."""
    broken: list[str] = []

    def made(name: str, section: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return section()
        except Exception as error:
            traceback.print_exc()
            broken.append(f"{name}: {type(error).__name__}: {error}")
            return otherwise

    arms = summary.baseline, summary.control
    where = made("applies", lambda: applies(summary.cases, config.workloads, known.traffic, *arms), None)
    silent = () if where is None else untold(known.traffic, where, config.workloads)
    claim = config.claim and made("claim", lambda: judged(config.claim, summary, config, gpu), None)
    worth = config.projection and made(
        "projection", lambda: projected(summary, config, config.projection, known.model_seconds), ()
    )
    unheld = GateOutcome(False, ("it could not be judged",))
    gate = made("gate", lambda: gated(summary, config.gate, _left_out(summary, config)), unheld)
    found = replace(
        summary.findings,
        applies=where or (),
        claim=claim,
        projected=worth or (),
        gate=gate,
        left_out=(*summary.findings.left_out, *silent),
        broken=tuple(broken),
    )
    return replace(summary, findings=found)


def _left_out(summary: Summary, config: Config) -> list[str]:
    asked = in_modes(cases(config.workloads, config.model, config.seed), config)
    names = [trial.case.name for trial in asked]
    return [name for name in names if name not in {case.case for case in summary.cases}]
