"""From seconds to the figures of an arm, to comparisons of arms, to a sentence."""
