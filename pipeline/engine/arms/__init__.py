"""An arm is one variant made runnable: launched, as a graph, one stage alone, or taken apart."""
