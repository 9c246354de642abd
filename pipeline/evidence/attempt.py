"""Arms of a case under the clock together: to the end, or until one of them raises."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.engine.arms.arm import Arm, ArmFailed, StackArm
from pipeline.engine.arms.bench import Arms
from pipeline.engine.layer import LayerOutput
from pipeline.evidence.samples import Samples
from pipeline.evidence.timing.clock import Clock
from pipeline.evidence.timing.instruments import Instruments
from pipeline.evidence.timing.measure import Advance, Design, Hooks, Rounds, measure
from pipeline.evidence.timing.modes import Trial


@dataclass(frozen=True)
class Listeners:
    """Who is told while a case is measured.

    `keep` gets the samples as soon as they are taken, also those of a case that is cut short or of an attempt that was
    given up. `decided` is asked after each block whether those so far are enough.
    """

    keep: Callable[[Samples], None] = lambda _: None
    on_progress: Advance = lambda *_: None
    decided: Callable[[Samples], bool] = lambda _: False


class Attempt:
    """One of possibly several at a case: where an arm raises, the others begin anew. The first has number 1.

    `able`: the arms that take part.
    """

    def __init__(self, number: int, trial: Trial, arms: Arms, able: Sequence[StackArm], beside: Instruments):
        self.number, self.trial, self.able, self.beside = number, trial, able, beside
        self.whole, self.design = trial.config.measure.scope == "stack", design(trial)
        self.shortcut = tuple(self.whole and _has_shortcut(arm, arms) for arm in able)
        self.paths = Paths(arms.stack.kinds.count("csa"), [step.tokens for step in trial.steps], len(able))
        self.recorded = Rounds(len(trial.steps), len(able))

    def taken(self, runners: Sequence[Arm], clock: Clock, listeners: Listeners) -> Samples:
        """Those of the runners, one for each arm that is able. ArmFailed names the one that raised."""
        hooks = Hooks(
            on_step=self.paths.note if self.whole else _ignore,
            on_progress=listeners.on_progress,
            at_block_edge=self.beside.watch.edges_of(self.trial.case.name),
            on_block=lambda _: listeners.decided(self.samples()),
        )
        try:
            if self.able:
                measure(runners, self.recorded, self.design, clock, hooks)
        except BaseException as error:
            if len(self.recorded):
                listeners.keep(self.samples(cut_short=True, given_up=isinstance(error, ArmFailed)))
            raise
        return self.samples()

    def samples(self, cut_short: bool = False, given_up: bool = False) -> Samples:
        """Those so far."""
        case, recorded, paths = self.trial.case, self.recorded, self.paths
        return Samples(
            case=case.name,
            workload=case.workload,
            context=case.context,
            digest=case.digest,
            scope=self.trial.config.measure.scope,
            arms=tuple(arm.name for arm in self.able),
            shortcut=self.shortcut,
            seconds=recorded.seconds,
            late=tuple(recorded.late) if any(recorded.late) else (),
            order=recorded.order,
            rows=paths.rows,
            skipped=paths.skipped,
            scorable=paths.scorable * self.whole,
            started=recorded.started,
            warmup_rounds=self.design.warmup_rounds,
            partial=cut_short,
            mode=self.trial.mode,
            block_rounds=self.design.block_rounds,
            void=tuple(recorded.void) if any(recorded.void) else (),
            least_sound=self.design.least,
            clock_mhz=self.beside.watch.clock_mhz,
            given_up=self.number if given_up else 0,
        )


class Paths:
    """How many rows each arm did not score, seen in what it returned under the clock. `rows`: of each step."""

    def __init__(self, csa_layers: int, rows: Sequence[int], arms: int):
        self.rows = np.array(rows)
        self.scorable = self.rows * csa_layers
        self.skipped = np.zeros((len(rows), arms), int)

    def note(self, round_: int, step: int, arm: int, outputs: list[LayerOutput]) -> None:
        scored = [output.selection.scored.index for output in outputs if output.kind == "csa"]
        self.skipped[step, arm] = sum(self.rows[step] - len(index) for index in scored if index is not None)


def design(trial: Trial) -> Design:
    asked = trial.config.measure
    return Design(asked.rounds, asked.warmup_rounds, asked.seconds, trial.config.seed, asked.block_rounds)


def _has_shortcut(arm: StackArm, arms: Arms) -> bool:
    return type(arm.stages.select.shortcut) is not type(arms.reference.select.shortcut)


def _ignore(*_: Any) -> None:
    pass
