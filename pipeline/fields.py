"""What may stand in a single field of the schema: numbers, names, and lengths of sequences."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass

MAX_TOKENS = 1 << 20  # the model's max positions
MAX_COUNT = 1 << 24

plain = ConfigDict(extra="forbid", allow_inf_nan=False)

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1, le=MAX_COUNT)]
Requests = Annotated[int, Strict(), Field(ge=1, le=1 << 16)]
Streams = Annotated[int, Strict(), Field(ge=1, le=2)]
Tokens = Annotated[int, Strict(), Field(ge=1, le=MAX_TOKENS)]
CachedTokens = Annotated[int, Strict(), Field(ge=0, le=MAX_TOKENS)]
Offset = Annotated[int, Strict(), Field(ge=-MAX_TOKENS, le=MAX_TOKENS)]
Seed = Annotated[int, Strict(), Field(ge=0, lt=1 << 32)]
Positive = Annotated[float, Strict(), Field(gt=0, le=1e12)]
NonNegative = Annotated[float, Strict(), Field(ge=0, le=1e12)]
Fraction = Annotated[float, Strict(), Field(gt=0, lt=1)]
Confidence = Annotated[float, Strict(), Field(ge=0.5, le=0.9999)]
Text = Annotated[str, Strict()]
Folder = Annotated[str, Strict(), Field(min_length=1)]
Name = Annotated[str, Strict(), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Kind = Literal["swa", "csa", "hca"]
SCOPES = ("ingest", "compress", "select", "score", "topk", "locate", "cover", "gather", "combine", "attend", "emit")
STAGES = ("project", "norm", *SCOPES)  # in the order of a layer; what a layer calls in several places comes first
Scope = Literal["stack", *SCOPES]
YAMLS_OFF = BeforeValidator(lambda value: "off" if value is False else value)
Switch = Annotated[Literal["off", "full", "both"], YAMLS_OFF]
Knobs = dict[str, Any]  # `_target_` and the fields of the class that it names


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
