"""The command line -> the overrides of each job, composed; what Hydra has against them becomes lines."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pipeline.door.words import nearest, shown
from pipeline.schema import ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"
UNASKED = ("claim", "traffic")  # groups of which nothing is chosen unless somebody asks
NAMED = ("arms", "workloads")  # groups whose entries an experiment names
REFUSALS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError)


@dataclass(frozen=True)
class CommandLine:
    """Needs Hydra initialised (hydra.initialize_config_dir). `folders` hold the config groups."""

    overrides: Sequence[str]
    multirun: bool = False
    folders: Sequence[Path] = (CONF,)

    def faults(self) -> dict[str, str]:
        """Override -> what is wrong with it, taken by itself."""
        found = {text: fault for text in self.overrides if (fault := self._fault(text))}
        return found | self._repeated([text for text in self.overrides if text not in found])

    def _repeated(self, overrides: Sequence[str]) -> dict[str, str]:
        """Hydra takes the last of several values, but refuses several options of one group."""
        chosen: dict[str, str] = {}
        found = {}
        for text in overrides:
            override = _parsed(text)
            key = override.get_key_element().lstrip("+")
            if key in chosen and self._options(override.key_or_group) is not None:
                found[text] = f"{text}: {key} is chosen already by {chosen[key]}; give one of them"
            chosen.setdefault(key, text)
        return found

    def spelt_out(self, text: str) -> str:
        """`key=value` as `++key=value`, which sets a key or adds it: whether it may be there, the schema says."""
        override = _parsed(text)
        plain = override.type is OverrideType.CHANGE and not override.is_hydra_override()
        return f"++{text}" if plain and self._options(override.key_or_group) is None else text

    def jobs(self) -> list[list[str]]:
        """The overrides of every job, spelt out. Without a sweep there is one."""
        choices = {}
        for text in self.overrides:
            override = _parsed(self.spelt_out(text))
            key = override.get_key_element()
            values = override.sweep_string_iterator() if override.is_discrete_sweep() else ()
            choices[key] = [f"{key}={value}" for value in values] or [override.input_line]
        return [list(job) for job in product(*choices.values())]

    def compose(self, job: Sequence[str]) -> tuple[DictConfig | None, list[str]]:
        """The config of a job, without the overrides that Hydra refuses, and a line on each of those."""
        left, lines = list(job), []
        while True:
            try:
                return hydra.compose("config", [*left, self._searchpath()]), lines
            except RecursionError:
                selfish = next(
                    (text for text in left if not self._recurses([one for one in left if one != text])), "config"
                )
                return None, [
                    *lines,
                    f"{selfish}: includes itself; look at the defaults of that file and of those it names",
                ]
            except REFUSALS as error:
                refused = next((text for text in left if _blames(error, text)), None)
                lines.append(_refusal(error, refused))
            if refused is None:
                return None, lines
            left.remove(refused)

    def _recurses(self, overrides: Sequence[str]) -> bool:
        try:
            hydra.compose("config", [*overrides, self._searchpath()])
        except RecursionError:
            return True
        except REFUSALS:
            pass
        return False

    def files(self, job: Sequence[str]) -> list[Path]:
        """What a job that can be composed is composed of."""
        loader = GlobalHydra.instance().config_loader()
        chosen = loader.compute_defaults_list("config", [*job, self._searchpath()], RunMode.RUN).defaults
        places = [[folder / f"{config.config_path}.yaml" for folder in self.folders] for config in chosen]
        first = [next(filter(Path.is_file, paths), None) for paths in places]
        return [path for path in dict.fromkeys(first) if path]

    def _searchpath(self) -> str:
        return f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in self.folders if folder != CONF)}]"

    def _fault(self, text: str) -> str | None:
        try:
            override = _parsed(text)
        except HydraException as error:
            return f"{text}: cannot be read ({_first_line(error)}); {_well_written(text)}"
        key, group = override.get_key_element().lstrip("+~"), override.key_or_group
        if not group:
            return f"{text}: has no key; write key=value"
        options = self._options(group)
        if options is None and ("/" in key or override.package) and not override.is_hydra_override():
            return f"{text}: there is no group {group}; {nearest(group, self._groups())}"
        if override.is_sweep_override() and not override.is_discrete_sweep():
            return f"{text}: only values can be swept; write {key}=1,2,4 or {key}=range(1,5)"
        if override.is_sweep_override() and not self.multirun:
            value = override.get_value_string()
            return f"{text}: several values need -m; a list is written '{key}=[{value}]', text {_quoted(key, value)}"
        if override.type is OverrideType.DEL:
            return None
        if key in NAMED and override.value() == {}:
            return (
                f"{text}: an empty group is merged with what is there and changes nothing; drop an entry: ~{key}.NAME"
            )
        if options is None:
            return None
        if override.type is OverrideType.FORCE_ADD:
            return f"{text}: an option is chosen with {text.lstrip('+')}, or +{text.lstrip('+')} for a new entry"
        if group in UNASKED and _choices(override) == [None]:
            return f"{text}: to ask nothing leave it out, or write ~{group} where an experiment chooses one"
        unknown = [choice for choice in _choices(override) if choice not in options]
        return f"{text}: there is no {group} {shown(unknown[0])}; {nearest(unknown[0], options)}" if unknown else None

    def _options(self, group: str) -> list[str] | None:
        """Names of a group's files; None where there is no such group."""
        places = [folder / group for folder in self.folders if (folder / group).is_dir()]
        return sorted({path.stem for place in places for path in place.glob("*.yaml")}) if places else None

    def _groups(self) -> set[str]:
        return {path.name for folder in self.folders for path in folder.iterdir() if path.is_dir()}


