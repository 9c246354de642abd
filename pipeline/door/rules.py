"""What no single field can tell: rules that hold between the parts of an experiment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from math import gcd

from pipeline.fields import Fixed, Length, Listed, LogNormal, Uniform
from pipeline.schema import Engine, Measure, Model, Prefill, Variant, Workload
from pipeline.work.workload import Case

STORE = ("mlflow.db", "mlflow.db.lock", "mlartifacts")
SCALE_GROUP = 64  # channels that share a scale in fp8_ds_mla
KINDS_WITH = {
    "compress": {"csa", "hca"},
    "locate": {"csa"},
    "cover": {"hca"},
    "select": {"csa"},
    "score": {"csa"},
    "topk": {"csa"},
}


def experiment(model: Model | None, engine: Engine | None, measure: Measure | None) -> Iterator[str]:
    """A line for each rule that is broken; a part that is not sound by itself is None, and its rules are left out."""
    if model:
        yield from _model(model)
    if model and engine:
        yield from _ranks(model, engine)
        yield from _layouts(model, engine)
        yield from _layers(model, engine)
    if model and engine and measure:
        yield from _scope(model, engine, measure)


def one_stage(arms: Mapping[str, Variant], measure: Measure) -> Iterator[str]:
    """What arms need whose stages are timed alone."""
    if measure.scope != "stack":
        yield from _ungathered(arms, measure)
        yield from _unstreamed(arms, measure)


def _unstreamed(arms: Mapping[str, Variant], measure: Measure) -> Iterator[str]:
    """Of an arm with two streams one stage alone is that of an arm with one."""
    for name, variant in arms.items():
        if variant.streams > 1:
            yield (
                f"measure.scope={measure.scope}: arms.{name}.streams={variant.streams} changes nothing in one stage "
                f"alone; set measure.scope=stack or arms.{name}.streams=1"
            )


def _ungathered(arms: Mapping[str, Variant], measure: Measure) -> Iterator[str]:
    """A stage that an arm may lack can be timed alone only where every arm has it."""
    if measure.scope in {part.name for part in fields(Prefill)}:
        for name, variant in arms.items():
            if variant.prefill is None:
                yield (
                    f"measure.scope={measure.scope}: arms.{name}.prefill=null has no such stage; drop the arm "
                    f"('~arms.{name}'), or give it one that gathers, such as variant@arms.{name}=gathered"
                )


def unchunked(cases: Iterable[Case], engine: Engine) -> Iterator[str]:
    """Without chunked prefill a prompt is computed in one step or never."""
    sizes = {request.prompt_len - request.cached_len: case.name for case in cases for request in case.requests}
    longest = max(sizes)
    if not engine.chunked_prefill and longest > engine.max_num_batched_tokens:
        yield (
            f"engine.chunked_prefill=false: {sizes[longest]} has a prompt with {longest} tokens to compute, above "
            f"engine.max_num_batched_tokens={engine.max_num_batched_tokens}; raise it or set chunked_prefill=true"
        )


def _model(model: Model) -> Iterator[str]:
    rope = f"model.rope_dim={model.rope_dim}"
    if model.rope_dim % 2:
        yield f"{rope}: must be even, channels turn in pairs; give {model.rope_dim + 1}"
    for name in ("head_dim", "index_dim"):
        if model.rope_dim > getattr(model, name):
            yield f"{rope}: must be at most model.{name}={getattr(model, name)}; lower one or raise the other"
    if model.heads % model.o_groups:
        yield f"model.o_groups={model.o_groups}: must divide model.heads={model.heads}; {_divisors(model.heads)}"
    for name in ("rope_theta", "compress_rope_theta"):
        if getattr(model, name) <= 1:
            yield f"model.{name}={getattr(model, name)}: must be above 1; the real models have 10000 and 160000"
    if model.yarn.beta_slow >= model.yarn.beta_fast:
        yield f"model.yarn.beta_slow={model.yarn.beta_slow}: must be below model.yarn.beta_fast={model.yarn.beta_fast}"


def _ranks(model: Model, engine: Engine) -> Iterator[str]:
    if model.heads % engine.tp or model.o_groups % engine.tp:
        divisors = _divisors(gcd(model.heads, model.o_groups))
        yield f"engine.tp={engine.tp}: must divide heads={model.heads} and o_groups={model.o_groups}; {divisors}"


def _layouts(model: Model, engine: Engine) -> Iterator[str]:
    nope = model.head_dim - model.rope_dim
    rope_is_sound = model.rope_dim % 2 == 0 and nope >= 0
    if engine.kv_layout == "fp8_ds_mla" and rope_is_sound and (nope == 0 or nope % SCALE_GROUP):
        yield (
            f"engine.kv_layout=fp8_ds_mla: needs head_dim - rope_dim to be a positive multiple of {SCALE_GROUP}, "
            f"here {model.head_dim} - {model.rope_dim} = {nope}; use engine.kv_layout=plain"
        )
    if engine.index_layout == "fp8" and model.index_dim % 4:
        yield (
            f"engine.index_layout=fp8: needs model.index_dim to be a multiple of 4, here {model.index_dim}; "
            "use engine.index_layout=plain"
        )


def _layers(model: Model, engine: Engine) -> Iterator[str]:
    if isinstance(engine.layers, int) and engine.layers > len(model.schedule):
        yield (
            f"engine.layers={engine.layers}: model.schedule has {len(model.schedule)} layers; "
            f"give a number from 1 to {len(model.schedule)}, or all, swa, csa, hca"
        )


def _scope(model: Model, engine: Engine, measure: Measure) -> Iterator[str]:
    match engine.layers:
        case "all":
            kinds = set(model.schedule)
        case int(count):
            kinds = set(model.schedule[:count])
        case kind:
            kinds = {kind}
    needed = KINDS_WITH.get(measure.scope, kinds)
    if not needed & kinds:
        yield (
            f"measure.scope={measure.scope}: engine.layers={engine.layers} holds no layer with that stage; "
            f"give a stack with {' or '.join(sorted(needed))}, or measure.scope=stack"
        )


def name(study: str | None) -> Iterator[str]:
    """A study is a folder beside the tracker's files."""
    if study and (study in STORE or study.startswith("mlflow.db-")):
        yield f"name={study}: in output_dir MLflow keeps a file of this name; give the study another"


