"""Java is what runs, Spark is what would be imported, and a fence for another Spark line is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testkit.places import REPOSITORY
from understudy.environment import (
    Java,
    check_fence_is_of,
    find_fence,
    find_java,
    spark_environment,
    spark_home,
    spark_version,
)
from understudy.errors import EnvironmentProblem


def a_java(home: Path, version: str, *, status: int = 0, compiler: bool = True, before: str = "") -> Path:
    """A stand-in for a JDK: a script that answers on standard error, as ``java -XshowSettings:properties`` does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\n{before}\ncat >&2 <<END\nProperty settings:\n    java.home = {home}\n"
        f"    java.specification.version = {version}\n    java.version = {version}.0.2\nEND\nexit {status}\n"
    )
    java.chmod(0o755)
    if compiler:
        (java.parent / "javac").touch()
    return java


def a_jar(place: Path, name: str, manifest: str | None) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    jar = place / name
    with zipfile.ZipFile(jar, "w") as archive:
        if manifest is not None:
            archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n" + manifest)
    return jar


def environ_with(path: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(path), **more}


class TestJava:
    def test_java_home_comes_before_the_path_and_the_path_before_installed_ones(self, tmp_path: Path) -> None:
        chosen = a_java(tmp_path / "chosen", "21")
        on_path = a_java(tmp_path / "path", "17")
        a_java(tmp_path / "jvm" / "a", "17")

        environ = environ_with(on_path.parent, JAVA_HOME=str(tmp_path / "chosen"))
        without_home = find_java(environ=environ_with(on_path.parent), installed=tmp_path / "jvm")

        assert find_java(environ=environ, installed=tmp_path / "jvm") == Java(chosen, 21, tmp_path / "chosen")
        assert without_home == Java(on_path, 17, tmp_path / "path")

    def test_a_java_of_another_release_is_passed_over_for_one_that_suits(self, tmp_path: Path) -> None:
        too_new = a_java(tmp_path / "path", "25")
        suits = a_java(tmp_path / "jvm" / "java-21", "21")

        assert find_java(environ=environ_with(too_new.parent), installed=tmp_path / "jvm") == Java(
            suits, 21, tmp_path / "jvm" / "java-21"
        )

    def test_a_directory_that_says_17_and_runs_8_is_java_8(self, tmp_path: Path) -> None:
        java = a_java(tmp_path / "jvm" / "java-17-openjdk", "1.8")

        with pytest.raises(EnvironmentProblem) as problem:
            find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm")

        assert f"{java} (Java 8)" in str(problem.value)
        assert "17 or 21" in str(problem.value)
        assert "openjdk-17-jre-headless" in str(problem.value)

    def test_a_java_that_fails_or_cannot_be_run_is_named_as_such(self, tmp_path: Path) -> None:
        failing = a_java(tmp_path / "jvm" / "a", "17", status=1)
        not_executable = a_java(tmp_path / "jvm" / "b", "17")
        not_executable.chmod(0o644)
        mute = a_java(tmp_path / "jvm" / "c", "teapot")

        with pytest.raises(EnvironmentProblem) as problem:
            find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm")

        for java in (failing, not_executable, mute):
            assert f"{java} (does not run)" in str(problem.value)

    def test_a_java_home_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        environ = environ_with(tmp_path, JAVA_HOME=str(tmp_path / "gone"))

        with pytest.raises(EnvironmentProblem, match="gone/bin/java"):
            find_java(environ=environ, installed=tmp_path)

    def test_options_that_java_echoes_do_not_hide_its_version(self, tmp_path: Path) -> None:
        java = a_java(tmp_path / "jvm" / "a", "17", before="echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g' >&2")

        assert find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm").path == java

    def test_options_meant_for_spark_do_not_reach_the_question(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a_java(tmp_path / "jvm" / "a", "17", before='[ -z "$JAVA_TOOL_OPTIONS" ] || exit 1')
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-agentlib:nonsense")

        assert find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm").major == 17

    def test_behind_a_shim_stands_the_home_that_java_itself_names(self, tmp_path: Path) -> None:
        java = a_java(tmp_path / "versions" / "17", "17")
        shim = tmp_path / "shims" / "java"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {java} "$@"\n')
        shim.chmod(0o755)

        assert find_java(environ=environ_with(shim.parent), installed=tmp_path) == Java(
            shim, 17, tmp_path / "versions" / "17"
        )

    def test_one_java_behind_many_names_is_run_once(self, tmp_path: Path) -> None:
        java = a_java(tmp_path / "jvm" / "real", "11", before=f"echo run >>{tmp_path}/runs")
        (tmp_path / "jvm" / "alias").symlink_to(tmp_path / "jvm" / "real")

        with pytest.raises(EnvironmentProblem):
            find_java(environ=environ_with(java.parent, JAVA_HOME=str(java.parent.parent)), installed=tmp_path / "jvm")

        assert (tmp_path / "runs").read_text().count("run") == 1

    def test_building_needs_a_compiler_beside_it(self, tmp_path: Path) -> None:
        a_java(tmp_path / "jvm" / "a-jre", "17", compiler=False)
        jdk = a_java(tmp_path / "jvm" / "b-jdk", "17")

        assert find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm", compiler=True) == Java(
            jdk, 17, tmp_path / "jvm" / "b-jdk"
        )

    def test_no_java_at_all_is_said_so(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentProblem, match="none in JAVA_HOME, on PATH or in") as problem:
            find_java(environ=environ_with(tmp_path), installed=tmp_path / "jvm")

        assert problem.value.exit_code == 3


