"""Arms take turns under one clock, and what is read beside it."""
