from hypothesis import given
from hypothesis import strategies as st

from pipeline.work.schedule import STEP_SECONDS, TOKEN_SECONDS, Chunk, Step, schedule
from pipeline.work.workload import Request


@st.composite
def some_requests(draw):
    requests = []
    for arrival in draw(st.lists(st.floats(0, 1), min_size=1, max_size=8)):
        prompt = draw(st.integers(1, 40))
        requests.append(Request(arrival, draw(st.integers(0, prompt - 1)), prompt, draw(st.integers(1, 6))))
    return requests


seats = st.integers(1, 5)
budgets = st.integers(1, 30)


@given(some_requests(), seats, budgets)
def test_every_token_is_computed_once_and_in_order(requests, max_num_seqs, max_num_batched_tokens):
    steps = schedule(requests, max_num_seqs, max_num_batched_tokens, True)
    for number, request in enumerate(requests):
        chunks = [chunk for step in steps for chunk in step.chunks if chunk.request == number]
        computed = request.cached_len
        for chunk in chunks:
            assert chunk.start == computed and chunk.tokens >= 1
            computed += chunk.tokens
            assert chunk.emits == (computed >= request.prompt_len)
        assert computed == request.prompt_len + request.output_len - 1
        assert sum(chunk.emits for chunk in chunks) == request.output_len


@given(some_requests(), seats, budgets)
def test_budgets_hold_and_no_step_is_empty(requests, max_num_seqs, max_num_batched_tokens):
    steps = schedule(requests, max_num_seqs, max_num_batched_tokens, True)
    for step in steps:
        assert 1 <= step.tokens <= max_num_batched_tokens
        assert len(step.chunks) <= max_num_seqs
        assert len({chunk.request for chunk in step.chunks}) == len(step.chunks)


@given(some_requests(), seats, budgets)
def test_first_come_first_served_and_nobody_before_its_arrival(requests, max_num_seqs, max_num_batched_tokens):
    steps = schedule(requests, max_num_seqs, max_num_batched_tokens, True)
    joined = list(dict.fromkeys(chunk.request for step in steps for chunk in step.chunks))
    assert joined == sorted(range(len(requests)), key=lambda number: (requests[number].arrival, number))
    for step in steps:
        assert all(requests[chunk.request].arrival <= step.time for chunk in step.chunks)


@given(some_requests(), seats, budgets)
def test_a_request_that_has_arrived_waits_only_for_a_seat_or_for_tokens(requests, max_num_seqs, max_num_batched_tokens):
    waiting = set(range(len(requests)))
    for step in schedule(requests, max_num_seqs, max_num_batched_tokens, True):
        waiting -= {chunk.request for chunk in step.chunks}
        if any(requests[number].arrival <= step.time for number in waiting):
            assert step.tokens == max_num_batched_tokens or len(step.chunks) == max_num_seqs


@given(some_requests(), seats, st.integers(40, 60))
def test_without_chunked_prefill_every_prompt_is_one_chunk(requests, max_num_seqs, max_num_batched_tokens):
    steps = schedule(requests, max_num_seqs, max_num_batched_tokens, False)
    for number, request in enumerate(requests):
        first = next(chunk for step in steps for chunk in step.chunks if chunk.request == number)
        assert (first.start, first.tokens) == (request.cached_len, request.prompt_len - request.cached_len)


def test_decodes_go_before_prefills_and_a_long_prompt_takes_what_is_left():
    requests = [Request(0.0, 9, 10, 3), Request(0.0, 0, 12, 1)]
    assert [step.chunks for step in schedule(requests, 8, 8, True)] == [
        (Chunk(0, 9, 1, True), Chunk(1, 0, 7, False)),
        (Chunk(0, 10, 1, True), Chunk(1, 7, 5, True)),
        (Chunk(0, 11, 1, True),),
    ]


def test_the_clock_advances_by_the_nominal_step_and_jumps_when_nothing_runs():
    steps = schedule([Request(0.0, 0, 4, 2), Request(9.0, 0, 4, 1)], 8, 8, True)
    assert [step.time for step in steps] == [0.0, STEP_SECONDS + 4 * TOKEN_SECONDS, 9.0]


def test_an_arrival_in_an_idle_gap_starts_the_next_step():
    requests = [Request(0.0, 0, 4, 1), Request(0.01, 0, 4, 1), Request(9.0, 0, 4, 1), Request(9.0, 0, 4, 1)]
    steps = schedule(requests, 1, 8, True)
    cost = STEP_SECONDS + 4 * TOKEN_SECONDS
    assert [step.time for step in steps] == [0.0, cost, 9.0, 9.0 + cost]


def test_what_a_step_says_of_itself():
    step = Step(0.0, (Chunk(0, 7, 1, True), Chunk(1, 2, 3, False)))
    assert (step.tokens, step.max_seq_len) == (4, 8)
