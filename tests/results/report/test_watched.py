from dataclasses import replace

from pipeline.evidence.findings import Compiles, Findings, Machine
from pipeline.results.report.watched import compiles_section, cycles_section, machine_section, sections
from tests.results.cases import summary

MACHINE = Machine(
    blocks=40,
    void_blocks=2,
    sm_clock_mhz=(1965.0, 1980.0),
    memory_clock_mhz=(3201.0, 3201.0),
    temperature_c=(41, 55),
    power_w=(120.4, 455.6),
    throttled_by=("power cap",),
    load=(0.42, 1.5),
    cpu_mhz=None,
    warnings=("another process is on the device",),
)
BASE = Compiles("never", 3, 4, 2.5, 6.25, None, {"select.a": 2, "select.b": 1, "emit.c": 1})


def test_the_machine():
    lines = machine_section(MACHINE).splitlines()
    assert lines[0] == "### The machine while it was timed"
    assert lines[2] == (
        "At the edges of 40 blocks, 2 of them void: SM clock 1,965 to 1,980 MHz, memory clock 3,201 MHz, temperature "
        "41 to 55 °C, power 120 to 456 W, throttled by power cap, load 0.4 to 1.5 processes"
    )


def test_a_device_that_was_not_throttled_says_so_and_a_cpu_says_nothing():
    assert "throttled by nothing" in machine_section(replace(MACHINE, throttled_by=()))
    cpu = replace(MACHINE, sm_clock_mhz=None, memory_clock_mhz=None, temperature_c=None, power_w=None, throttled_by=())
    assert "throttled by (not told)" in machine_section(replace(MACHINE, throttled_by=None))
    assert "throttled" not in machine_section(cpu) and "load" in machine_section(cpu)


def test_cycles_where_the_clock_is_known():
    first, second, *_ = summary().cases
    arms = {name: replace(arm, metrics={"mean_tpot_cycles": 1_234_567.8}) for name, arm in first.arms.items()}
    arms["batch"] = replace(arms["batch"], metrics={})
    lines = cycles_section([replace(first, clock_mhz=1980.0, arms=arms), second]).splitlines()
    assert lines[2] == "| case | clock MHz | `never` | `control` | `batch` | `row.v2` |"
    assert lines[4:] == ["| decode-1024 | 1,980 | 1,234,568 | 1,234,568 | - | 1,234,568 |"]
    assert cycles_section([first, second]) == ""


def test_what_was_compiled():
    more = Compiles("mine", 3, 31, 12.0, 9.0, 1_200_000, {"select.a": 29, "select.b": 1, "emit.c": 1}, 2, 1)
    saves, none = replace(more, arm="saves", break_even_launches=None), replace(BASE, arm="same", break_even_launches=0)
    text = compiles_section([BASE, more, saves, none], "never")
    assert "| `never` | 3 | 4 | 2.50 s | 6.25 s | baseline |" in text
    assert "| `mine` | 3 | 31 | 12.00 s | 9.00 s | 1,200,000 launches |" in text
    unknown = replace(more, arm="read", break_even_launches=None, unknown="variants of read were only read from disk")
    assert "| unknown: variants of read were only read from disk |" in compiles_section([BASE, unknown], "never")
    assert "| never: it saves nothing |" in text and "| at once: it compiles no more |" in text
    assert "More than one variant for `mine`: select.a 29." in text
    assert "4 came from Triton's cache on disk" in text and "2 more were there already" in text


def test_a_run_without_them_has_no_sections():
    assert sections(summary()) == []
    found = replace(summary(), findings=Findings(machine=MACHINE, compiles=(BASE,)))
    assert [part.splitlines()[0] for part in sections(found)] == [
        "### The machine while it was timed",
        "### What was compiled",
    ]
