"""What a replica reads from spark-submit's options."""

from __future__ import annotations

import pytest

from understudy.errors import SettingsError
from understudy.submit import is_native, option, settings_of, without
from understudy.supervisor.native import wanted


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
    assert is_native(submit) is native


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
    assert wanted(submit) == count


def test_an_option_is_taken_out_with_its_value_in_either_spelling() -> None:
    submit = ("--name", "a", "--num-executors", "5", "--num-executors=6", "--conf", "b=c")
    assert without(submit, "--num-executors") == ["--name", "a", "--conf", "b=c"]


def test_what_is_no_number_of_executors_is_refused() -> None:
    with pytest.raises(SettingsError, match="--num-executors: 'two' is no number of executors"):
        wanted(("--conf", "spark.executor.instances=two"))
