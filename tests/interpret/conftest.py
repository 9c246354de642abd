"""Kernels run by Triton's interpreter: in a process of their own, in float32 only, at small shapes."""

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
