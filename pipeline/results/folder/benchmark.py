"""One case of one arm under the JSON keys of `vllm bench serve`, so that its readers read ours."""

from datetime import datetime
from typing import Any

from pipeline.evidence.summary import ArmSummary, CaseSummary, Summary
from pipeline.results.folder.provenance import Provenance
from pipeline.schema import Config


def benchmarks(summary: Summary, config: Config, provenance: Provenance) -> dict[tuple[str, str], dict[str, Any]]:
    """By (case, arm). What was not measured is absent, and `undefined` says why."""
    return {
        (case.case, arm.arm): _benchmark(summary, case, arm, config, provenance)
        for case in summary.cases
        for arm in case.arms.values()
    }


def _benchmark(
    summary: Summary, case: CaseSummary, arm: ArmSummary, config: Config, provenance: Provenance
) -> dict[str, Any]:
    arrival = config.workloads[case.workload].arrival
    return {
        "date": datetime.fromisoformat(provenance.utc).strftime("%Y%m%d-%H%M%S"),
        "backend": "dsv4-attention-lab",
        "label": arm.arm,
        "model_id": config.model.name,
        "tokenizer_id": None,
        "num_prompts": case.requests,
        "request_rate": "inf" if arrival.rate is None else arrival.rate,  # vLLM's own word for all at once
        "burstiness": arrival.burstiness,
        "max_concurrency": config.engine.max_num_seqs,
        **arm.metrics,
        "undefined": arm.undefined,
        "workload": case.workload,
        "context": case.context,
        "workload_digest": case.digest,
        "scope": case.scope,
        "layers": summary.layers,
        "tensor_parallel_size": summary.tp,
        "rounds": case.rounds,
        "warmup_rounds": case.warmup_rounds,
        "percentile_method": summary.percentile_method,
        "check_passed": arm.check.passed,
        "device": provenance.device,
    }
