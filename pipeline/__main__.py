"""The door: `python -m pipeline +exp=NAME` and overrides; with -m, a job for each combination of values.

Exit code 0: done. 1: an arm or a run failed, or a gate did not hold. 2: bad input, told before any work. 130: stopped
by Ctrl-C. 143: by SIGTERM.
"""

import sys
import traceback
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from pipeline.door.commandline import CONF, CommandLine, option_faults
from pipeline.door.config import faults, sound
from pipeline.door.scalars import misread
from pipeline.door.words import nearest
from pipeline.results.folder.status import Terminated, sigterm_raises
from pipeline.schema import ConfigError

VERSION_BASE = "1.3"
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
STOPPED = "stopped: whole rounds that were measured are in the folder that was named, if one was"

OUT_OF_MEMORY = ("not enough memory: you tried to allocate", "can't allocate memory", "CUDA out of memory")  # torch's
SMALLER = "use a smaller model, fewer requests, shorter contexts, or a rank of more (engine.tp)"


def main() -> None:
    try:
        with sigterm_raises():
            sys.exit(_main())
    except KeyboardInterrupt:
        _told([STOPPED])
        sys.exit(INTERRUPTED)
    except Terminated:
        _told([STOPPED])
        raise


def _main() -> int:
    typed = sys.argv[1:]
    parser = get_args_parser()
    parser.print_usage = lambda file=None: None  # a wrong option is told on one line
    arguments = parser.parse_intermixed_args(typed)
    if not (arguments.help or arguments.hydra_help or arguments.shell_completion):
        folders = (CONF, *([Path(arguments.config_dir).resolve()] if arguments.config_dir else []))
        with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE):
            line = CommandLine(arguments.overrides, arguments.multirun, folders)
            if _told(_faults(line, arguments)):
                return BAD_INPUT
            options = [text for text in typed if text not in arguments.overrides]
            sys.argv[1:] = [*options, *map(line.spelt_out, arguments.overrides)]

    codes = []
    hydra.main(version_base=VERSION_BASE, config_path=str(CONF), config_name="config")(_job(codes))()
    failures = set(codes) - {DONE}
    return BAD_INPUT if failures == {BAD_INPUT} else FAILED if failures else DONE


def _faults(line: CommandLine, options: Namespace) -> Iterator[str]:
    """Of all jobs, before the first one starts."""
    yield from option_faults(options)
    part = options.package if options.cfg == "job" else None
    missing = [folder for folder in line.folders if not folder.is_dir()]
    yield from (f"--config-dir={folder}: there is no such folder" for folder in missing)
    refused = line.faults()
    yield from refused.values()
    if missing or any(text.startswith("+") for text in refused):
        return  # what they would have added is not there to be judged
    readable = CommandLine([text for text in line.overrides if text not in refused], line.multirun, line.folders)
    for job in readable.jobs():
        composed, lines = readable.compose(job)
        yield from lines
        if composed is not None and part and OmegaConf.select(composed, part) is None:
            yield f"--package={part}: there is no such part; {nearest(part, composed)}"
        if composed is None or options.cfg or options.info:
            continue
        if not lines:
            yield from chain.from_iterable(map(misread, readable.files(job)))
        yield from faults(composed)


def _told(lines: Iterable[str]) -> set[str]:
    """Each on one line, once, as soon as it is known."""
    told = set()
    for line in (" ".join(line.split()) for line in lines):
        if line not in told:
            print(line, file=sys.stderr, flush=True)
            told.add(line)
    return told


def _job(codes: list[int]):
    def job(composed: DictConfig) -> None:
        now = HydraConfig.get()
        overrides = [text.removeprefix("++") for text in now.overrides.task]
        if now.mode is RunMode.MULTIRUN:
            print(f"job {now.job.num}: {' '.join(overrides)}", flush=True)
        codes.append(_run(composed, overrides))

    return job


def _run(composed: DictConfig, overrides: list[str]) -> int:
    """Of a job that `_faults` has judged. Only Ctrl-C and SIGTERM end more than the job."""
    try:
        config = sound(composed)
        if config.self_test:
            from pipeline.self_test import self_test as run  # imports torch
        else:
            from pipeline.run import run  # imports torch

        return FAILED if run(config, overrides).failed else DONE
    except ConfigError as error:
        _told(error.lines)
        return BAD_INPUT
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        if any(words in str(error) for words in OUT_OF_MEMORY):
            _told([f"{' '.join(overrides)}: does not fit into memory: {error}; {SMALLER}"])
            return FAILED
        traceback.print_exc()
        _told([f"{' '.join(overrides)}: failed with {type(error).__name__}: {error}"])
        return FAILED


if __name__ == "__main__":
    main()
