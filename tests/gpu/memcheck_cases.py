"""python -m tests.gpu.memcheck_cases GROUP: what the checker watches, kernels of a group or a fault that is planted."""

import sys
from collections.abc import Callable
from dataclasses import replace

import combine_cases
import cover_cases
import locate_cases
import select_cases
import torch
import triton
import triton.language as tl
from attend_cases import INT_MAX, INT_MIN, AttendCase
from select_cases import INF, NAN
from suites import suite

from kernels.attend import decode_split, hopper_heads, hopper_keys
from kernels.combine import tokens, workers
from kernels.compress.fused import Compress
from kernels.contracts import Keys
from kernels.cover.fused import Cover
from kernels.gather.fused import Gather
from kernels.ingest.fused import Ingest
from kernels.norm.fused import Norm
from kernels.project.fp8 import Project
from kernels.select import locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime
from kernels.select.score_paged import Score
from kernels.select.topk_radix import TopK

DEVICE = "cuda"
JUNK = (INT_MIN, -2, -1, INT_MAX, 1 << 30)
LOCATES = [
    locate_runtime.Locate(),
    locate_constexpr.Locate(),
    locate_churn.Locate(programs=3),
    locate_churn.Locate(compiled_in=False, programs=3),
    locate_batched.Locate(),
    locate_batched.Locate(rows_per_program=4, num_warps=1),
    locate_fused.Locate(),
    locate_fused.Locate(rows_per_program=4, num_warps=1),
]
COMBINES = [workers.Combine(workers=4), tokens.Combine(), tokens.Combine(rows_per_program=1, num_warps=4)]
SCORES = [Score(), Score(rows_per_program=1), Score(rows_per_program=4, entries=128, fill=False)]
COMPRESS = [Compress(whole_from=1 << 30), Compress(whole_from=1 << 30, tile=64), Compress(whole_from=1)]


def locate() -> None:
    """Entries of padded rows are anything, those of others negative where there is none; one page a row."""
    one_row_pages = locate_cases.Case(spans=((40, 45), (3, 4)), page_size=1, width=7, scored="some")
    for case in (*locate_cases.CASES, one_row_pages, replace(one_row_pages, scored="all", width=33)):
        given = case.arguments(DEVICE)
        if given["chosen"] is not None:
            _spoil(given["chosen"], given["rows"].valid if given["scored"].index is None else None)
        for kernel in LOCATES:
            kernel(**given)
    for case in (*cover_cases.CASES, replace(cover_cases.CASES[0], page_size=1)):
        for width in cover_cases.WIDTHS:
            Cover(width)(*cover_cases.inputs(case, DEVICE))
            Cover(width, rows_per_program=4, block=64)(*cover_cases.inputs(case, DEVICE))


def score() -> None:
    mixed = select_cases.Case(((0, 17), (30, 31), (90, 97), (2, 3), (45, 46)), padding=2)
    cases = [mixed, replace(mixed, page_size=1), replace(mixed, heads=7, channels=20, rotated=4, page_size=3)]
    fp8 = replace(mixed, layout="fp8", dtype=torch.bfloat16, channels=128, rotated=64)
    cases += [fp8, replace(fp8, page_size=64, heads=64, ratio=1), replace(fp8, spans=((0, 3),), padding=15)]
    for case in cases:
        step = _score_step(case)
        for kernel in SCORES:
            step.scores(kernel)


def topk() -> None:
    """Odd widths; rows that see nothing, more than there is, or a negative number of entries."""
    for width, k in ((1, 1), (3, 6), (37, 5), (300, 7), (1027, 512), (2500, 768), (9000, 6)):
        scores = torch.randn(6, width, device=DEVICE)
        scores[1], scores[2, ::2], scores[3] = NAN, -INF, 0.0
        visible = torch.tensor([width, width, 0, min(k + 1, width), INT_MAX, -3], dtype=torch.int32, device=DEVICE)
        for kernel in (TopK(), TopK(finish=1), TopK(block=2048), TopK(many_rows=1)):
            kernel(scores, visible, k)
            kernel(scores[:, : max(width - 1, 1)], visible, k)


