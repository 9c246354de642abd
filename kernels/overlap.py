"""Programmatic dependent launch: a kernel is set up while the one before it ends (compute capability 9.0 and above)."""

import triton
import triton.language as tl

AT_ONCE = 2048  # programs: those of an overlapping launch start at 1.3 ns each (H200), which more of them must be worth
WORTH_IT = 6 << 10  # bytes that a program moves in that time and more


@triton.jit
def wait_for_inputs(OVERLAP: tl.constexpr):
    """First statement of a kernel that is launched with `launch_options`: nothing is read or written before it."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


def launch_options(overlap: bool, programs: int, bytes_each: int = 0) -> dict[str, bool]:
    """Other targets and the interpreter know no such option, so it is named only where it is asked for.

    bytes_each: what a program moves, where that is known.
    """
    overlaps = overlap and (programs <= AT_ONCE or bytes_each >= WORTH_IT)
    return {"OVERLAP": True, "launch_pdl": True} if overlaps else {"OVERLAP": False}
