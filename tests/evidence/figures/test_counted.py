import pytest

from pipeline.evidence.figures.counted import counted, tokens
from pipeline.work.schedule import schedule
from pipeline.work.workload import Request


@pytest.mark.parametrize(
    ("metric", "steps", "brought"),
    [("ttft", [True] * 3 + [False] * 3, 16 + 16 + 2), ("tpot", [False] + [True] * 5, 1 + 2 + 1 + 1 + 1),
     ("e2el", [True] * 6, 3 + 4)],
)  # fmt: skip
def test_the_steps_that_a_metric_is_made_of(metric, steps, brought):
    """Two prompts of 16 in chunks of 16: the second brings its first token two steps after the first."""
    requests = (Request(0.0, 0, 16, 3), Request(0.0, 0, 16, 4))
    made = schedule(requests, max_num_seqs=2, max_num_batched_tokens=16, chunked_prefill=True)
    among = counted(metric, requests, made)
    assert among.tolist() == steps
    assert tokens(metric, made, among) == brought