class TestSpark:
    def test_what_stands_first_on_the_path_counts_not_what_is_installed(self, tmp_path: Path) -> None:
        (tmp_path / "pyspark").mkdir()
        (tmp_path / "pyspark" / "version.py").write_text('# generated\n__version__: str = "4.1.7"\n')

        assert spark_version(search=[str(tmp_path)]) == "4.1.7"

    def test_asking_does_not_load_spark(self) -> None:
        asking = "import sys, understudy.environment as e; e.spark_version(); print('pyspark' in sys.modules)"

        answer = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True, check=True)

        assert answer.stdout.strip() == "False"

    def test_a_missing_spark_is_one_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.delitem(sys.modules, "pyspark", raising=False)

        with pytest.raises(EnvironmentProblem, match=r"PySpark is not installed.*understudy-spark\[spark\]"):
            spark_version()


class TestFence:
    def test_the_jar_that_names_the_spark_line_is_found_among_others(self, tmp_path: Path) -> None:
        a_jar(tmp_path, "a-sources.jar", "")
        a_jar(tmp_path, "b.jar", "Understudy-Spark-Line: 4.1\r\n")
        jar = a_jar(tmp_path, "c.jar", "Understudy-Version: 0.1.0\r\nUnderstudy-Spark-Line: 4.2, 4.3\r\n")

        assert find_fence("4.2.1", places=[tmp_path]) == jar
        assert find_fence("4.3.0", places=[tmp_path]) == jar

    def test_the_packages_own_jar_comes_before_the_one_maven_left(self, tmp_path: Path) -> None:
        a_jar(tmp_path / "target", "fence.jar", "Understudy-Spark-Line: 4.2\r\n")
        jar = a_jar(tmp_path / "jars", "fence.jar", "Understudy-Spark-Line: 4.2\r\n")

        assert find_fence("4.2.1", places=[tmp_path / "jars", tmp_path / "target"]) == jar

    def test_a_wrapped_manifest_line_is_read_whole(self, tmp_path: Path) -> None:
        jar = a_jar(tmp_path, "fence.jar", "Understudy-Spark-Line: 4.1\r\n ,4.2\r\n")

        assert find_fence("4.2.1", places=[tmp_path]) == jar

    @pytest.mark.parametrize("line", ["4.1", "4.20", "14.2", "4"])
    def test_a_jar_for_another_line_is_refused_naming_both_and_the_remedy(self, tmp_path: Path, line: str) -> None:
        jar = a_jar(tmp_path, "fence.jar", f"Understudy-Spark-Line: {line}\r\n")

        with pytest.raises(EnvironmentProblem) as problem:
            find_fence("4.2.1", places=[tmp_path])

        assert f"Spark here is 4.2.1, but {jar} is for Spark {line}" in str(problem.value)
        assert "make jar" in str(problem.value)

    def test_a_jar_of_other_sources_than_a_checkout_has_is_refused(self, tmp_path: Path) -> None:
        sources, stamp = tmp_path / "hooks" / "jvm", tmp_path / "stamp"
        for name in (
            "pom.xml",
            "src/main/B.java",
            "src/main/a.java",
            "src/test/T.java",
            "target/T.class",
            "s3a/pom.xml",
        ):
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / name).write_text(name)
        functions = [
            line
            for line in (REPOSITORY / "tools/setup.sh").read_text().splitlines()
            if line.startswith(("jar_sources()", "jar_key()"))
        ]

        def built() -> None:
            script = "\n".join([*functions, "jar_key"])
            done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
            stamp.write_text(done.stdout)

        check_fence_is_of(sources, stamp)  # of a jar that a wheel brought nothing is known
        built()
        check_fence_is_of(sources, stamp)
        for beside in ("src/test/T.java", "target/T.class", "s3a/pom.xml"):
            (sources / beside).write_text("changed")
        check_fence_is_of(sources, stamp)
        (sources / "src/main/a.java").write_text("changed")
        with pytest.raises(EnvironmentProblem, match="built from other sources.*make jar"):
            check_fence_is_of(sources, stamp)
        built()
        (sources / "src/main/c.java").touch()
        with pytest.raises(EnvironmentProblem):
            check_fence_is_of(sources, stamp)

    def test_a_missing_jar_is_refused_with_the_places_and_the_remedy(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentProblem) as problem:
            find_fence("4.2.1", places=[tmp_path / "jars", tmp_path / "target"])

        assert str(tmp_path / "jars") in str(problem.value)
        assert "make jar" in str(problem.value)

    def test_an_unreadable_jar_is_named_and_never_used(self, tmp_path: Path) -> None:
        (tmp_path / "torn.jar").write_bytes(b"PK\x03\x04 half a jar")
        a_jar(tmp_path, "no-manifest.jar", None)

        with pytest.raises(EnvironmentProblem) as problem:
            find_fence("4.2.1", places=[tmp_path])

        assert "torn.jar cannot be read" in str(problem.value)
        assert "no-manifest.jar cannot be read" in str(problem.value)


