"""Shares and times in words."""


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.3g} %"


def among(least: float, most: float) -> str:
    """`5 to 7 %`"""
    low, high = percent(least), percent(most)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def signed(low: float, high: float | None = None) -> str:
    """`-1.2 to +3.4 %`"""
    ends = dict.fromkeys(f"{100 * end + 0.0:+.1f}" for end in (low, low if high is None else high))
    return f"{' to '.join(ends)} %"


def share_of(low: float, high: float) -> str:
    """`19% to 21%`, of what cannot be more than all."""
    if high >= 1:
        return f"at least {low:.0%}"
    return f"about {low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"


def time(seconds: float) -> str:
    """A difference: `-1.01 ms`."""
    unit, scale = ("us", 1e6) if abs(seconds) < 1e-3 else ("ms", 1e3) if abs(seconds) < 1 else ("s", 1.0)
    return f"{scale * seconds:+.3g} {unit}"
