"""What no control of one run can tell."""

OF_A_STEP, OF_A_STAGE = 0.003, 0.008


def resolution(scope: str) -> float:
    """Relative: what two copies of one arm may differ by for good, by where their memory lies.

    Of 107 equal arms timed in graphs on an H200 (docs/h200 and its edition before), 9 of 52 single kernels surely
    differed by 0.25 to 0.74 %; of 55 whole steps one by 0.51 %, a rank of eight's of 0.1 ms, and one by 0.21 %.
    """
    return OF_A_STEP if scope == "stack" else OF_A_STAGE
