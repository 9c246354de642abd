"""Several programs make parts of a result: who draws the last ticket has them all, and waits for nobody."""

import triton
import triton.language as tl


@triton.jit
def draws_last(p_ticket, PROGRAMS: tl.constexpr):
    """Whether PROGRAMS - 1 programs drew before. Then what they had stored is in L2, and the ticket is 0 again."""
    tl.debug_barrier()  # the thread that draws does so after the stores of all threads
    is_last = tl.atomic_add(p_ticket, 1, sem="acq_rel", scope="gpu") == PROGRAMS - 1
    if is_last:
        tl.store(p_ticket, 0)
    return is_last
