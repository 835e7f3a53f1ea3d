"""What is cut from Spark for the container image, and what its entry makes of its arguments."""

from __future__ import annotations

import os
import stat
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pytest

from image.cut import CUTS, copy_jar, cut_of, lay_out, natives, open_to_all

ENTRY = Path(__file__).parents[2] / "hooks" / "image" / "understudy-entry"

EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "app-exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def a_jar(path: Path, names: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name * 100)
    return path


def entries(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as archive:
        return archive.namelist()


class TestCut:
    @pytest.mark.parametrize(
        ("machine", "name"),
        [
            ("amd64", "librocksdbjni-linux64.so"),
            ("amd64", "META-INF/native/linux64/libleveldbjni.so"),
            ("amd64", "linux/amd64/libzstd-jni-1.5.7-7.so"),
            ("amd64", "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"),
            ("amd64", "META-INF/native/libnetty_transport_native_epoll_x86_64.so"),
            ("arm64", "librocksdbjni-linux-aarch64.so"),
            ("arm64", "META-INF/native/libnetty_tcnative_linux_aarch_64.so"),
            ("arm64", "META-INF/native/libnetty_transport_native_epoll_aarch_64.so"),
        ],
    )
    def test_a_native_library_stays_on_the_one_machine_that_can_load_it(self, machine: str, name: str) -> None:
        other = {"amd64": "arm64", "arm64": "amd64"}[machine]

        assert natives([name], machine) == ({name}, set())
        assert natives([name], other) == (set(), {name})

    @pytest.mark.parametrize(
        "name",
        [
            "librocksdbjni-linux64-musl.so",
            "librocksdbjni-linux32.so",
            "librocksdbjni-osx-x86_64.jnilib",
            "freebsd/amd64/libzstd-jni-1.5.7-7.so",
            "org/xerial/snappy/native/Linux/x86_64-musl/libsnappyjava.so",
            "org/xerial/snappy/native/Linux/android-aarch64/libsnappyjava.so",
            "META-INF/native/libnetty_transport_native_kqueue_aarch_64.jnilib",
        ],
    )
    def test_a_library_for_another_system_goes_everywhere(self, name: str) -> None:
        assert natives([name], "amd64") == natives([name], "arm64") == (set(), {name})

    def test_a_jar_keeps_its_classes_and_its_library_moves_to_where_the_jvm_looks(self, tmp_path: Path) -> None:
        jar = a_jar(tmp_path / "a.jar", ["META-INF/MANIFEST.MF", "A.class", "linux/amd64/a.so", "win/amd64/a.dll"])

        saved = copy_jar(jar, tmp_path / "b.jar", tmp_path / "jni", "amd64")

        assert entries(tmp_path / "b.jar") == ["META-INF/MANIFEST.MF", "A.class"]
        assert [path.name for path in (tmp_path / "jni").iterdir()] == ["a.so"]
        moved = (tmp_path / "jni" / "a.so").stat().st_size
        assert saved == jar.stat().st_size - (tmp_path / "b.jar").stat().st_size - moved

    def test_snappy_is_told_to_look_there_too(self, tmp_path: Path) -> None:
        jar = a_jar(
            tmp_path / "snappy-java-1.1.jar", ["A.class", "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"]
        )

        copy_jar(jar, tmp_path / "b.jar", tmp_path / "jni", "amd64")

        assert entries(tmp_path / "b.jar") == ["A.class", "org-xerial-snappy.properties"]

    def test_a_jar_of_nothing_but_foreign_libraries_is_not_copied(self, tmp_path: Path) -> None:
        jar = a_jar(
            tmp_path / "a.jar", ["META-INF/versions/11/module-info.class", "META-INF/native/a_osx_x86_64.jnilib"]
        )

        assert copy_jar(jar, tmp_path / "b.jar", tmp_path / "jni", "amd64") == jar.stat().st_size
        assert not (tmp_path / "b.jar").exists()

    @pytest.mark.parametrize(
        "jar",
        [
            *("spark-kubernetes_2.13-4.2.1", "kubernetes-model-core-7.6.1", "vertx-core-4.5.26", "rocksdbjni-9.8.4"),
            *("hive-storage-api-2.8.1", "orc-core-2.3.0", "scala-reflect-2.13.18", "ivy-2.5.3", "avro-1.12.1"),
        ],
    )
    def test_what_a_streaming_job_on_kubernetes_needs_stays(self, jar: str) -> None:
        assert cut_of(CUTS, PurePosixPath(f"pyspark/jars/{jar}.jar")) is None

    def test_all_users_may_read_what_the_image_is_built_from_whatever_the_umask(self, tmp_path: Path) -> None:
        below = tmp_path / "context" / "conf"
        below.mkdir(parents=True)
        file, command, link = below / "file", below / "command", below / "link"
        for made, mode in ((file, 0o600), (command, 0o700), (below, 0o700), (tmp_path / "context", 0o750)):
            made.touch()
            made.chmod(mode)
        link.symlink_to("/nowhere/to/be/found")
        open_to_all(tmp_path / "context")
        found = [stat.S_IMODE(each.stat().st_mode) for each in (file, command, below, tmp_path / "context")]
        assert found == [0o644, 0o755, 0o755, 0o755]

    def test_what_is_to_be_kept_stays_and_everything_else_goes_as_before(self, tmp_path: Path) -> None:
        packages = tmp_path / "packages"
        for name in ("spark-core_2.13-4.2.1", "hive-exec-2.3.10-core", "spark-yarn_2.13-4.2.1"):
            a_jar(packages / "pyspark" / "jars" / f"{name}.jar", ["A.class"])
        (packages / "pyspark" / "sql").mkdir()
        (packages / "pyspark" / "sql" / "session.py").touch()

        table = lay_out(packages, tmp_path / "to", "amd64", frozenset({"hive"}))

        laid = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*") if path.is_file()}
        assert laid == {
            "python/pyspark/sql/session.py",
            "spark/jars/spark-core_2.13-4.2.1.jar",
            "spark/jars/hive-exec-2.3.10-core.jar",
        }
        assert "hive" not in {name for name, _, _ in table}
        assert {name for name, saved, _ in table if saved} == {"yarn"}


class TestEntry:
    def enter(self, tmp_path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run the entry with programs that print what they were called with, one argument a line."""
        for program in (
            tmp_path / "bin" / "understudy",
            tmp_path / "bin" / "sleep",
            tmp_path / "java" / "bin" / "java",
        ):
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text('#!/bin/sh\necho "$(basename $0) in $PWD"\nprintf \'%s\\n\' "$@"\n')
            program.chmod(0o755)
        around = {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "TMPDIR": str(tmp_path),
            "JAVA_HOME": str(tmp_path / "java"),
            "SPARK_HOME": "/opt/spark",
            "SPARK_CONF_DIR": "/opt/spark/conf",
        }
        return subprocess.run(
            [ENTRY, *arguments], env=around | environ, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    @pytest.mark.parametrize("arguments", [("--help",), ("run", "job.py", "two words", ""), ("run", "executor"), ()])
    def test_a_command_line_goes_to_understudy_word_by_word(self, tmp_path: Path, arguments: tuple[str, ...]) -> None:
        ran = self.enter(tmp_path, *arguments)

        said = ran.stdout.removesuffix("\n").split("\n")
        assert said[0] == f"understudy in {tmp_path}"
        assert said[1:] == (list(arguments) or [""])

    @pytest.mark.parametrize(("command", "waits"), [("run", True), ("status", False), ("executor", False)])
    def test_in_a_pod_a_replica_waits_for_a_takeover_that_may_be_under_way(
        self, tmp_path: Path, command: str, *, waits: bool
    ) -> None:
        ran = self.enter(tmp_path, command, KUBERNETES_SERVICE_HOST="10.96.0.1", **EXECUTOR)

        assert ran.returncode == 0, ran.stderr
        assert ("sleep in" in ran.stdout) is waits

    def test_the_one_argument_executor_is_sparks_executor(self, tmp_path: Path) -> None:
        ran = self.enter(tmp_path, "executor", **EXECUTOR, SPARK_CLASSPATH="/extra/*")

        work = tmp_path / "executor"
        assert ran.stdout.split("\n")[:-1] == [
            f"java in {work}",
            "-Xms512m",
            "-Xmx512m",
            "-cp",
            f"/opt/spark/conf:/extra/*:/opt/spark/jars/*:{work}",
            "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
            *("--driver-url", "spark://driver"),
            *("--executor-id", "7"),
            *("--cores", "2"),
            *("--app-id", "app"),
            *("--hostname", "10.0.0.9"),
            *("--resourceProfileId", "0"),
            *("--podName", "app-exec-7"),
        ]

    def test_java_options_come_in_the_order_of_their_numbers_and_unbroken(self, tmp_path: Path) -> None:
        options = {f"SPARK_JAVA_OPT_{number}": f"-Dn{number}=a b" for number in range(12)}

        ran = self.enter(tmp_path, "executor", **EXECUTOR, **options)

        assert ran.stdout.split("\n")[1:13] == list(options.values())

    @pytest.mark.parametrize("missing", sorted(EXECUTOR))
    def test_an_executor_that_was_not_told_enough_says_what_is_missing(self, tmp_path: Path, missing: str) -> None:
        ran = self.enter(tmp_path, "executor", **{name: value for name, value in EXECUTOR.items() if name != missing})

        assert ran.returncode == 3
        assert (
            ran.stderr == f"understudy: executor: {missing} is not set; Spark's driver sets it for the pods it makes\n"
        )
        assert ran.stdout == ""
