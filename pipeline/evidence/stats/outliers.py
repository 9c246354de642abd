"""Rounds far from the others."""

import numpy as np
from scipy import stats

FAR = 3.5  # Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)
EQUAL = 1e-9  # relative: less is rounding


def outliers(seconds: np.ndarray) -> int:
    """seconds [round], positive: how many lie more than FAR robust standard deviations from the median, by their logs.

    The deviation is estimated by the median of absolute deviations, which the outliers themselves do not widen.
    """
    if not len(seconds):
        return 0
    logs = np.log(seconds)
    far = max(FAR * stats.median_abs_deviation(logs, scale="normal"), EQUAL)
    return int((np.abs(logs - np.median(logs)) > far).sum())
