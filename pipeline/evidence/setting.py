"""The setting of a case in words, under the names that claims use for theirs."""

from collections.abc import Iterator, Mapping

from pipeline.evidence.summary import CaseSummary
from pipeline.schema import Config
from pipeline.work.workload import cases


def setting(config: Config, case: CaseSummary, layers: str, gpu: str | None) -> dict[str, str]:
    """Of a config whose engine is resolved."""
    engine, model = config.engine, config.model
    return {
        "model": model.name,
        "layers": layers,
        "server": "none",
        "gpu": gpu or "none",
        "tp": str(engine.tp),
        "kv_layout": engine.kv_layout,
        "index_layout": engine.index_layout,
        "page_entries": str(engine.block_size // model.compress_ratio),
        "max_batched_tokens": str(engine.max_num_batched_tokens),
        "topk": str(model.topk),
        "requests": str(case.requests),
        "context": str(case.context),
        "tokens": str(_tokens(config, case)),
        "timed": case.mode or f"graph {engine.graph}, L2 {config.measure.l2}",
    }


def differences(published: Mapping[str, str], here: Mapping[str, str]) -> Iterator[str]:
    for name, text in published.items():
        if name not in here:
            yield f"{name}: {text} there; not set here"
        elif here[name] != text:
            yield f"{name}: {text} there, {here[name]} here"


def _tokens(config: Config, case: CaseSummary) -> int:
    """Computed in a step, on average, padding left out."""
    drawn = cases({case.workload: config.workloads[case.workload]}, config.model, config.seed)
    requests = next(one.requests for one in drawn if one.digest == case.digest)
    return sum(it.prompt_len - it.cached_len + it.output_len - 1 for it in requests) // case.steps
