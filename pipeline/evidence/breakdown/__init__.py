"""A step taken apart: what each stage takes, what it needs at best, and whether that explains a difference."""
