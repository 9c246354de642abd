"""Programmatic dependent launch: a kernel is set up while the one before it ends (compute capability 9.0 and above)."""

import triton
import triton.language as tl

AT_ONCE = 2048  # programs; a grid that a GPU cannot hold at once pays more for waiting than it gains


@triton.jit
def wait_for_inputs(OVERLAP: tl.constexpr):
    """First statement of a kernel that is launched with `launch_options`: nothing is read or written before it."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


def launch_options(overlap: bool, programs: int) -> dict[str, bool]:
    """Other targets and the interpreter know no such option, so it is named only where it is asked for."""
    overlaps = overlap and programs <= AT_ONCE
    return {"OVERLAP": True, "launch_pdl": True} if overlaps else {"OVERLAP": False}