def option_faults(options: Namespace) -> Iterator[str]:
    """Hydra's options that mean nothing here; it would end in a traceback, or leave them out."""
    if options.config_name:
        yield f"--config-name={options.config_name}: there is one config; choose an experiment with +exp=NAME"
    if options.config_path:
        yield f"--config-path={options.config_path}: the config is {CONF}; more files come with --config-dir=FOLDER"
    if options.experimental_rerun:
        yield f"--experimental-rerun={options.experimental_rerun}: is not supported; give the overrides again"
    for name in ("resolve", "package"):
        if getattr(options, name) and not options.cfg:
            yield f"--{name}: says how a config is shown; add --cfg=job, or leave it out"


def composed(overrides: Sequence[str]) -> DictConfig:
    """The config of one job. ConfigError with what is wrong with the overrides."""
    line = CommandLine(overrides)
    if refused := line.faults():
        raise ConfigError(refused.values())
    [job] = line.jobs()
    config, lines = line.compose(job)
    if lines:
        raise ConfigError(lines)
    return config


def _parsed(text: str) -> Override:
    loader = GlobalHydra.instance().config_loader()
    override = OverridesParser.create(loader).parse_override(text)
    override.config_loader = loader
    return override


def _choices(override: Override) -> list[object]:
    if override.is_discrete_sweep():
        return list(override.sweep_string_iterator())
    value = override.value()
    return value if isinstance(value, list) else [value]


def _blames(error: Exception, text: str) -> bool:
    return f"'{_parsed(text).get_key_element().lstrip('+~')}'" in str(error) or text in str(error)


def _refusal(error: Exception, refused: str | None) -> str:
    if isinstance(error, MissingConfigException) and error.options:
        return f"{_first_line(error)}; {nearest(error.missing_cfg_file.rpartition('/')[2], error.options)}"
    said = " ".join(f"{error} {_first_line(error.__cause__) if error.__cause__ else ''}".split())
    return f"{refused.removeprefix('++')}: {said}" if refused else said


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]


def _well_written(text: str) -> str:
    key, equals, value = text.partition("=")
    return f"a value with = ( ) , or spaces needs quotes: {_quoted(key, value)}" if equals else "write key=value"


def _quoted(key: str, value: str) -> str:
    return f"\"{key}='{value}'\""
