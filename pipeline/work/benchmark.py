"""What a server took for the whole model: the JSON that `vllm bench serve --save-result` writes."""

import json
from pathlib import Path
from typing import Any

from pipeline.schema import ConfigError

KEYS = {"ttft": "mean_ttft_ms", "tpot": "mean_tpot_ms"}
LONGEST = 1e12  # milliseconds
REMEDY = "give what `vllm bench serve --save-result` writes"


def read_benchmark(path: str | Path) -> dict[str, float]:
    """Seconds by ttft and tpot, 0 where it has none. ConfigError on anything else."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError([f"{path}: cannot be read as JSON: {error}; {REMEDY}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"{path}: holds no object; {REMEDY}"])
    lacking = [key for key in KEYS.values() if key not in found]
    if lacking:
        raise ConfigError([f"{path}: has no {', '.join(lacking)}; {REMEDY}"])
    faults = [
        f"{path}: {key}={repr(found[key])[:80]}: must be milliseconds, from 0 to {LONGEST:g}"
        for key in KEYS.values()
        if _bad(found[key])
    ]
    if faults:
        raise ConfigError(faults)
    return {metric: found[key] / 1e3 for metric, key in KEYS.items()}


def _bad(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LONGEST
