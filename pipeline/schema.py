"""The experiment as dataclasses, made once from the composed YAML. Defaults live in conf/, not here.

Only what stands inside a list or a dict of YAML, where no group file can hold a default, has one here.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass

MAX_TOKENS = 1 << 20  # the model's max positions
MAX_COUNT = 1 << 24

plain = ConfigDict(extra="forbid", allow_inf_nan=False)

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1, le=MAX_COUNT)]
Tokens = Annotated[int, Strict(), Field(ge=1, le=MAX_TOKENS)]
CachedTokens = Annotated[int, Strict(), Field(ge=0, le=MAX_TOKENS)]
Offset = Annotated[int, Strict(), Field(ge=-MAX_TOKENS, le=MAX_TOKENS)]
Seed = Annotated[int, Strict(), Field(ge=0, lt=1 << 32)]
Positive = Annotated[float, Strict(), Field(gt=0, le=1e12)]
NonNegative = Annotated[float, Strict(), Field(ge=0, le=1e12)]
Fraction = Annotated[float, Strict(), Field(gt=0, lt=1)]
Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Kind = Literal["swa", "csa", "hca"]
Switch = Annotated[Literal["off", "full"], BeforeValidator(lambda it: "off" if it is False else it)]  # YAML's off
Knobs = dict[str, Any]  # `_target_` and the fields of the class that it names


class ConfigError(ValueError):
    """What is wrong with the input, one line a fault."""

    def __init__(self, faults: Iterable[str]):
        self.lines = list(dict.fromkeys(" ".join(line.split()) for line in faults))
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, config=plain)
class Yarn:
    factor: Positive
    original_length: Count
    beta_fast: Positive
    beta_slow: Positive


@dataclass(frozen=True, config=plain)
class Model:
    """Shape of the model. `compress_ratio` and `topk` belong to csa layers, `hca_ratio` to hca layers."""

    name: Name
    hidden: Count
    heads: Count
    head_dim: Count
    rope_dim: Count
    q_lora_rank: Count
    o_groups: Count
    o_lora_rank: Count
    window: Tokens
    compress_ratio: Tokens
    topk: Tokens
    hca_ratio: Tokens
    index_heads: Count
    index_dim: Count
    norm_eps: Positive
    rope_theta: Positive
    compress_rope_theta: Positive
    yarn: Yarn
    schedule: Annotated[list[Kind], Field(min_length=1)]

    def ratio(self, kind: Kind) -> int:
        """Tokens per compressed entry in a layer of this kind; 0 where nothing is compressed."""
        return {"swa": 0, "csa": self.compress_ratio, "hca": self.hca_ratio}[kind]


@dataclass(frozen=True, config=plain)
class Engine:
    """`layers`: one layer of a kind, the first n of the model's schedule, or all of it.

    `auto` takes a GPU where there is one, and bf16 where the hardware multiplies it.
    """

    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["auto", "bf16", "fp32"]
    layers: Literal["swa", "csa", "hca", "all"] | Annotated[int, Strict(), Field(ge=1, le=1024)]
    tp: Count
    kv_layout: Literal["fp8_ds_mla", "plain"]
    index_layout: Literal["fp8", "plain"]
    block_size: Tokens  # raw tokens that one page of the compressed caches covers
    window_page: Tokens  # raw tokens in a page of the window cache
    max_num_seqs: Count
    max_num_batched_tokens: Tokens
    chunked_prefill: Flag
    graph: Switch  # full: decode steps as CUDA graphs
    weights: Text | None  # a safetensors file with the checkpoint's names; null draws them from the seed


@dataclass(frozen=True, config=plain)
class Fixed:
    kind: Literal["fixed"]
    value: CachedTokens


@dataclass(frozen=True, config=plain)
class Uniform:
    """Whole numbers from low to high, both included."""

    kind: Literal["uniform"]
    low: CachedTokens
    high: CachedTokens


@dataclass(frozen=True, config=plain)
class LogNormal:
    """Rounded exp(N(log median, sigma)), clipped to [low, high]."""

    kind: Literal["lognormal"]
    median: Positive
    sigma: Positive
    low: CachedTokens
    high: CachedTokens


@dataclass(frozen=True, config=plain)
class Listed:
    """The values in turn; with weights, drawn."""

    kind: Literal["list"]
    values: Annotated[list[CachedTokens], Field(min_length=1)]
    weights: list[NonNegative] | None = None


@dataclass(frozen=True, config=plain)
class WholePrompt:
    """The whole prompt but its last token."""

    kind: Literal["all"]


def _length(value: Any) -> Any:
    """`512` is short for a fixed length, `[512, 1024]` for a list."""
    if isinstance(value, list):
        return {"kind": "list", "values": value}
    return {"kind": "fixed", "value": value} if isinstance(value, (int, float)) else value


def _cached_length(value: Any) -> Any:
    return {"kind": "all"} if value == "all" else _length(value)


Length = Annotated[
    Annotated[Fixed | Uniform | LogNormal | Listed, Field(discriminator="kind")], BeforeValidator(_length)
]
CachedLength = Annotated[
    Annotated[Fixed | Uniform | LogNormal | Listed | WholePrompt, Field(discriminator="kind")],
    BeforeValidator(_cached_length),
]


@dataclass(frozen=True, config=plain)
class Sequences:
    """One part of the mix. `cached_len: all` caches the whole prompt but its last token: a decode."""

    output_len: Length
    prompt_len: Length | None = None  # left out where a ladder gives it
    cached_len: CachedLength = Fixed("fixed", 0)
    weight: Positive = 1.0


@dataclass(frozen=True, config=plain)
class Arrival:
    """Requests per second; null: all at once. Burstiness 1 is Poisson; gaps are gamma distributed with that shape."""

    rate: Positive | None
    burstiness: Positive


@dataclass(frozen=True, config=plain)
class Workload:
    """`ladder`: contexts, each a case of its own: the sequence length that the last step of a request sees.

    `boundary`: more of them, each at this distance from compress_ratio * topk, where selecting begins to matter.
    """

    num_requests: Count
    mix: Annotated[list[Sequences], Field(min_length=1)]
    arrival: Arrival
    ladder: Annotated[list[Tokens], Field(min_length=1)] | None
    boundary: Annotated[list[Offset], Field(min_length=1)] | None = None


@dataclass(frozen=True, config=plain)
class Select:
    score: Knobs
    topk: Knobs
    shortcut: Knobs
    locate: Knobs


@dataclass(frozen=True, config=plain)
class Variant:
    """One implementation for each stage."""

    ingest: Knobs
    compress: Knobs
    select: Select
    attend: Knobs
    emit: Knobs


@dataclass(frozen=True, config=plain)
class Measure:
    """How arms are timed and judged."""

    scope: Literal["stack", "ingest", "compress", "select", "score", "topk", "locate", "attend", "emit"]
    rounds: Count
    seconds: Positive | None  # for the rounds of a case, if that is less than `rounds` take; never below five rounds
    warmup_rounds: Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
    control: Flag  # the baseline again, under another name: its spread is the noise floor
    margin: Fraction  # within it two arms are called the same
    confidence: Fraction
    resamples: Annotated[int, Strict(), Field(ge=1000, le=1_000_000)]  # five rounds need tails of 0.1 %


@dataclass(frozen=True, config=plain)
class Track:
    enabled: Flag
    uri: Text | None  # null: sqlite in the output folder


@dataclass(frozen=True, config=plain)
class Config:
    """`name` is the study: the folder under `output_dir` and the MLflow experiment. The first arm is the baseline.

    `reference` is what every arm is checked against; it runs in float32 and is never timed.
    """

    name: Name
    seed: Seed
    output_dir: Text
    model: Model
    engine: Engine
    workloads: Annotated[dict[Name, Workload], Field(min_length=1)]
    arms: Annotated[dict[Name, Variant], Field(min_length=1)]
    reference: Variant
    measure: Measure
    track: Track