def prefill() -> None:
    for case in (*combine_cases.CASES, combine_cases.Case(page_sizes=(1, 1), topk=3, window=1)):
        batch, (chosen, scored) = case.batch(DEVICE), case.chosen(DEVICE)
        if chosen is not None:
            _spoil(chosen, None)
        for kernel in COMBINES:
            kernel(chosen, scored, batch, case.ratio, case.columns, case.space)
        batch.rows.positions[:2] = torch.tensor([-1, INT_MIN + 1])[: len(batch.rows.positions)]
        for kernel in COMBINES:
            kernel(chosen, scored, batch, case.ratio, case.columns, case.space)
        for layout in ("fp32", "bf16", "fp8_ds_mla"):
            shape = {"nope": 64, "rope": 8} if layout == "fp8_ds_mla" else {}
            for kernel in (Gather(), Gather(rows_per_program=1)):
                replace(case, layout=layout, **shape).gathered(kernel, DEVICE, torch.float32)


def caches() -> None:
    ingest, compress = suite("ingest", fused=Ingest()), suite("compress")
    for case in ingest.CASES:
        for kernel in (Ingest(), Ingest(heads_per_program=16)):
            kernel(**case.arguments(DEVICE))
    for case in (*compress.CASES, compress.Case(layout="fp8_ds_mla", page_size=1), compress.Case(layout="fp8")):
        for kernel in COMPRESS:
            sequences = compress.Sequences(case, DEVICE)
            halves = [length // 2 for length in case.lengths]
            sequences.feed(kernel, [(0, half) for half in halves], padding=1)
            sequences.feed(kernel, list(zip(halves, case.lengths, strict=True)), padding=2)
    for count, width in ((1, 1), (3, 129), (5, 1536)):
        Norm()(torch.randn(count, width + 3, device=DEVICE)[:, :width], torch.ones(width, device=DEVICE), 1e-6)
    Project().quantised(torch.randn(17, 384, device=DEVICE).bfloat16()[:, 128:])


def attend() -> None:
    """Slots that are looked at hold any negative number; the others anything."""
    whole = {"tokens": 5, "widths": (128, 70)}
    for case in (AttendCase(**whole), AttendCase(**whole, heads=8), AttendCase(**whole, page_sizes=(1, 2), absent=1.0)):
        for kernel in (decode_split.Attend(), hopper_heads.Attend(splits=2), hopper_keys.Attend(splits=2)):
            _attended(kernel, case)
            _attended(kernel, replace(case, layouts=("bf16", "bf16")))
    for case in (AttendCase(heads=3, widths=(7, 65), nope=64, rope=8), AttendCase(tokens=1, heads=1, widths=(1, 1))):
        _attended(decode_split.Attend(splits=3), case)


def _attended(kernel: Callable, case: AttendCase) -> None:
    q, keys, sink, scale = case.inputs()
    negative = torch.tensor([INT_MIN, -2, -1], device=DEVICE)[torch.arange(case.tokens, device=DEVICE) % 3].int()
    spoilt = [
        Keys(source.cache, source.slots.where(source.slots != -1, negative[:, None]), source.lengths) for source in keys
    ]
    kernel(q, spoilt, sink, scale)


def _spoil(chosen: torch.Tensor, valid: torch.Tensor | None) -> None:
    """No place is any negative number; a row that is not valid holds anything."""
    negative = torch.tensor([INT_MIN, -2, -1], device=DEVICE).int()
    places = torch.arange(chosen.numel(), device=DEVICE).view(chosen.shape)
    chosen.copy_(torch.where(chosen < 0, negative[places % 3], chosen))
    if valid is not None:
        junk = torch.tensor(JUNK, device=DEVICE).int()
        chosen.copy_(torch.where(valid[:, None], chosen, junk[places % len(JUNK)]))


def _score_step(case: select_cases.Case) -> select_cases.Step:
    cache = case.build("cpu").cache
    return replace(case.build(DEVICE), cache=replace(cache, data=cache.data.cuda()))


@triton.jit
def read_kernel(p_from, p_to, first):
    """Entries without a bound, as an index kernel that trusts what it is given."""
    tl.store(p_to + tl.arange(0, 32), tl.load(p_from + first + tl.arange(0, 32)))


def reads_past_the_end() -> None:
    """By one element of the 33."""
    read_kernel[(1,)](torch.zeros(33, device=DEVICE), torch.zeros(32, device=DEVICE), 2)


def writes_past_the_end() -> None:
    read_kernel[(1,)](torch.zeros(32, device=DEVICE), torch.zeros(31, device=DEVICE), 0)


def reads_before_writing() -> None:
    read_kernel[(1,)](torch.empty(32, device=DEVICE), torch.zeros(32, device=DEVICE), 0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    torch.cuda.synchronize()
