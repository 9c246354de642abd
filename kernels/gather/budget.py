"""How large a workspace may be."""

from kernels.layouts import Workspace

MAX_ROWS = 1 << 22  # 4 GiB of bf16 rows of 512 channels


def rows_within(max_rows: int, requests: int, space: Workspace) -> int:
    """Rows of the workspace of so many requests. ValueError where they are more than max_rows."""
    rows = requests * space.rows
    if rows > max_rows:
        raise ValueError(
            f"gather: {requests} requests x ({space.entries} entries + {space.tokens} tokens) are {rows} rows, more "
            f"than prefill.gather.max_rows={max_rows}; raise it, or lower engine.max_num_seqs or "
            "engine.max_num_batched_tokens"
        )
    return rows
