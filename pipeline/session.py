"""One layer from Python, for people who debug a kernel: see README, "One layer by hand"."""

from collections.abc import Mapping

import torch
from hydra import initialize_config_dir
from torch import Tensor

from pipeline.door.commandline import CONF, composed
from pipeline.door.config import from_yaml
from pipeline.door.stages import stages
from pipeline.engine import checkpoint
from pipeline.engine.device import resolved
from pipeline.engine.session import LayerSession
from pipeline.schema import Kind


def open_layer(
    kind: Kind,
    tensors: Mapping[str, Tensor] | None,
    *overrides: str,
    variant: str = "reference",
    max_tokens: int = 4096,
    max_requests: int = 8,
) -> LayerSession:
    """A layer of `kind` on full-size tensors under the checkpoint's names, run by a variant of conf/variant.

    None draws them from the seed.

    Overrides are those of the command line, such as model=tiny or engine=plain. ConfigError names what is wrong with
    them or with the tensors.
    """
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = from_yaml(composed(["+exp=short_ctx", f"variant@arms.never={variant}", *overrides]))
    engine, arm = resolved(config.engine), stages(config.arms["never"])
    if tensors is None:
        tensors = checkpoint.draw(config.model, kind, 1, config.seed, torch.device("cpu"))
    return LayerSession(config.model, engine, arm, kind, tensors, max_tokens, max_requests)
