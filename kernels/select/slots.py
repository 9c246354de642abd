"""Entry numbers of one request to slots, inside a kernel."""

import triton
import triton.language as tl


@triton.jit
def slots_of_row(b_entry, m_held, p_pages, PAGE_SIZE: tl.constexpr):
    """int32 slots, -1 where not held. p_pages: the request's pages. Entries are divided as unsigned: a shift."""
    b_known = b_entry.to(tl.uint32)
    b_page = tl.load(p_pages + (b_known // PAGE_SIZE).to(tl.int32), mask=m_held, other=0)
    return tl.where(m_held, b_page * PAGE_SIZE + (b_known % PAGE_SIZE).to(tl.int32), -1)
