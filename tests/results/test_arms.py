from dataclasses import replace

from pipeline.results.arms import arms
from tests.results.cases import config, summary


def test_an_arm_is_what_it_has_in_the_place_of_the_baselines_stages():
    whole = config()
    never = whole.arms["never"]
    shortcut = {"_target_": "kernels.select.shortcut_mine.Shortcut", "requests": 2}
    mine = replace(never, select=replace(never.select, shortcut=shortcut), share=not never.share)
    tuned = replace(never, attend={**never.attend, "rows": 8})
    found = arms(summary(), replace(whole, arms={"never": never, "mine": mine, "tuned": tuned, "twin": never}))
    assert found == {
        "never": "the baseline",
        "mine": f"select.shortcut_mine (requests=2), share={mine.share}",
        "tuned": "attend.reference (rows=8)",
        "twin": "never again",
        "noise": "never again",
    }
    assert "noise" not in arms(replace(summary(), control=None), whole)