class TestSparkEnv:
    """conf/spark-env.sh, read as spark-submit's scripts read it."""

    @staticmethod
    def environ(conf: Path, text: str) -> dict[str, str]:
        (conf / "spark-env.sh").write_text(text)
        return {
            "PATH": os.environ["PATH"],
            "SPARK_CONF_DIR": str(conf),
            "TAKEN": "yes",
            "SPARK_DIST_CLASSPATH": "/theirs",
        }

    def test_what_it_sets_counts_and_what_it_takes_away_is_gone(self, tmp_path: Path) -> None:
        text = "echo noise\nSPARK_DIST_CLASSPATH=\nexport MANY='one\ntwo'\nunset TAKEN\nPYTHONHASHSEED=7\n"
        made = spark_environment(self.environ(tmp_path, text))
        assert made["SPARK_DIST_CLASSPATH"] == ""
        assert made["MANY"] == "one\ntwo"
        assert "TAKEN" not in made
        assert made["PYTHONHASHSEED"] == "7"
        assert made["SPARK_ENV_LOADED"] == "1"  # spark-class does not read it again

    def test_without_one_it_is_what_spark_submit_makes_of_it(self, tmp_path: Path) -> None:
        made = spark_environment(
            {"PATH": os.environ["PATH"], "SPARK_CONF_DIR": str(tmp_path), "PYTHONHASHSEED": "random"}
        )
        assert made["PYTHONHASHSEED"] == "0"
        assert made["SPARK_HOME"] == str(spark_home())

    def test_one_that_ends_the_shell_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentProblem, match="spark-env.sh: it ended with status 4"):
            spark_environment(self.environ(tmp_path, "exit 4\n"))
