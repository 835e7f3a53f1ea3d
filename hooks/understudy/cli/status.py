"""``understudy status``: who leads, who stands by, and how ready they are."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.run import default_ha_dir
from understudy.errors import SettingsError


def status(
    ha_dir: Annotated[
        Path | None, typer.Option(help="Where documents are kept.", show_default="~/.local/state/understudy")
    ] = None,
    cluster_id: Annotated[str, typer.Option(help="Which cluster.", show_default="the only one there")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[float, typer.Option(help="Print again every so many seconds; 0 prints once.")] = 0.0,
) -> None:
    """Show the leader, its epoch, and every standby: whether, how and when it last rehearsed."""
    from understudy.supervisor.picture import read_picture

    home = _home((ha_dir or default_ha_dir()).absolute(), cluster_id)
    while True:
        picture = asyncio.run(read_picture(home))
        if as_json:
            sys.stdout.write(json.dumps(asdict(picture), indent=2) + "\n")
        else:
            sys.stdout.write("\n".join(picture.lines(time.time())) + "\n")
        sys.stdout.flush()
        if watch <= 0:
            return
        time.sleep(watch)
        sys.stdout.write("\n")


def _home(ha_dir: Path, cluster: str) -> Path:
    if cluster:
        if not (ha_dir / cluster / "documents").is_dir():
            raise SettingsError(
                f"no cluster {cluster!r} under {ha_dir}", where="--cluster-id", remedy="Look at --ha-dir"
            )
        return ha_dir / cluster
    found = sorted(path.parent for path in ha_dir.glob("*/documents"))
    match found:
        case [only]:
            return only
        case []:
            raise SettingsError(
                f"no cluster under {ha_dir}",
                where="--ha-dir",
                remedy="Give the directory that understudy run was given",
            )
        case _:
            names = ", ".join(path.name for path in found)
            raise SettingsError(f"several clusters: {names}", where="--cluster-id", remedy="Name one of them")
