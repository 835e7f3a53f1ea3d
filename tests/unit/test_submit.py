"""What a replica reads from spark-submit's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import SettingsError
from understudy.submit import (
    all_settings,
    deploy_mode,
    executors_wanted,
    is_native,
    local_files,
    merged,
    option,
    properties,
    settings_of,
    without,
)


@pytest.mark.parametrize(
    ("submit", "name", "setting", "found"),
    [
        ("--master=local --master k8s://x", "--master", "", "k8s://x"),
        ("--master k8s://x --master=local", "--master", "", "local"),
        ("--conf a=1 --conf=a=2", "", "a", "2"),
        ("--conf=a=1 -c a=2 --conf a=3", "", "a", "3"),
        ("--conf a=3 -c a=2 --conf=a=1", "", "a", "1"),
        ("--name --master --py-files x", "--master", "", ""),
        ("--name --master --py-files x", "--name", "", "--master"),
        ("--name --py-files=x --files y", "--py-files", "", ""),
        ("--name --conf=a=1", "", "a", ""),
        ("--verbose --master local --load-spark-defaults", "--master", "", "local"),
        ("--name x --master", "--master", "", ""),
    ],
)
def test_the_last_of_several_counts_in_every_spelling_and_a_value_is_no_option(
    submit: str, name: str, setting: str, found: str
) -> None:
    assert option(submit.split(), name, setting) == found


def test_a_value_that_looks_like_an_option_belongs_to_its_own(tmp_path: Path) -> None:
    submit = ("--name", "--num-executors", "--num-executors", "5", "--files", "x")
    assert without(submit, "--num-executors") == ["--name", "--num-executors", "--files", "x"]
    (tmp_path / "spark-defaults.conf").write_text("spark.a b\n")
    named = ("--name", "--load-spark-defaults", "--properties-file", "none.conf")
    assert all_settings(named, {"SPARK_CONF_DIR": str(tmp_path)}) == {}


def test_settings_are_found_in_every_spelling() -> None:
    submit = ("--conf", "a=1", "--conf=b=2=3", "-c", "c=", "--name", "d=4")
    assert settings_of(submit) == {"a": "1", "b": "2=3", "c": ""}


def test_an_option_wins_over_the_setting_it_stands_for_and_the_last_one_over_the_first() -> None:
    submit = ("--conf", "spark.master=local", "--master", "spark://a", "--master=k8s://b")
    assert option(submit, "--master", "spark.master") == "k8s://b"
    assert option(submit[:2], "--master", "spark.master") == "local"
    assert option((), "--master", "spark.master") == ""


@pytest.mark.parametrize(
    ("submit", "native"),
    [
        (("--master", "k8s://https://kubernetes.default.svc"), True),
        (("--conf", "spark.master=k8s://https://kubernetes.default.svc"), True),
        (("--master", "spark://master:7077"), False),
        ((), False),
    ],
)
def test_executors_are_pods_only_where_the_master_is_kubernetes(submit: tuple[str, ...], native: bool) -> None:
    assert is_native(submit, {}) is native


@pytest.mark.parametrize(
    ("submit", "count"),
    [
        ((), 2),
        (("--num-executors", "5"), 5),
        (("--conf", "spark.executor.instances=3"), 3),
        (("--num-executors", "5", "--conf", "spark.dynamicAllocation.enabled=true"), 0),
    ],
)
def test_how_many_executors_a_job_asks_for(submit: tuple[str, ...], count: int) -> None:
    assert executors_wanted(submit, {}) == count


def test_an_option_is_taken_out_with_its_value_in_either_spelling() -> None:
    submit = ("--name", "a", "--num-executors", "5", "--num-executors=6", "--conf", "b=c")
    assert without(submit, "--num-executors") == ["--name", "a", "--conf", "b=c"]


@pytest.mark.parametrize("submit", [("--conf", "spark.executor.instances=two"), ("--num-executors", "two")])
def test_what_is_no_number_of_executors_is_refused(submit: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="--num-executors: 'two' is no number of executors"):
        executors_wanted(submit, {})


def test_the_master_and_the_number_of_executors_are_also_those_of_files(tmp_path: Path) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.master k8s://https://kubernetes.default.svc\nspark.executor.instances 20\n")
    environ = {"SPARK_CONF_DIR": str(tmp_path)}
    assert (is_native((), environ), executors_wanted((), environ)) == (True, 20)
    assert not is_native(("--master", "local"), environ)
    assert is_native((), {"MASTER": "k8s://https://kubernetes.default.svc"})
    assert executors_wanted(("--num-executors", "3"), environ) == 3
    assert executors_wanted(("--conf", "spark.dynamicAllocation.enabled=true"), environ) == 0
    mine = tmp_path / "mine.conf"
    mine.write_text("spark.dynamicAllocation.enabled=true\nspark.executor.instances 20\n")
    assert executors_wanted(("--properties-file", str(mine)), {}) == 0


def test_a_scripts_own_arguments_come_first_and_of_what_is_a_list_everything_counts() -> None:
    script = "--packages a:b:1 --conf spark.x=script --master 'local[2]' --jars=x.jar pyspark-shell left over"
    operator = ["--conf", "spark.x=operator", "--packages", "c:d:2", "--files", "f"]
    together = merged(script, operator)
    assert settings_of(together)["spark.x"] == "operator"
    assert option(together, "--packages", "") == "a:b:1,c:d:2"
    assert option(together, "--master", "") == "local[2]"
    assert (option(together, "--jars", ""), option(together, "--files", "")) == ("x.jar", "f")
    assert "pyspark-shell" not in together
    assert merged("pyspark-shell", operator) == merged("", operator) == operator


def test_properties_are_read_as_java_reads_them() -> None:
    text = "a b\n# c d\n  ! e\n  spark.x=1 \nspark.y : a\\\n   b\\\\\nspark.p\\ q  z\\u0041\\t!\r\nlonely\n\nlast=1\\"
    expected = {"a": "b", "spark.x": "1", "spark.y": "ab\\", "spark.p q": "zA\t!", "lonely": "", "last": "1"}
    assert properties(text) == expected


def test_settings_of_files_count_below_those_of_options(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.a defaults\nspark.b defaults\n")
    (tmp_path / "mine.conf").write_text("spark.b file\nspark.c file\n")
    environ = {"SPARK_CONF_DIR": str(tmp_path)}
    options = ("--conf", "spark.c=option")
    mine = ("--properties-file", str(tmp_path / "mine.conf"))
    assert all_settings(options, environ) == {"spark.a": "defaults", "spark.b": "defaults", "spark.c": "option"}
    assert all_settings((*options, *mine), environ) == {"spark.b": "file", "spark.c": "option"}
    both = all_settings((*options, *mine, "--load-spark-defaults"), environ)
    assert both == {"spark.a": "defaults", "spark.b": "file", "spark.c": "option"}
    assert all_settings((), {}) == {}


@pytest.mark.parametrize("name", ["spark-defaults.conf", "mine.conf"])
def test_a_file_of_settings_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(file: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    (tmp_path / name).write_text("spark.a b\n")
    monkeypatch.setattr(Path, "read_text", refuse)
    options = ("--properties-file", str(tmp_path / name)) if name == "mine.conf" else ()
    with pytest.raises(SettingsError) as refused:
        all_settings(options, {"SPARK_CONF_DIR": str(tmp_path)})
    assert str(refused.value) == f"{tmp_path / name}: it cannot be read: Permission denied. See who may read it"


def test_the_deploy_mode_is_looked_for_where_spark_submit_looks(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    home = {"SPARK_HOME": str(tmp_path)}
    assert deploy_mode((), home) == ("client", "DEPLOY_MODE")
    assert deploy_mode((), {**home, "DEPLOY_MODE": "cluster"}) == ("cluster", "DEPLOY_MODE")
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.submit.deployMode   cluster\n")
    assert deploy_mode((), home) == ("cluster", "spark.submit.deployMode")
    assert deploy_mode(("--deploy-mode", "client"), home) == ("client", "--deploy-mode")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("lib/a.py, b.zip#b", ["lib/a.py", "b.zip"]),
        ("file:/opt/a.py,file:///opt/b.py,local:/opt/c.py", ["/opt/a.py", "/opt/b.py", "/opt/c.py"]),
        ("file:///opt/my%20lib/a.py,/opt/my%20lib/b.py", ["/opt/my lib/a.py", "/opt/my%20lib/b.py"]),
        ("s3a://bucket/a.py,hdfs:/a.py,https://host/a.py", []),
        ("{lib}/*.py", ["{lib}/.hidden.py", "{lib}/a.py", "{lib}/b.py"]),
        ("file:{lib}/[^b].py", ["{lib}/a.py"]),
        ("file://{lib}/?.zip,{lib}/*.egg", ["{lib}/c.zip"]),
    ],
)
def test_files_on_this_machine_are_found_in_each_form_that_spark_submit_takes(
    tmp_path: Path, given: str, found: list[str]
) -> None:
    for name in (".hidden.py", "a.py", "b.py", "c.zip"):
        (tmp_path / name).touch()
    (tmp_path / "directory.py").mkdir()
    listed, expected = given.replace("{lib}", str(tmp_path)), [Path(each.format(lib=tmp_path)) for each in found]
    (tmp_path / "my.conf").write_text(f"spark.submit.pyFiles {listed}\n")
    for submit in (("--py-files", listed), ("--properties-file", str(tmp_path / "my.conf"))):
        assert local_files(submit, {}, "--py-files", "spark.submit.pyFiles") == expected
