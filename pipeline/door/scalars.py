"""Numbers in a YAML file that are not what they look like: YAML 1.1 reads 010 as 8 and 1:30 as 90."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

OCTAL_OR_BASE_SIXTY = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)")


def misread(path: Path) -> Iterator[str]:
    """A line for each. On the command line they are text, and refused as such."""
    for token in yaml.scan(path.read_text()):
        if isinstance(token, yaml.ScalarToken) and token.plain and OCTAL_OR_BASE_SIXTY.fullmatch(token.value):
            read = yaml.safe_load(token.value)
            yield (
                f"{path}, line {token.start_mark.line + 1}: YAML reads {token.value} as {read}; "
                "write a plain decimal number, or quotes around text"
            )
