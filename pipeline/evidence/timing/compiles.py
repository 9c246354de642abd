"""What Triton compiles for each arm, when, and what that costs."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
from triton import knobs

from pipeline.engine.arms.arm import Arm
from pipeline.evidence.findings import Compiles
from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import CaseSummary

REAL = ("FASTER", "SLOWER")


@dataclass(frozen=True)
class Variant:
    """One compiled form of a kernel."""

    kernel: str
    seconds: float
    from_disk: bool  # Triton found it in its cache: then the seconds are those of reading it


@dataclass
class Compiling:
    """Variants are counted for every arm that launches them, whoever had them compiled.

    `arm` is the one that runs now. What a job before this one compiled in the same process costs nothing here.
    """

    arm: str = ""
    listens: bool = False
    first_steps: dict[str, float] = field(default_factory=dict)
    _variants: dict[str, Variant] = field(default_factory=dict)  # by hash
    _loaded: dict[Any, str] = field(default_factory=dict)  # handle of a function -> hash
    _used: dict[str, dict[str, None]] = field(default_factory=dict)  # arm -> hashes
    _since_edge: list[str] = field(default_factory=list)
    _steps: dict[str, dict[str, float]] = field(default_factory=dict)  # case -> arm -> mean seconds of a step

    @contextmanager
    def listening(self, anew: bool = False) -> Iterator["Compiling"]:
        """`anew`: nothing is taken from Triton's cache on disk."""
        with knobs.compilation.scope():
            knobs.compilation.listener = self._on_compiled
            if anew:
                knobs.compilation.always_compile = True
            knobs.runtime.kernel_load_end_hook.add(self._on_loaded)
            self.listens = True
            try:
                yield self
            finally:
                self.listens = False
                knobs.runtime.kernel_load_end_hook.remove(self._on_loaded)

    @contextmanager
    def seeing_launches(self, arm: str) -> Iterator[None]:
        """Not for timed calls: each launch pays for being seen."""
        self.arm = arm
        knobs.runtime.launch_enter_hook.add(self._on_launch)
        try:
            yield
        finally:
            knobs.runtime.launch_enter_hook.remove(self._on_launch)

    def first_step(self, arm: Arm, synchronise: Callable[[], None] = torch.cuda.synchronize) -> None:
        """Runs and times the first step of an arm that has not run before, if what it compiles is heard."""
        if arm.name in self.first_steps or not self.listens:
            return
        start = time.perf_counter()
        arm.prepare(0)
        arm.step(0)
        synchronise()
        self.first_steps[arm.name] = time.perf_counter() - start

    def since_edge(self) -> str:
        """What was compiled since this was asked before, or nothing."""
        found, self._since_edge = self._since_edge, []
        return "; ".join(dict.fromkeys(found))

    def note(self, samples: Samples) -> None:
        """The samples of a case: from them follows what an arm saves."""
        if samples.seconds.size:
            means = samples.seconds[samples.counts].mean(axis=(0, 1)).tolist()
            self._steps[samples.case] = dict(zip(samples.arms, means, strict=True))

    def found(self, cases: Sequence[CaseSummary], baseline: str) -> tuple[Compiles, ...]:
        """Of every arm, in the order in which they first ran."""
        return tuple(self._found(arm, cases, baseline) for arm in self.first_steps)

    def _found(self, arm: str, cases: Sequence[CaseSummary], baseline: str) -> Compiles:
        variants = self._of(arm)
        by_kernel = Counter(variant.kernel for variant in variants)
        unknown = "" if arm == baseline else self._unknown(arm) or self._unknown(baseline)
        return Compiles(
            arm=arm,
            kernels=len(by_kernel),
            variants=len(variants),
            seconds=_seconds(variants),
            first_step=self.first_steps[arm],
            break_even_launches=None if arm == baseline or unknown else self._break_even(arm, cases, baseline),
            by_kernel=dict(by_kernel),
            from_disk=sum(variant.from_disk for variant in variants),
            earlier=len(self._used.get(arm, {})) - len(variants),
            unknown=unknown,
        )

    def _unknown(self, arm: str) -> str:
        """Why it is not known what the arm compiles costs, or nothing."""
        variants = self._of(arm)
        if any(variant.from_disk for variant in variants):
            return f"variants of {arm} were only read from disk"
        return f"variants of {arm} were there before the run" if len(self._used.get(arm, {})) > len(variants) else ""

    def _of(self, arm: str) -> list[Variant]:
        return [self._variants[key] for key in self._used.get(arm, {}) if key in self._variants]

    def _break_even(self, arm: str, cases: Sequence[CaseSummary], baseline: str) -> int | None:
        more = _seconds(self._of(arm)) - _seconds(self._of(baseline))
        if more <= 0:
            return 0
        saved = [self._saved(case, arm, baseline) for case in cases]
        return ceil(more * len(saved) / sum(saved)) if sum(saved) > 0 else None

    def _saved(self, case: CaseSummary, arm: str, baseline: str) -> float:
        """Seconds a step, where the difference is real."""
        comparison = case.arms[arm].comparisons.get(case.primary) if arm in case.arms else None
        if comparison is None or comparison.verdict not in REAL:
            return 0.0
        seconds = self._steps[case.case]
        return seconds[baseline] - seconds[arm]

    def _on_compiled(self, *, src: Any, metadata: dict[str, Any], times: Any, cache_hit: bool, **_: Any) -> None:
        function = getattr(src, "fn", None)
        name = f"{function.__module__}.{function.__qualname__}" if function else metadata["name"]
        name = name.removeprefix("kernels.")
        self._variants[metadata["hash"]] = Variant(name, times.total * 1e-6, cache_hit)  # Triton counts microseconds
        self._used.setdefault(self.arm, {})[metadata["hash"]] = None
        self._since_edge.append(f"{name} was {'loaded from disk' if cache_hit else 'compiled'} for {self.arm}")

    def _on_loaded(self, module: Any, function: Any, name: str, metadata_group: Any, hash: str) -> None:
        self._loaded[function] = hash

    def _on_launch(self, metadata: Any) -> None:
        function = metadata.data["function"]
        self._used.setdefault(self.arm, {})[self._loaded.get(function, f"{metadata.data['name']} {function}")] = None


def _seconds(variants: Sequence[Variant]) -> float:
    return sum(variant.seconds for variant in variants)


@dataclass(eq=False)
class Counted:
    """An arm under the clock: what is compiled while it runs is its own. Its step is called directly."""

    arm: Arm
    compiling: Compiling

    def __post_init__(self) -> None:
        self.name, self.repeats = self.arm.name, self.arm.repeats
        self.step, self.replays = self.arm.step, self.arm.replays

    def prepare(self, step: int) -> None:
        with self.compiling.seeing_launches(self.name):
            self.arm.prepare(step)
