"""What a layer's difference would be worth in the whole model.

    relative change = layers of the kind * (ratio - 1) * the baseline's seconds here / the model's seconds

with the ends of the ratio's interval, widened by the noise floor. Layers of other kinds count as unchanged. Decode
steps that a GPU is launched into call by call are not projected: a server replays them.
"""

from collections.abc import Mapping

from pipeline.evidence.answers.applies import seconds
from pipeline.evidence.answers.found import possible
from pipeline.evidence.answers.setting import timed
from pipeline.evidence.findings import Projected
from pipeline.evidence.summary import CaseSummary, Comparison, Summary
from pipeline.questions import Projection
from pipeline.schema import Config

ASSUMED = "if the model runs the same batch at the same lengths and tp, nothing overlaps and nothing else changes"


def projected(summary: Summary, config: Config, asked: Projection, model: Mapping[str, float]) -> tuple[Projected, ...]:
    """For every arm and case: of TTFT where a case is of prompts, of TPOT where it is of decodes.

    `model`: the benchmark's seconds by metric.
    """
    layers = asked.layers[config.engine.layers]
    found = []
    for case in summary.cases:
        decodes = config.workloads[case.workload].decodes
        metric = case.primary if case.primary != "step" else "tpot" if decodes else "ttft"
        calls = case.steps if case.primary == "step" and not decodes else 1
        for name, arm in case.arms.items():
            comparison = arm.comparisons.get(case.primary)
            if comparison and name not in (summary.baseline, summary.control):
                here = layers * calls * seconds(case, summary.baseline)
                unsaid = _no_step(config, case, metric, calls)
                low, high, said = _projected(comparison, here, model[metric], unsaid)
                what = f"{layers} {config.engine.layers} layers"
                found.append(Projected(case.case, name, metric, model[metric], low, high, f"{what} {said}"))
    return tuple(found)


def _projected(
    comparison: Comparison, here: float, model: float, unsaid: str | None
) -> tuple[float | None, float | None, str]:
    """`here`: seconds of the baseline in all layers. `unsaid`: why nothing can be said of such steps."""
    unsaid = unsaid or _unsaid(comparison, here, model)
    if unsaid:
        return None, None, f"cannot be projected: {unsaid}"
    share, (low, high) = here / model, possible(comparison)
    return share * (low - 1), share * (high - 1), f"take {share:.0%} of its time, {ASSUMED}"


def _no_step(config: Config, case: CaseSummary, metric: str, calls: int) -> str | None:
    if calls > 1 and case.requests > 1:
        return "a step of many prompts is no request's; take num_requests=1"
    if metric == "tpot" and config.engine.device == "cuda" and timed(config, case).startswith("eager"):
        return "decode steps were launched call by call, a server replays them; take engine.graph=full"
    return None


def _unsaid(comparison: Comparison, here: float, model: float) -> str | None:
    if comparison.low is None or comparison.high is None:
        return f"{comparison.rounds} rounds give no interval"
    if not model:
        return "the benchmark has no time for it"
    if here > model:
        took = f"{1e3 * here:.3g} ms here, the whole model {1e3 * model:.3g} ms in the benchmark"
        return f"they alone take {took}, which is of another setting"
    return None
