"""How many programs share the keys of one token."""

CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)


def choose_splits(items: int, tiles: int, resident: int, start: float, combine: float) -> int:
    """The candidate of least predicted time, counted in tiles of keys.

    items: programs with one split; tiles: the most a token has; resident: programs that run at once; start: what an
    item takes beside its tiles; combine: what the second launch takes.
    """

    def cost(splits: int) -> float:
        waves = -(-items * splits // resident)
        return waves * (-(-tiles // splits) + start) + combine * (splits > 1)

    return min((s for s in CANDIDATES if s <= max(tiles, 1)), key=cost)
