"""What a layer's difference would be worth in the whole model.

    relative change = layers of the kind * (ratio - 1) * the baseline's seconds here / the model's seconds

with the ends of the ratio's interval. Layers of other kinds count as unchanged.
"""

from pipeline.evidence.applies import seconds
from pipeline.evidence.findings import Projected
from pipeline.evidence.summary import Comparison, Summary
from pipeline.questions import Projection
from pipeline.schema import Config
from pipeline.work.benchmark import read_benchmark

ASSUMED = "if the model runs the same batch at the same lengths and tp, nothing overlaps and nothing else changes"


def projected(summary: Summary, config: Config, asked: Projection) -> tuple[Projected, ...]:
    """For every arm and case: of TTFT where a case is of prompts, of TPOT where it is of decodes."""
    model, layers = read_benchmark(asked.benchmark), asked.layers[config.engine.layers]
    found = []
    for case in summary.cases:
        decodes = all(part.cached_len.kind == "all" for part in config.workloads[case.workload].mix)
        metric = case.primary if case.primary != "step" else "tpot" if decodes else "ttft"
        calls = case.steps if case.primary == "step" and not decodes else 1
        for name, arm in case.arms.items():
            comparison = arm.comparisons.get(case.primary)
            if comparison and name not in (summary.baseline, summary.control):
                here = layers * calls * seconds(case, summary.baseline)
                several = calls > 1 and case.requests > 1
                low, high, said = _projected(comparison, here, model[metric], several)
                what = f"{layers} {config.engine.layers} layers"
                found.append(Projected(case.case, name, metric, model[metric], low, high, f"{what} {said}"))
    return tuple(found)


def _projected(
    comparison: Comparison, here: float, model: float, several: bool
) -> tuple[float | None, float | None, str]:
    """`here`: seconds of the baseline in all layers. `several`: in steps that several prompts share."""
    unsaid = _unsaid(comparison, here, model, several)
    if unsaid:
        return None, None, unsaid
    share = here / model
    said = f"take {share:.0%} of its time, {ASSUMED}"
    return share * (comparison.low - 1), share * (comparison.high - 1), said


def _unsaid(comparison: Comparison, here: float, model: float, several: bool) -> str | None:
    if comparison.low is None or comparison.high is None:
        return f"cannot be projected: {comparison.rounds} rounds give no interval"
    if not model:
        return "cannot be projected: the benchmark has no time for it"
    if several:
        return "cannot be projected: a step of many prompts is no request's; take num_requests=1"
    if here > model:
        took = f"{1e3 * here:.3g} ms here, the whole model {1e3 * model:.3g} ms in the benchmark"
        return f"cannot be projected: they alone take {took}, which is of another setting"
    return None
