"""What may be asked of a result: is a published claim true, what is it worth on a traffic or in a model, may it pass.

What stands inside a list or a dict of YAML has its default here, everything else in conf/.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict
from pydantic.dataclasses import dataclass

from pipeline.fields import Count, Flag, Kind, Name, Positive, Scope, Text, Tokens, plain

PERCENT = re.compile(r"(\d+(?:\.\d+)?)%", re.ASCII)


def _share(value: Any) -> Any:
    """`1%` is 0.01."""
    found = PERCENT.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) / 100 if found else value


Allowance = Annotated[
    float, Strict(), Field(ge=0, lt=1, json_schema_extra={"examples": ["1%", 0.01]}), BeforeValidator(_share)
]
Delta = Annotated[float, Strict(), Field(gt=-1, lt=100)]
Points = Annotated[float, Strict(), Field(ge=0, lt=1)]
Timed = Literal["ttft", "tpot", "itl", "e2el", "duration", "step", "compiles"]


@dataclass(frozen=True, config=plain)
class Published:
    """The two times that a figure is made of."""

    before: Positive
    after: Positive
    unit: Literal["us", "ms", "s"]

    @property
    def seconds(self) -> tuple[float, float]:
        scale = {"us": 1e-6, "ms": 1e-3, "s": 1.0}[self.unit]
        return self.before * scale, self.after * scale


@dataclass(frozen=True, config=plain)
class Figure:
    """One published number.

    `delta` is the relative change of time, or of the number of compiled variants: -0.034 is 3.4 % less, 0 says that
    nothing changes. `tolerance` is how far from it the change found here may lie, in parts of the baseline's time;
    `bound` says that `delta` is the least or the most of it. `baseline` and `candidate`: what experiments call the two
    arms. `must`: settings without which nothing can be said; `contexts`: the first and the last that it holds for.
    What its setting calls "not told", or has otherwise than here, keeps it from being contradicted.
    """

    what: Text
    scope: Literal["model"] | Scope  # model, or what measure.scope may be
    metric: Timed
    delta: Delta
    baseline: Annotated[list[Name], Field(min_length=1)]
    candidate: Annotated[list[Name], Field(min_length=1)]
    tolerance: Points = 0.0
    bound: Literal["at least", "at most"] | None = None
    published: Published | None = None
    workloads: list[Name] | None = None
    contexts: Annotated[list[Tokens], Field(min_length=2, max_length=2)] | None = None
    must: dict[Name, Text] | None = None
    setting: dict[Name, Text] | None = None  # where it differs from the claim's
    compiling: Flag = False  # it is of the time to compile, which no timed step holds


@dataclass(frozen=True, config=plain)
class Claim:
    """`experiments` can test it.

    `setting`: as published, under the names of evidence/answers/setting.py where it has one.
    """

    name: Name
    title: Text
    source: Text
    says: Text
    experiments: Annotated[list[Name], Field(min_length=1)]
    setting: dict[Name, Text]
    figures: Annotated[list[Figure], Field(min_length=1)]


@dataclass(frozen=True, config=plain)
class Bin:
    """The share of those that are longer than the last bin's and at most `up_to` tokens."""

    up_to: Tokens
    share: Positive


@dataclass(frozen=True, config=plain)
class Traffic:
    """Lengths that real requests have: as histograms, or as a trace to be read.

    `prompts` counts requests by the length of their prompt, `decodes` the tokens that decode steps generate by the
    context that they see; left out, prompts stand for both. `trace`: a CSV with TIMESTAMP, ContextTokens and
    GeneratedTokens.
    """

    source: Text = ""
    prompts: Annotated[list[Bin], Field(min_length=1)] | None = None
    decodes: Annotated[list[Bin], Field(min_length=1)] | None = None
    trace: Text | None = None


@dataclass(frozen=True, config=plain)
class Projection:
    """`benchmark`: the JSON of `vllm bench serve` on the full model, which has so many `layers` of each kind."""

    benchmark: Text
    layers: Annotated[dict[Kind, Count], Field(min_length=1)]


@dataclass(frozen=True, config=plain)
class Gate:
    """What every arm must hold against the baseline, or the exit code is 1."""

    max_regression: Allowance | None  # of the time, in every case
    require: Literal["faster"] | None  # over the contexts of every workload
    undecided: Literal["fail", "pass"]
