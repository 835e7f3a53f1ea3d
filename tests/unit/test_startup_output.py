"""What a JVM says before it fails to start, and what of it comes again at every start."""

from __future__ import annotations

import subprocess

import pytest

from understudy.driver.startup_output import StartupOutput, is_permanent, reason_in


def said(script: str) -> list[str]:
    words = StartupOutput()
    with subprocess.Popen(["sh", "-c", script], stderr=words.descriptor) as process:
        words.begin()
        process.wait()
    return words.lines()


def test_the_last_lines_of_a_process_that_ends_are_kept_and_copied(capfd: pytest.CaptureFixture[str]) -> None:
    lines = said("for i in $(seq 100); do echo line $i >&2; done; printf unfinished >&2")
    assert lines[0] == "line 41"
    assert lines[-2:] == ["line 100", "unfinished"]
    assert "line 1\n" in capfd.readouterr().err


def test_what_a_process_says_after_its_start_still_arrives(capfd: pytest.CaptureFixture[str]) -> None:
    words = StartupOutput()
    with subprocess.Popen(
        ["sh", "-c", "echo early >&2; read go; echo late >&2"], stdin=-1, stderr=words.descriptor
    ) as one:
        words.begin()
        words.started()
        words._thread.join()
        one.communicate(b"\n")
    assert words.copier is not None
    words.copier.wait(10)
    assert capfd.readouterr().err == "early\nlate\n"


def test_one_line_is_told_without_frames_and_what_every_spark_says() -> None:
    lines = [
        "WARNING: Using incubator modules: jdk",
        "26/11/25 03:12:28 WARN Utils: loopback",
        "",
        "Exception in thread",
        "\tat a.b(C.java)",
        "\t... 3 more",
        "Caused by: x ",
    ]
    assert reason_in(lines) == "Exception in thread; Caused by: x"
    assert len(reason_in(["x" * 10_000])) < 2_000
    assert reason_in([]) == ""


@pytest.mark.parametrize(
    ("words", "always"),
    [
        ("Unrecognized VM option 'NoSuch'", True),
        ("Error: Could not find or load main class org.apache.spark.deploy.SparkSubmit", True),
        ("java.rmi.server.ExportException: Port already in use: 9010", True),
        ("ERROR: transport error 202: bind failed: Address already in use", True),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Cluster deploy mode is not applicable to Spark shells.',
            True,
        ),
        ("java.lang.OutOfMemoryError: unable to create native thread", False),
        ("There is insufficient memory for the Java Runtime Environment to continue.", False),
        ("java.lang.RuntimeException: [unresolved dependency: a#b;1: not found]", False),
        ("java.net.UnknownHostException: repo", False),
        ("", False),
    ],
)
def test_what_comes_of_the_command_line_comes_again_and_what_memory_or_a_network_lacks_may_not(
    words: str, always: bool
) -> None:
    assert is_permanent(words) is always
