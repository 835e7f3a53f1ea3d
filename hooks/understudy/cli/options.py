"""Options of a command, made from the configuration tree for typer to read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand

from understudy.config.option import Option
from understudy.config.tree import options

#: Characters of help's first column. An option that is longer has a line to itself.
_COLUMN = 30


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives ``command`` a parameter for each option of the tree; its ``**`` parameter receives their values by name.

    An enumeration reaches typer as a text with a metavar and completion, because typer reports a wrong choice in several lines. The
    tree checks it, in one line with the remedy, as it checks everything else.
    """
    own = [
        each
        for each in inspect.signature(command, eval_str=True).parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*own, *(_parameter(option) for option in options())]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(option: Option) -> inspect.Parameter:
    kind, default = option.type, option.default
    if option.choices:
        kind = str
    elif get_origin(kind) is tuple:
        kind, default = list[str] | None, None
    elif default is None:
        kind |= None
    told = typer.Option(
        option.flag,
        envvar=option.variable,
        show_envvar=False,  # they follow from the options' names, as the command's help says
        show_default=option.declared.default_words or True,
        help=option.declared.meaning,
        **_form(option),
        rich_help_panel=option.group.panel,
    )
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told]
    )


def _form(option: Option) -> dict[str, Any]:
    if option.choices:
        return enumeration(option.choices)
    return {"metavar": option.declared.unit.metavar if option.declared.unit else None}


def enumeration(choices: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of ``typer.Option`` for a text that is one of ``choices``: help shows them and a shell completes them."""

    def complete(incomplete: str) -> list[str]:
        return [each for each in choices if each.startswith(incomplete)]

    return {"metavar": f"<{'|'.join(choices)}>", "autocompletion": complete}


class PanelledCommand(TyperCommand):
    """Help with a section for each panel, without Rich: importing that takes longer than all else that help does."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                other = "Arguments" if each.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(each, "rich_help_panel", None) or other, []).append(record)
        width = max(len(first) for records in panels.values() for first, _ in records if len(first) <= _COLUMN)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(first.ljust(width), text) for first, text in records], col_max=width)
