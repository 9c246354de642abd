"""The ways to time a step: launched call by call or replayed as a graph, with a warm or a cold last-level cache.

An experiment that asks for several is run once in each, and its cases carry the mode in their names. A case none of
whose steps can be replayed has no graph mode.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from pipeline.evidence.summary import CaseSummary
from pipeline.schema import Config
from pipeline.work.schedule import Step, schedule
from pipeline.work.workload import Case


@dataclass(frozen=True)
class Mode:
    graph: bool
    cold: bool

    @property
    def text(self) -> str:
        return f"{'graph' if self.graph else 'eager'}, {'cold' if self.cold else 'warm'} L2"

    @property
    def suffix(self) -> str:
        """Of the name of a case."""
        return f"{'graph' if self.graph else 'eager'}-{'cold' if self.cold else 'warm'}"

    def of(self, config: Config) -> Config:
        return replace(
            config,
            engine=replace(config.engine, graph="full" if self.graph else "off"),
            measure=replace(config.measure, l2="cold" if self.cold else "warm"),
        )


@dataclass(frozen=True)
class Trial:
    """A case in one of the ways to time it, with the config of that. `mode` is empty where one only is asked for."""

    case: Case
    config: Config
    mode: str = ""

    @cached_property
    def steps(self) -> list[Step]:
        engine = self.config.engine
        limits = engine.max_num_seqs, engine.max_num_batched_tokens, engine.chunked_prefill
        return schedule(self.case.requests, *limits)

    @property
    def replayable(self) -> bool:
        """Whether a graph can hold what is timed: a stage alone, or a step in which every request decodes one token."""
        if self.config.measure.scope != "stack":
            return True
        return any(step.tokens == len(step.chunks) for step in self.steps)


def modes(config: Config) -> list[Mode]:
    graphs = {"off": (False,), "full": (True,), "both": (False, True)}[config.engine.graph]
    caches = {"warm": (False,), "cold": (True,), "both": (False, True)}[config.measure.l2]
    return [Mode(graph, cold) for graph, cold in product(graphs, caches)]


def in_modes(cases: Sequence[Case], config: Config) -> Iterator[Trial]:
    """Every case in every mode that it can have, under a name of its own.

    Where one mode only is asked for, a case without a step to replay is launched in it.
    """
    asked = modes(config)
    if len(asked) == 1:
        yield from (Trial(case, config) for case in cases)
        return
    for case in cases:
        graphs = Trial(case, config).replayable
        for mode in dict.fromkeys(replace(mode, graph=mode.graph and graphs) for mode in asked):
            yield Trial(replace(case, name=f"{case.name}.{mode.suffix}"), mode.of(config), mode.text)


def changed_winners(cases: Sequence[CaseSummary], baseline: str, control: str | None) -> list[str]:
    """A clause for each workload whose winner depends on the mode; none where there is one mode.

    The winners of a case are the FASTER arm with the lowest ratio of the primary metric and every arm whose interval
    reaches it, or the baseline if no arm is FASTER. An arm that is UNDECIDED leaves open whether the baseline wins, and
    such a case takes no part. Winners change between two modes that have none in common.
    """
    clauses = []
    for workload in dict.fromkeys(case.workload for case in cases):
        found: dict[str, list[int]] = {}
        for context in sorted({case.context for case in cases if case.workload == workload}):
            here = [case for case in cases if (case.workload, case.context) == (workload, context)]
            winners = {case.mode: _winners(case, baseline, control) for case in here}
            known = {mode: arms for mode, arms in winners.items() if arms}
            if any(first.isdisjoint(other) for first, other in product(known.values(), repeat=2)):
                told = ", ".join(f"{' or '.join(sorted(arms))} ({mode})" for mode, arms in known.items())
                found.setdefault(told, []).append(context)
        clauses += [
            f"the winner CHANGES with the way of timing in {workload} at {', '.join(map(str, contexts))}: {told}"
            for told, contexts in found.items()
        ]
    return clauses


def _winners(case: CaseSummary, baseline: str, control: str | None) -> frozenset[str]:
    """Empty where it is not known."""
    compared = {
        name: arm.comparisons[case.primary]
        for name, arm in case.arms.items()
        if name not in (baseline, control) and case.primary in arm.comparisons
    }
    faster = {name: found for name, found in compared.items() if found.verdict == "FASTER"}
    if faster:
        best = min(faster.values(), key=lambda found: found.ratio)
        return frozenset(name for name, found in faster.items() if found.low <= best.high * (1 + (best.noise or 0.0)))
    undecided = any(found.verdict == "UNDECIDED" for found in compared.values())
    return frozenset() if undecided or not compared else frozenset({baseline})
