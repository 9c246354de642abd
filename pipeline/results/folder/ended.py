"""The folder of a run that came to its end, one way or another, read back whole."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pipeline.evidence.summary import Summary
from pipeline.results.folder.provenance import Provenance
from pipeline.results.folder.record import read_config, read_provenance, read_summary
from pipeline.results.folder.status import close_if_dead, read_status
from pipeline.schema import Config

DAMAGED = (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, YAMLError, OmegaConfBaseException)


class NotEnded(ValueError):
    """Why there is nothing to read, on one line."""


@dataclass(frozen=True)
class Ended:
    config: Config
    provenance: Provenance
    summary: Summary


def ended(folder: Path) -> Ended:
    """Of a run whose process is gone the status is put right. NotEnded where it is running or the folder damaged."""
    try:
        close_if_dead(folder)
        status, found = read_status(folder), Ended(read_config(folder), read_provenance(folder), read_summary(folder))
    except DAMAGED as error:
        reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
        raise NotEnded(f"{folder} is not the folder of a run that was summarised: {reason}") from error
    if status == "running":
        raise NotEnded(f"{folder}: the run is running; upload it when it has ended")
    return found
