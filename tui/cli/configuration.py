"""Commands whose options may be set in the environment and in the configuration file too."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import click
from click.core import ParameterSource

from tui.cli.settings import SETTINGS, Config, Setting, read_config

_META = "attn-tui.config"


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting as it holds for one call.

    Attributes
    ----------
    setting : which.
    value : what it is.
    origin : where that was said, in words.
    """

    setting: Setting
    value: Any
    origin: str


class ConfiguredCommand(click.Command):
    """A command that takes what its command line does not say from the environment, then from the file."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for setting, parameter in self._configurable().items():
            parameter.envvar = SETTINGS[setting].variable

    def _configurable(self) -> dict[str, click.Parameter]:
        """Give the parameters that can be set, by the name of the setting."""
        return {
            name: parameter
            for name, setting in SETTINGS.items()
            for parameter in self.params
            if setting.option in parameter.opts
        }

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the file, and let what it says stand for the options' defaults."""
        config, defaults = self._take(self._try_environment(read_config()))
        context = super().make_context(info_name, args, parent, default_map=defaults, **extra)
        context.meta[_META] = config
        return context

    def _try_environment(self, config: Config) -> Config:
        """Leave out what the environment says that an option does not take, and say so."""
        context, problems = click.Context(self), list(config.problems)
        for name, parameter in self._configurable().items():
            variable = SETTINGS[name].variable
            said, parameter.envvar = os.environ.get(variable), variable
            if not said:
                continue
            try:
                parameter.process_value(context, said)
            except click.BadParameter as error:
                problems.append(f"{variable}={said}: {error.message.rstrip('.')}; it is not used")
                parameter.envvar = None
        return replace(config, problems=tuple(problems))

    def _take(self, config: Config) -> tuple[Config, dict[str, Any]]:
        """Take the values that fit their options, by parameter; of the others say what is wrong."""
        context = click.Context(self)
        problems, defaults = list(config.problems), {}
        for name, parameter in self._configurable().items():
            if name not in config.values or parameter.name is None:
                continue
            value = config.values[name]
            try:
                _check_kind(parameter, value)
                parameter.process_value(context, value)
            except click.BadParameter as error:
                said = f"{name} = {_write(value)}: {error.message.rstrip('.')}"
                problems.append(f"{config.place(name)}: {said}; it is not used")
            else:
                defaults[parameter.name] = value
        return replace(config, problems=tuple(problems)), defaults


def current_config() -> Config:
    """Give what the configuration file said to the command that is running."""
    config: Config = click.get_current_context().meta[_META]
    return config


def is_typed(parameter: str) -> bool:
    """Say whether an option of the running command was given on its command line."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def effective(command: ConfiguredCommand) -> tuple[Config, list[Effective]]:
    """Say of each setting what it is for a call of a command without options, and where that was said.

    Raises
    ------
    click.UsageError : where a variable of the environment has a value that its option does not take.
    """
    from tui.charset import ascii_because
    from tui.state.saved import theme_file
    from tui.themes import last_theme, short_theme

    context = command.make_context("attn-tui", [])
    config: Config = context.meta[_META]
    found = []
    for name, parameter in command._configurable().items():
        setting = SETTINGS[name]
        source = context.get_parameter_source(str(parameter.name))
        if source is ParameterSource.ENVIRONMENT:
            origin = setting.variable
        elif source is ParameterSource.DEFAULT_MAP:
            origin = config.place(name)
        else:
            origin = "default"
        value = context.params[str(parameter.name)]
        if name == "theme" and origin == "default" and context.params["restore"] and (last := last_theme()):
            value, origin = short_theme(last), f"chosen with its key, {theme_file()}"
        elif name == "ascii" and origin == "default" and (because := ascii_because()):
            value, origin = True, because
        elif name == "theme" and origin != "default":
            value = short_theme(value)
        found.append(Effective(setting, setting.default if origin == "default" else _write(value), origin))
    return config, found


def _check_kind(parameter: click.Parameter, value: Any) -> None:
    """Refuse what is of another kind than an option takes, and say what it takes.

    Raises
    ------
    click.BadParameter : for a value of another kind.
    """
    kind = parameter.type
    if isinstance(kind, click.types.BoolParamType):
        is_right, wanted = isinstance(value, bool), "give true or false"
    elif isinstance(kind, click.IntRange):
        is_right = str(value).isdecimal() and int(value) >= (kind.min or 0)
        wanted = f"give a whole number of at least {kind.min}"
    elif isinstance(kind, click.types.FloatParamType):
        is_right, wanted = _is_number(value), "give a number, such as 0.01"
    else:
        is_right, wanted = isinstance(value, str), 'give a text, which stands in quotes: "auto"'
    if not is_right:
        raise click.BadParameter(wanted)


def _is_number(value: Any) -> bool:
    """Say whether a value is a number, or a text that is written like one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _write(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
