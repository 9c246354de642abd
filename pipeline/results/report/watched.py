"""The machine while it was timed, results in its cycles, and what was compiled: Markdown."""

from collections.abc import Iterable, Sequence

from pipeline.evidence.findings import Compiles, Machine
from pipeline.evidence.summary import CaseSummary, Summary
from pipeline.results.report.section import table


def sections(summary: Summary) -> list[str]:
    """Those that the run has."""
    found = summary.findings
    parts = [
        machine_section(found.machine),
        cycles_section(summary.cases),
        compiles_section(found.compiles, summary.baseline),
    ]
    return [part for part in parts if part]


def machine_section(machine: Machine | None) -> str:
    if machine is None:
        return ""
    blocks = f"{machine.blocks} blocks, {machine.void_blocks} of them void"
    told = {
        "SM clock": _range(machine.sm_clock_mhz, "MHz"),
        "memory clock": _range(machine.memory_clock_mhz, "MHz"),
        "temperature": _range(machine.temperature_c, "°C"),
        "power": _range(machine.power_w, "W"),
        "throttled by": _throttled(machine),
        "load": _range(machine.load, "processes", 1),
        "CPU": _range(machine.cpu_mhz, "MHz"),
    }
    line = ", ".join(f"{name} {text}" for name, text in told.items() if text)
    return f"### The machine while it was timed\n\nAt the edges of {blocks}: {line}"


def _throttled(machine: Machine) -> str:
    if machine.throttled_by is None:
        return "(not told)"
    return ", ".join(machine.throttled_by) or ("nothing" if machine.sm_clock_mhz else "")


def cycles_section(cases: Sequence[CaseSummary]) -> str:
    """Means in cycles of the device, at the median clock of each case."""
    known = [case for case in cases if case.clock_mhz is not None]
    if not known:
        return ""
    arms = list(dict.fromkeys(arm for case in known for arm in case.arms))
    header, rows = ["case", "clock MHz", *(f"`{arm}`" for arm in arms)], []
    for case in known:
        key = f"mean_{case.primary}_cycles"
        means = [case.arms[arm].metrics.get(key) if arm in case.arms else None for arm in arms]
        rows.append([case.case, f"{case.clock_mhz:,.0f}", *("-" if it is None else f"{it:,.0f}" for it in means)])
    return "### In cycles of the device\n\n" + _table(header, rows)


def compiles_section(compiles: Sequence[Compiles], baseline: str) -> str:
    if not compiles:
        return ""
    header = ("arm", "kernels", "variants", "seconds", "first step", "pays after")
    rows = []
    for each in compiles:
        counts = [str(each.kernels), str(each.variants), f"{each.seconds:.2f} s", f"{each.first_step:.2f} s"]
        rows.append([f"`{each.arm}`", *counts, _pays(each, baseline)])
    return "### What was compiled\n\n" + _table(header, rows) + "\n\n" + " ".join(_notes(compiles))


def _pays(each: Compiles, baseline: str) -> str:
    if each.arm == baseline:
        return "baseline"
    if each.unknown:
        return f"unknown: {each.unknown}"
    if each.break_even_launches is None:
        return "never: it saves nothing"
    return f"{each.break_even_launches:,} launches" if each.break_even_launches else "at once: it compiles no more"


def _notes(compiles: Sequence[Compiles]) -> Iterable[str]:
    yield "A variant that several arms launch counts for each. A first step compiles what the arms before have left."
    from_disk, earlier = (sum(getattr(each, name) for each in compiles) for name in ("from_disk", "earlier"))
    if from_disk:
        yield f"{from_disk} came from Triton's cache on disk and cost too little (`measure.compile_anew=true`)."
    if earlier:
        yield f"{earlier} more were there already, compiled by an earlier job of the same process."
    for each in compiles:
        many = [f"{kernel} {count}" for kernel, count in each.by_kernel.items() if count > 1]
        if many:
            yield f"More than one variant for `{each.arm}`: {', '.join(many)}."


def _range(bounds: tuple[float, float] | None, unit: str, digits: int = 0) -> str:
    if bounds is None:
        return ""
    low, high = (f"{value:,.{digits}f}" for value in bounds)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Names on the left, figures on the right."""
    return table(header, ["---", *["--:"] * (len(header) - 1)], rows)
