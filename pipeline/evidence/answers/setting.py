"""The setting of a case in words, under the names that claims use for theirs."""

from collections.abc import Iterator, Mapping

from pipeline.evidence.summary import CaseSummary
from pipeline.evidence.timing.modes import modes
from pipeline.schema import Config

UNTOLD = "not told"


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
        "tokens": str(case.tokens),
        "timed": timed(config, case),
    }


def timed(config: Config, case: CaseSummary) -> str:
    """Such as `graph, warm L2`. Whole steps that hold prompts are never replayed."""
    if case.mode:
        return case.mode
    (mode,) = modes(config)
    replayed = case.scope != "stack" or case.primary == "tpot" or config.workloads[case.workload].decodes
    return mode.text if replayed else type(mode)(False, mode.cold).text


def differences(published: Mapping[str, str], here: Mapping[str, str]) -> Iterator[str]:
    for name, text in published.items():
        if name not in here:
            yield f"{name}: {text} there; not set here"
        elif here[name] != text:
            yield f"{name}: {text} there, {here[name]} here"


def not_told(published: Mapping[str, str]) -> list[str]:
    return [name for name, text in published.items() if text == UNTOLD]


def unlike(published: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What keeps a figure from being contradicted here. Settings under names of the claim's own are only told."""
    return [
        f"{name} {text}" if text == UNTOLD else f"{name} {text} there, {here[name]} here"
        for name, text in published.items()
        if text == UNTOLD or here.get(name, text) != text
    ]
