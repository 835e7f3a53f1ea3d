"""A driver's local disk: files of a batch are made without a process for each, with the modes that Hadoop gives them; and a takeover
does without temporary files where Spark does.
"""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from testkit.programs import program
from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Programs that Hadoop's own local file system starts.
PROGRAMS = ("chmod", "readlink")

SCRIPT = HEADER + (
    "rows.writeStream.queryName('rows').format('parquet').start('out')\nspark.streams.awaitAnyTermination()\n"
)


@pytest.mark.parametrize(
    ("own", "names"),
    [((), set()), (("--conf", "spark.hadoop.fs.file.impl=org.apache.hadoop.fs.LocalFileSystem"), {"chmod"})],
    ids=["ours", "the user's"],
)
def test_a_file_costs_no_process_unless_the_user_has_named_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: tuple[str, ...], names: set[str]
) -> None:
    started = tmp_path / "started"
    started.touch()
    for name in PROGRAMS:
        program(tmp_path / "bin" / name, f'echo {name} >>{started}\nexec {shutil.which(name)} "$@"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    feed(tmp_path, 1)
    with Rig(tmp_path, SCRIPT, submit=own) as rig:
        rig.lead()
        rig.until(tmp_path / "checkpoints" / "rows" / "commits" / "0", "{")
    written = [part for part in (tmp_path / "out").glob("*.parquet") if part.stat().st_size]

    assert written
    assert {stat.S_IMODE(part.stat().st_mode) for part in written} == {0o644}
    assert set(started.read_text().split()) == names


def test_a_takeover_needs_no_directory_for_temporary_files(tmp_path: Path) -> None:
    temporary, local = tmp_path / "tmp", tmp_path / "local"
    temporary.mkdir()
    submit = (
        "--conf",
        f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={temporary}",
        "--conf",
        f"spark.local.dir={local}",
    )
    feed(tmp_path, 1)
    with Rig(tmp_path, SCRIPT, rehearse="live", submit=submit) as rig:
        assert not rig.wait_for(RehearsalReport).reason
        shutil.rmtree(temporary)
        rig.lead()
        rig.until(tmp_path / "checkpoints" / "rows" / "commits" / "0", "{")
