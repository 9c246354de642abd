"""What knobs that size a block may be."""


def check_powers_of_two(**knobs: int | None) -> None:
    """None is left to the class. Raises ValueError."""
    for name, value in knobs.items():
        if value is not None and (value < 1 or value & (value - 1)):
            raise ValueError(f"{name}={value}: must be a power of two")


def check_range(least: int, most: int, **knobs: int | None) -> None:
    """None is left to the class. Raises ValueError."""
    for name, value in knobs.items():
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name}={value}: must be from {least} to {most}")
