import numpy as np
import pytest

from pipeline.questions import Bin, Traffic
from pipeline.work.traffic import drawn
from tests.compose import config

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10,3\n2023-11-16 18:17:04,10,1\n"


def within(found, tokens: int) -> float:
    return found.shares[found.contexts <= tokens].sum()


def test_requests_of_a_bin_are_spread_over_it():
    found = drawn(Traffic(prompts=[Bin(100, 3.0), Bin(300, 1.0)])).prompts
    assert found.shares.sum() == pytest.approx(1)
    assert within(found, 100) == pytest.approx(0.75)
    assert within(found, 50) == pytest.approx(0.375, abs=0.05)
    assert within(found, 200) == pytest.approx(0.875, abs=0.02)
    assert (found.contexts.min(), found.contexts.max()) == (7, 300)


def test_prompts_stand_for_decodes_that_are_not_given():
    both = Traffic(prompts=[Bin(100, 1.0)], decodes=[Bin(200, 1.0)])
    assert drawn(both).decodes.contexts.max() == 200
    assert drawn(both).prompts.contexts.max() == 100
    assert drawn(Traffic(prompts=[Bin(100, 1.0)])).decodes.contexts.max() == 100


def test_a_trace_counts_prompts_and_what_each_decode_step_sees(tmp_path):
    """The first of three tokens comes from the prompt's own step; the other two see 11 and 12 tokens."""
    path = tmp_path / "mine.csv"
    path.write_text(TRACE)
    traffic = Traffic(trace=str(path))
    prompts, decodes = drawn(traffic).prompts, drawn(traffic).decodes
    assert (prompts.contexts.tolist(), prompts.shares.tolist()) == ([10], [1.0])
    assert (decodes.contexts.tolist(), decodes.shares.tolist()) == ([11, 12], [0.5, 0.5])
    assert drawn(traffic).source == "mine.csv"


def test_a_trace_whose_requests_never_decode_has_no_such_lengths(tmp_path):
    path = tmp_path / "once.csv"
    path.write_text(TRACE.replace("10,3", "10,1"))
    found = drawn(Traffic(trace=str(path))).decodes
    assert len(found.contexts) == 0 and found.shares.sum() == 0


@pytest.mark.parametrize(("name", "prompts", "decodes"), [("conv", 0.861, 0.946), ("code", 0.626, 0.604)])
def test_the_published_traffics_have_their_share_of_short_requests(name, prompts, decodes):
    traffic = config("+exp=short_ctx", f"traffic=azure_2023_{name}").traffic[f"azure_2023_{name}"]
    assert within(drawn(traffic).prompts, 2051) == pytest.approx(prompts, abs=5e-4)
    assert within(drawn(traffic).decodes, 2051) == pytest.approx(decodes, abs=5e-4)
    assert np.all(np.diff([one.up_to for one in traffic.prompts]) > 0)
    assert "CC-BY" in traffic.source and "Splitwise" in drawn(traffic).source


def test_decode_steps_are_counted_and_never_listed(tmp_path):
    """A thousand requests of a million tokens make 1e9 decode steps; as a list they would take 8 GB."""
    path = tmp_path / "long.csv"
    rows = "2023-11-16 18:17:03,7,1048576\n" * 1000 + "2023-11-16 18:17:03,8,2\n"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    found = drawn(Traffic(trace=str(path))).decodes
    assert (found.contexts[0], found.contexts[-1], len(found.contexts)) == (8, 7 + 1048575, 1048575)
    assert found.shares[:3] * (1000 * 1048575 + 1) == pytest.approx([1000, 1001, 1000])
    assert found.shares.sum() == pytest.approx(1)
