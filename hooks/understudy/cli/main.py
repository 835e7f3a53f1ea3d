"""``understudy``: the command line. Commands parse and print.

Other packages do the work. They are imported when a command runs, and so is asyncio: help and completion answer without them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from understudy import __version__
from understudy.cli import (
    backup,
    claims,
    doctor,
    ensure,
    gc,
    leader,
    purge,
    requests,
    result,
    resume,
    run,
    savepoints,
    status,
    submit,
)
from understudy.cli.options import PanelledCommand
from understudy.errors import InternalError, LeadershipLost, UnderstudyError
from understudy.redaction import presentable

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Keeps a PySpark driver alive: replicas that elect, rehearse and take over.",
)
app.command("run", cls=PanelledCommand, context_settings=run.CONTEXT)(run.run)
app.command("submit", context_settings=run.CONTEXT)(submit.submit)
app.command("status")(status.status)
app.command("leader")(leader.leader)
app.command("suspend")(requests.suspend)
app.command("resume")(resume.resume)
app.command("drain")(requests.drain)
app.command("savepoint")(requests.savepoint)
app.command("savepoints")(savepoints.savepoints)
app.command("dispose")(savepoints.dispose)
app.command("fork")(savepoints.fork)
app.command("hand-over")(requests.hand_over)
app.command("pause")(requests.pause)
app.command("unpause")(requests.unpause)
app.command("cancel")(requests.cancel)
app.command("ensure")(ensure.ensure)
app.command("result")(result.result)
app.command("gc")(gc.gc)
app.command("purge")(purge.purge)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(claims.claims, name="claims")
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"understudy {__version__}\n")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps a PySpark driver alive: replicas that elect, rehearse and take over."""


def main() -> None:
    # as standard error does: a script's path or error may be no text of this terminal's
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except UnderstudyError as error:
        with suppress(OSError):  # on a full disk the exit code still gives the reason
            sys.stderr.write(f"understudy: {presentable(str(error))}\n")
        _end(error.exit_code)
    except (Exception, LeadershipLost) as error:  # noqa: BLE001 - else the code would be 1, which says that the job has FAILED
        _end(_tell_of_defect(error))
    except SystemExit as ended:
        _end(ended.code)


def _tell_of_defect(error: BaseException) -> int:
    """Prints where it happened, then the one line, last as that of every error. Returns the exit code."""
    import traceback

    told = InternalError(
        f"{type(error).__name__}: {' '.join(str(error).split())}",
        where=" ".join(sys.argv[1:2]) or "understudy",
        remedy="This is a defect, or the machine lacks memory or disk; report it with the lines above",
    )
    with suppress(OSError):
        for line in "".join(traceback.format_exception(error)).splitlines():
            sys.stderr.write(f"{presentable(line)}\n")
        sys.stderr.write(f"understudy: {presentable(str(told))}\n")
    return told.exit_code


def _end(code: str | int | None) -> NoReturn:
    """Ends this process. One that has reached a bucket ends without taking the interpreter down: threads of the client that come for it then
    abort the process, and the exit code is theirs (seen: SIGABRT in 1 of 12 commands).
    """
    if "obstore" in sys.modules and not isinstance(code, str):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code or 0)
    sys.exit(code)


if __name__ == "__main__":
    main()
