"""What a kernel's knobs may be."""

from collections.abc import Sequence

SPLITS = range(1, 129)


def check(name: str, value: int | None, allowed: Sequence[int]) -> None:
    """Raises ValueError with the values that are allowed."""
    if value is not None and value not in allowed:
        values = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise ValueError(f"{name}={value}: must be one of {values}")
