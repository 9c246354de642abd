"""What keeps the instrument from being tried on itself: rules for schema.SelfTest and what stands beside it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.door.words import shown
from pipeline.schema import Engine, Measure, SelfTest, Variant

LEAST_BLOCKS = 5  # of a run, or it gives no interval
SAME, DELAYED = "same", "delay-"  # what a self test calls its own arms
UNASKED: Mapping[str, Any] = {"claim": None, "traffic": {}, "projection": None}
UNGATED = {"max_regression": None, "require": None}


def self_test(asked: SelfTest) -> Iterator[str]:
    names = [delay_name(share) for share in asked.delays]
    repeated = [share for share, name in zip(asked.delays, names, strict=True) if names.count(name) > 1]
    if repeated:
        yield f"self_test.delays={asked.delays}: {', '.join(map(str, repeated))} repeated; give each delay once"
    if asked.must_find > max(asked.delays):
        yield (
            f"self_test.must_find={asked.must_find}: is above every delay, so that none has to be found; give at most "
            f"{max(asked.delays)}, or a longer delay"
        )


def beside(data: Mapping[str, Any]) -> Iterator[str]:
    """What would be left out without a word. `data`: the whole config."""
    arms = data.get("arms")
    if isinstance(arms, dict) and len(arms) > 1:
        yield (
            f"self_test: tries the first arm against itself, {', '.join(list(arms)[1:])} would be left out; drop "
            f"{' '.join(repr(f'~arms.{name}') for name in list(arms)[1:])}"
        )
    if isinstance(arms, dict) and arms and _is_own(first := next(iter(arms))):
        yield f"arms.{first}: the self test calls an arm of its own so; give this one another name"
    for name, nothing in UNASKED.items():
        if data.get(name) not in (None, nothing):
            yield f"{name}={shown(data[name])}: a self test answers no such question; leave it out"
    gate = data.get("gate")
    for name, nothing in UNGATED.items():
        if isinstance(gate, dict) and gate.get(name) is not nothing:
            yield f"gate.{name}={shown(gate[name])}: a self test has bars of its own; leave it out"


def measured(measure: Measure, engine: Engine) -> Iterator[str]:
    """The device may be auto."""
    if measure.scope != "stack":
        yield f"measure.scope={measure.scope}: a self test finds delays in whole steps; set measure.scope=stack"
    if not measure.control:
        yield "measure.control=false: a self test compares with a control; set measure.control=true"
    if measure.seconds is not None:
        yield (
            f"measure.seconds={measure.seconds:g}: a self test makes all rounds of every run; set measure.seconds=null "
            "and measure.rounds to what one run is to have"
        )
    if measure.stop == "decided":
        yield "measure.stop=decided: a self test makes all rounds of every run; set measure.stop=budget"
    if measure.l2 == "both":
        yield "measure.l2=both: a self test takes one mode at a time; set measure.l2=warm or measure.l2=cold"
    if engine.graph == "both":
        yield "engine.graph=both: a self test takes one mode at a time; set engine.graph=full or engine.graph=off"
    blocks = measure.rounds // measure.block_rounds
    if blocks < LEAST_BLOCKS:
        yield (
            f"measure.rounds={measure.rounds}: in blocks of {measure.block_rounds} a run has {blocks}, an interval "
            f"needs {LEAST_BLOCKS}; give measure.rounds={LEAST_BLOCKS * measure.block_rounds} or more"
        )


def overlapped(asked: SelfTest, arms: Mapping[str, Variant]) -> Iterator[str]:
    for name, variant in arms.items():
        if asked.stage == "ingest" and variant.streams > 1:
            yield (
                f"self_test.stage=ingest: with arms.{name}.streams={variant.streams} compress and select run beside it "
                f"and hide a delay; set self_test.stage=emit or arms.{name}.streams=1"
            )


def hidden(engine: Engine) -> Iterator[str]:
    """Of an engine whose device is known."""
    if engine.device == "cuda" and engine.graph == "off":
        yield "engine.graph=off: on a GPU a delay can hide behind the launches of a step; set engine.graph=full"


def counted(cases: Sequence[Any]) -> Iterator[str]:
    if len(cases) != 1:
        yield f"self_test: needs one case, the workloads give {len(cases)}; give one ladder with one context"


def delay_name(share: float) -> str:
    return f"{DELAYED}{100 * share:g}"


def _is_own(arm: str) -> bool:
    return arm == SAME or arm.startswith(DELAYED)
