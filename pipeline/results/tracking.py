"""The tracker, where one is asked for: MLflow takes seconds to import, so it is imported only then."""

import sys

from pipeline.evidence.summary import Summary
from pipeline.results.folder.record import Run
from pipeline.schema import Config, ConfigError


def reach_tracker(config: Config) -> None:
    """ConfigError from a store that cannot take the study."""
    if not config.track.enabled:
        return
    from pipeline.results.track import TrackError, prepare

    try:
        prepare(config)
    except TrackError as error:
        raise ConfigError([f"track.uri: {error}"]) from error


def tracked(run: Run, summary: Summary) -> bool:
    """Whether the tracker has all that it was to have; the folder has it in any case."""
    if not run.config.track.enabled:
        return True
    from pipeline.results.track import TrackError, track

    try:
        entry = track(run.folder, run.config, run.provenance, summary)
    except TrackError as error:
        print(error, file=sys.stderr)
        return False
    print(f"mlflow   make ui, then http://127.0.0.1:5000/{entry.page}")
    return True
