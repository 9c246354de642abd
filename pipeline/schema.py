"""The experiment as dataclasses, made once from the composed YAML. Defaults live in conf/, not here.

Only what stands inside a list or a dict of YAML, where no group file can hold a default, has one here, and what came
later, so that runs of before can be read and repeated.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, Strict
from pydantic.dataclasses import dataclass

from pipeline.fields import (
    MAX_COUNT,
    CachedLength,
    Confidence,
    Count,
    Fixed,
    Flag,
    Folder,
    Fraction,
    Kind,
    Knobs,
    Length,
    Name,
    Offset,
    Positive,
    Requests,
    Scope,
    Seed,
    Streams,
    Switch,
    Text,
    Tokens,
    plain,
)
from pipeline.questions import Claim, Gate, Projection, Traffic


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
    graph: Switch  # full: decode steps as CUDA graphs; both: every case once with and once without
    weights: Text | None  # a safetensors file with the checkpoint's names; null draws them from the seed


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

    num_requests: Requests
    mix: Annotated[list[Sequences], Field(min_length=1)]
    arrival: Arrival
    ladder: Annotated[list[Tokens], Field(min_length=1)] | None
    boundary: Annotated[list[Offset], Field(min_length=1)] | None = None

    @property
    def decodes(self) -> bool:
        """Whether all its steps are of decodes: no request has a prompt to prefill."""
        return all(part.cached_len.kind == "all" for part in self.mix)


@dataclass(frozen=True, config=plain)
class Select:
    score: Knobs
    topk: Knobs
    shortcut: Knobs
    locate: Knobs


@dataclass(frozen=True, config=plain)
class Prefill:
    """Steps with prompts: what they attend is gathered into a workspace, and indices point into it."""

    gather: Knobs
    combine: Knobs


@dataclass(frozen=True, config=plain)
class Variant:
    """One implementation for each stage."""

    ingest: Knobs
    compress: Knobs
    select: Select  # csa layers
    cover: Knobs  # hca layers, which attend all that they see
    prefill: Prefill | None  # null: prompts too are attended straight from the caches
    attend: Knobs
    emit: Knobs
    norm: Knobs
    project: Knobs
    share: Flag  # what does not differ between the layers of a kind is made once a step
    streams: Streams = 1  # 2: compress and select run beside the query's projections and ingest, on a GPU


@dataclass(frozen=True, config=plain)
class Measure:
    """How arms are timed and judged.

    A case is made in blocks of `block_rounds` and ends with `rounds`, or with the first block that ends after `seconds`
    but not before five blocks. `stop: decided` ends it as soon as every arm is FASTER, SLOWER or the SAME for good.
    """

    scope: Scope
    rounds: Count
    block_rounds: Count  # neighbours share what disturbs them: their mean is one piece of evidence
    seconds: Positive | None
    stop: Literal["decided", "budget"]
    warmup_rounds: Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
    l2: Literal["warm", "cold", "both"]  # cold: before each timed call the last-level cache is overwritten
    compile_anew: Flag  # even what Triton's cache on disk holds: then what compiling costs is seen
    control: Flag  # the baseline again, under another name: its spread is the noise floor
    margin: Fraction  # within it two arms are called the same
    confidence: Confidence  # that all comparisons of the experiment hold
    resamples: Annotated[int, Strict(), Field(ge=1000, le=1_000_000)]
    breakdown: Flag  # time each stage alone too, in the first and the last step of a case
    breakdown_seconds: Positive  # for a case's stages; five rounds are made in any case


@dataclass(frozen=True, config=plain)
class SelfTest:
    """The first arm against itself, in `runs` runs of measure.rounds rounds: is a delay found, and nothing else?

    `delays` are shares of a step, put behind `stage`; from `must_find` on they have to be found.
    """

    runs: Annotated[int, Strict(), Field(ge=10, le=10_000)]
    delays: Annotated[list[Fraction], Field(min_length=1)]
    must_find: Fraction
    stage: Literal["ingest", "attend", "emit"]


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
    output_dir: Folder
    model: Model
    engine: Engine
    workloads: Annotated[dict[Name, Workload], Field(min_length=1)]
    arms: Annotated[dict[Name, Variant], Field(min_length=1)]
    reference: Variant
    measure: Measure
    track: Track
    self_test: SelfTest | None
    claim: Claim | None
    traffic: dict[Name, Traffic]
    projection: Projection | None
    gate: Gate
