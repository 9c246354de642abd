"""Requests -> steps: continuous batching, in the order in which vLLM's scheduler fills a step.

Who takes part in a step must not depend on how fast an arm is. So arrivals are held against a nominal clock, on which
a step costs STEP_SECONDS and each of its tokens TOKEN_SECONDS, about what a whole model takes on a GPU. Only the
arrival that ends an idle gap makes that clock jump, so no other arrival falls into one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.work.workload import Request

STEP_SECONDS = 0.02
TOKEN_SECONDS = 2e-5


@dataclass(frozen=True)
class Chunk:
    """The tokens of one request in a step. `emits`: they are its last known ones, so the step yields the next."""

    request: int
    start: int  # tokens of the request before the step
    tokens: int
    emits: bool


@dataclass(frozen=True)
class Step:
    time: float  # seconds on the nominal clock, at its start
    chunks: tuple[Chunk, ...]

    @property
    def tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def max_seq_len(self) -> int:
        return max(chunk.start + chunk.tokens for chunk in self.chunks)


@dataclass
class _Running:
    request: int
    computed: int
    known: int  # prompt and output tokens so far
    context: int  # tokens that are computed before it is done

    @property
    def done(self) -> bool:
        return self.computed == self.context

    def chunk(self, budget: int) -> Chunk:
        tokens = min(self.known - self.computed, budget)
        return Chunk(self.request, self.computed, tokens, emits=self.computed + tokens == self.known)

    def advance(self, chunk: Chunk) -> None:
        self.computed += chunk.tokens
        self.known += chunk.emits


def schedule(
    requests: Sequence[Request], max_num_seqs: int, max_num_batched_tokens: int, chunked_prefill: bool
) -> list[Step]:
    """Running requests first, in the order they came in; then those that wait, while seats and tokens are left.

    Without chunked prefill a prompt waits until it fits whole; one above max_num_batched_tokens never does.
    """
    waiting = deque(sorted(range(len(requests)), key=lambda number: requests[number].arrival))
    running: list[_Running] = []
    steps: list[Step] = []
    clock = 0.0
    while waiting or running:
        if not running:
            clock = max(clock, requests[waiting[0]].arrival)
        budget = max_num_batched_tokens
        chunks = []
        for member in running:
            if budget:
                chunks.append(member.chunk(budget))
                budget -= chunks[-1].tokens
        while waiting and budget and len(running) < max_num_seqs and requests[waiting[0]].arrival <= clock:
            request = requests[waiting[0]]
            member = _Running(waiting[0], request.cached_len, request.prompt_len, request.context)
            chunk = member.chunk(budget)
            if not (chunk.emits or chunked_prefill):
                break
            waiting.popleft()
            running.append(member)
            chunks.append(chunk)
            budget -= chunk.tokens
        assert chunks, "a prompt that is longer than max_num_batched_tokens needs chunked prefill"
        steps.append(Step(clock, tuple(chunks)))
        clock += STEP_SECONDS + TOKEN_SECONDS * steps[-1].tokens
        for member, chunk in zip(running, chunks, strict=False):
            member.advance(chunk)
        running = [member for member in running if not member.done]
    return steps
