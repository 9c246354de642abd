"""How many columns of a row are written, and how far apart rows lie.

exact: as many as the longest request has entries, rows side by side. full: as many as there could ever be. adaptive:
the next power of two above the longest request, 128 at least, but rows as far apart as with full, so that a consumer
that was captured at any width finds them (vLLM #50004 moved them, and every row but the first was read wrong).
"""

from typing import Literal

from torch import Tensor

Width = Literal["exact", "adaptive", "full"]
LEAST = 128


def columns(width: Width, longest: int, capacity: int) -> int:
    if width == "adaptive":
        return min(max(1 << (longest - 1).bit_length() if longest else 0, LEAST), capacity)
    return {"exact": longest, "full": capacity}[width]


def empty_slots(width: Width, like: Tensor, longest: int, capacity: int) -> Tensor:
    """int32 [len(like), columns], uninitialised."""
    wide = columns(width, longest, capacity)
    return like.new_empty(len(like), wide if width == "exact" else capacity)[:, :wide]