def workload(where: str, asked: Workload, model: Model | None = None) -> Iterator[str]:
    if model:
        boundary = model.compress_ratio * model.topk
        for offset in asked.boundary or []:
            if boundary + offset < 1:
                yield (
                    f"{where}.boundary={asked.boundary}: {offset} is below the boundary of model {model.name}, "
                    f"compress_ratio * topk = {boundary}; give offsets above {-boundary}"
                )
    repeated = sorted({low for low, high in pairwise(sorted(asked.ladder or [])) if low == high})
    if repeated:
        yield f"{where}.ladder={asked.ladder}: {', '.join(map(str, repeated))} repeated; give each context once"
    yield from _prompts(where, asked)
    for number, part in enumerate(asked.mix):
        place = f"{where}.mix.{number}"
        yield from _length(f"{place}.output_len", part.output_len, 1)
        yield from _length(f"{place}.cached_len", part.cached_len, 0)
        if part.prompt_len is not None:
            yield from _length(f"{place}.prompt_len", part.prompt_len, 1)


def _prompts(where: str, asked: Workload) -> Iterator[str]:
    """Prompt lengths come from the ladder or from the mix, never from both or neither."""
    given = [
        f"{where}.mix.{number}.prompt_len={_said(part.prompt_len)}"
        for number, part in enumerate(asked.mix)
        if part.prompt_len is not None
    ]
    absent = [f"{where}.mix.{number}.prompt_len" for number, part in enumerate(asked.mix) if part.prompt_len is None]
    if given and (asked.ladder or asked.boundary):
        yield f"{', '.join(given)}: the ladder gives it already; leave it out, or set ladder and boundary to null"
    if absent and not (asked.ladder or asked.boundary):
        yield f"{', '.join(absent)} is missing: give it, or a ladder of contexts at {where}.ladder"


def _length(where: str, length: Length, least: int) -> Iterator[str]:
    match length:
        case Fixed(value=value) if value < least:
            yield f"{where}={value}: must be at least {least}"
        case Uniform(low=low, high=high) | LogNormal(low=low, high=high) if low > high:
            yield f"{where}.low={low}: must be at most {where}.high={high}"
        case Uniform(low=low) | LogNormal(low=low) if low < least:
            yield f"{where}.low={low}: must be at least {least}"
        case Listed(values=values, weights=weights):
            if min(values) < least:
                yield f"{where}={values}: each value must be at least {least}"
            if weights is not None and len(weights) != len(values):
                yield f"{where}.weights={weights}: {len(weights)} weights for {len(values)} values; give one a value"
            if weights is not None and sum(weights) == 0:
                yield f"{where}.weights={weights}: must not all be 0"


def _said(length: Length) -> str:
    match length:
        case Fixed(value=value) | Listed(values=value):
            return str(value)
    return length.kind


def _divisors(number: int) -> str:
    return f"give one of {', '.join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0)}"
