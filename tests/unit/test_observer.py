"""What benchmarks and end-to-end tests believe they see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit import procs
from testkit.procs import Process
from testkit.tails import Tail, parse_event, whole_lines

JVM = "/usr/bin/java -cp jars/* org.apache.spark.deploy.SparkSubmit job.py"


def test_processes_come_in_the_order_of_their_age() -> None:
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)]
    try:
        ages = [process.started for process in procs.processes().values()]
        assert ages == sorted(ages)
        assert {child.pid for child in children} <= procs.processes().keys()
    finally:
        for child in children:
            child.communicate()


def test_a_child_that_the_jvm_has_just_forked_is_not_taken_for_it() -> None:
    """Its command line is still the JVM's, and its number may be lower: numbers start over after the highest."""
    supervisor = Process(900, 1, 900, "S", 10, "understudy run job.py")
    driver = Process(910, 900, 910, "S", 11, "python -m understudy.driver")
    jvm = Process(30_000, 910, 910, "S", 12, JVM)
    forked = Process(300, 30_000, 910, "R", 99, JVM)
    found = procs.replica_of(900, {each.pid: each for each in (supervisor, driver, jvm, forked)})
    assert found is not None
    assert (found.jvm, found.driver, found.others) == (jvm, driver, (forked,))


def test_a_rotated_log_is_read_to_its_end_and_no_line_twice(tmp_path: Path) -> None:
    log, tail = tmp_path / "fence-a.jsonl", Tail(tmp_path, "fence-*.jsonl")

    def line(number: int) -> str:
        return f'{{"t": {1_764_000_000_000 + number}, "token": 1, "op": "publish"}}'

    def written(*numbers: int) -> None:
        with log.open("a") as out:
            out.writelines(line(number) + "\n" for number in numbers)

    def read() -> list[str]:
        return [text for _, text in tail.lines()]

    written(1, 2)
    assert read() == [line(1), line(2)]
    written(3)
    log.rename(tmp_path / "fence-a.jsonl.1")
    written(4)
    assert read() == [line(3), line(4)]
    log.rename(tmp_path / "fence-a.jsonl.1")
    written(5, 6)  # perhaps in a file of the inode that has just become free
    assert read() == [line(5), line(6)]
    assert read() == []


def test_an_event_that_follows_on_half_a_line_of_the_script_s_is_one() -> None:
    event = '{"time": 1.5, "event": "rehearsed", "message": "the script printed {\\"time\\": 1}"}'
    for before in ("", "logged: ", '{"time": 1, "event": "of a writer that was ki'):
        said = parse_event(Path("replica-0.log"), before + event)
        assert said is not None
        assert (said.at, said.event, said.facts["message"]) == (1.5, "rehearsed", 'the script printed {"time": 1}')
    for other in ("", "26/11/26 WARN", '{"time": ', '{"time": \xff}', event[:-1]):
        assert parse_event(Path("replica-0.log"), other) is None


def test_a_line_counts_once_it_has_its_end() -> None:
    assert whole_lines('{"a": 1}\n{"a"') == ['{"a": 1}']
    assert whole_lines('{"a"') == []
