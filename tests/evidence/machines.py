"""Machines whose drift and noise are known: log seconds [run, round, arm] without any effect."""

import numpy as np
from scipy.signal import lfilter


def independent(random, runs, rounds, arms, noise):
    return random.normal(0, noise, (runs, rounds, arms))


def linear_drift(random, runs, rounds, arms, noise):
    slope = random.normal(0, 0.5, (runs, 1, 1))
    return slope * np.linspace(0, 1, rounds)[:, None] + independent(random, runs, rounds, arms, noise)


def common_walk(random, runs, rounds, arms, noise):
    """Wanders by tens of percent, and all arms with it."""
    machine = np.cumsum(random.normal(0, 0.1, (runs, rounds, 1)), axis=1)
    return machine + independent(random, runs, rounds, arms, noise)


def correlated(random, runs, rounds, arms, noise, shared=0.3):
    """Every arm has a disturbance of its own, of which a part is left in the next round (AR(1))."""
    before = 20
    fresh = random.normal(0, noise, (runs, before + rounds, arms))
    return lfilter([1], [1, -shared], fresh, axis=1)[:, before:]


def spiky(random, runs, rounds, arms, noise):
    """In one round of ten an arm takes a third longer."""
    hit = random.random((runs, rounds, arms)) < 0.1
    return independent(random, runs, rounds, arms, noise) + 0.3 * hit


ALL = (independent, linear_drift, common_walk, correlated, spiky)
