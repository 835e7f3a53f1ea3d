"""One declaration of an option: what is checked, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import typer.main
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.config.bundle import key_of, keys
from understudy.config.option import BundleKey, Declared, Group, Option, options_of
from understudy.config.timings import PROFILES, Timings
from understudy.config.tree import Config, Election, Job, Rehearsal, Restart, Standby, Takeover, options
from understudy.errors import SettingsError
from understudy.protocol import driver_spec

BY_NAME = {each.name: each for each in options()}


def told(*words: str) -> Config:
    """What ``understudy run`` makes of its options."""
    command: Any = typer.main.get_command(app)
    params = command.commands["run"].make_context("run", [*words, "job.py"]).params
    return Config.of({name: value for name, value in params.items() if name != "rest"})


@pytest.mark.parametrize("option", options(), ids=lambda option: option.name)
class TestEveryOption:
    def test_says_what_it_is_in_sentences(self, option: Option) -> None:
        assert re.fullmatch(r"[A-Z/].{15,}\.", option.declared.meaning)

    def test_that_is_a_number_has_a_unit_and_names_it(self, option: Option) -> None:
        unit = option.declared.unit
        assert (option.type in {int, float}) <= (unit is not None)
        if unit is not None:
            assert set(re.findall(r"\w+", unit.words)) & set(re.findall(r"\w+", option.declared.meaning.lower()))

    def test_that_is_a_number_has_a_bound(self, option: Option) -> None:
        bounded = option.declared.at_least is not None or option.declared.above is not None
        assert (option.type in {int, float}) is bounded

    def test_says_what_an_empty_default_stands_for(self, option: Option) -> None:
        if option.default in {None, ""}:
            assert option.declared.default_words

    def test_names_each_of_its_choices(self, option: Option) -> None:
        for choice in option.choices:
            assert re.search(rf"\b{choice}\b", option.declared.meaning)

    def test_can_be_given_as_it_is_by_default(self, option: Option) -> None:
        option.check(option.default)


def test_no_name_stands_for_two_options() -> None:
    for spelled in ("name", "flag", "variable"):
        found = [getattr(each, spelled) for each in options()]
        assert len(set(found)) == len(found)


def test_no_variable_is_one_that_understudy_sets_or_reads_for_something_else() -> None:
    others = {getattr(driver_spec, name) for name in vars(driver_spec) if name.endswith("_VARIABLE")}
    others |= {f"UNDERSTUDY_{name}" for name in ("LOG", "POD_UID", "POD_NAME", "POD_IP", "TERMINATION_LOG")}
    assert others.isdisjoint(each.variable for each in options())


def test_no_variable_is_one_that_kubernetes_sets_for_a_service_called_understudy() -> None:
    assert not [each for each in options() if re.search(r"_(PORT|SERVICE_HOST|SERVICE_PORT)\b", each.variable)]


def test_profiles_are_those_there_are() -> None:
    assert BY_NAME["profile"].choices == tuple(PROFILES)


def test_help_names_every_timing() -> None:
    for name in Timings.__slots__:
        assert re.search(rf"\b{name}\b", BY_NAME["timing"].declared.meaning)


@pytest.mark.parametrize(
    ("group", "values", "said"),
    [
        (Rehearsal, {"mode": "loudly"}, "--rehearse: unknown mode 'loudly'. Choose one of live, synthetic, plan, off"),
        (Rehearsal, {"rounds": 0}, "--rehearse-rounds: 0 is below 1. Raise it"),
        (Rehearsal, {"rows": 0}, "--rehearse-rows: 0 is below 1. Raise it"),
        (Rehearsal, {"bytes": -1}, "--rehearse-bytes: -1 is below 1. Raise it"),
        (Rehearsal, {"every": 0.0}, "--rehearse-every: 0.0 s is not above 0. Raise it"),
        (Standby, {"executors": -1}, "--standby-executors: -1 is below 0. Raise it"),
        (Standby, {"max_age": 0.0}, "--standby-max-age: 0.0 s is not above 0. Raise it"),
        (Takeover, {"stop_patience": 0.0}, "--stop-patience: 0.0 s is not above 0. Raise it"),
        (Takeover, {"timeout": float("nan")}, "--takeover-timeout: nan s is not above 0. Raise it"),
        (Restart, {"attempts": -1}, "--restart-attempts: -1 is below 0. Raise it"),
        (Restart, {"attempts": 1001}, "--restart-attempts: 1001 is above 1000. Lower it"),
        (Restart, {"delay": -1.0}, "--restart-delay: -1.0 s is not above 0. Raise it"),
        (Restart, {"window": 0.0}, "--restart-window: 0.0 s is not above 0. Raise it"),
        (Election, {"profile": "quick"}, "--profile: unknown profile 'quick'. Choose one of default, fast"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_option_with_the_remedy(
    group: type[Group], values: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        group(**values)
    assert str(refused.value) == said
    assert refused.value.exit_code == 2


def test_without_options_a_replica_is_told_the_defaults() -> None:
    assert told() == Config()


def test_an_option_reaches_its_field() -> None:
    config = told("--rehearse", "plan", "--timing", "lease=20", "--timing", "grace=60", "--tune", "--lock=multi")
    assert config.rehearsal == Rehearsal(mode="plan")
    assert config.election == Election(lock="multi", timing=("lease=20", "grace=60"))
    assert config.spark.tune


def test_the_environment_is_read_and_the_command_line_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_REHEARSE_ROUNDS", "7")
    monkeypatch.setenv("UNDERSTUDY_CLUSTER_ID", "flights")
    monkeypatch.setenv("UNDERSTUDY_TUNE", "true")
    monkeypatch.setenv("UNDERSTUDY_TIMING", "lease=20 grace=60")
    config = told("--cluster-id", "trains")
    assert config.rehearsal.rounds == 7
    assert config.spark.tune
    assert config.election.timing == ("lease=20", "grace=60")
    assert config.job == Job(cluster_id="trains")


def test_help_has_a_section_for_each_group_and_a_line_for_each_option() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], terminal_width=100).output
    headings = [line.removesuffix(":") for line in shown.splitlines() if re.fullmatch(r"\w[\w ]*:", line)]
    assert headings == ["Arguments", *dict.fromkeys(each.group.panel for each in options()), "Options"]
    for each in options():
        assert shown.count(f"  {each.flag} ") + shown.count(f"  {each.flag}\n") >= 1, each.flag


def test_a_shell_completes_an_enumeration() -> None:
    words = {"COMP_WORDS": "understudy run --rehearse ", "COMP_CWORD": "3", "_UNDERSTUDY_COMPLETE": "complete_bash"}
    found = CliRunner().invoke(app, [], prog_name="understudy", env=words).output
    assert found.split() == ["live", "synthetic", "plan", "off"]


@dataclass(frozen=True, slots=True)
class Bells(Group):
    """A group that is not in the tree."""

    panel: ClassVar[str] = "Bells"
    prefix: ClassVar[str] = "bell"

    tone: Annotated[str, Declared("Which bell rings.", default_words="the first", bundle=BundleKey())] = ""
    count: Annotated[int, Declared("Bells that ring.", at_least=2, bundle=BundleKey(name="bells"))] = 3
    pause: Annotated[float, Declared("Seconds between bells.", above=0, bundle=BundleKey())] = 0.5


def test_one_declaration_is_spelled_as_every_reader_has_it() -> None:
    tone, count, pause = options_of(Bells)
    assert (tone.flag, tone.variable) == ("--bell-tone", "UNDERSTUDY_BELL_TONE")
    assert (count.words(3), pause.words(0.25), pause.words(2.0)) == (
        ["--bell-count", "3"],
        ["--bell-pause", "0.25"],
        ["--bell-pause", "2"],
    )
    found = [key_of(each) for each in (tone, count, pause)]
    assert [(key.name, key.type, key.default, key.least) for key in found if key] == [
        ("bellTone", "string", "", None),
        ("bells", "integer", 3, 2),
        ("bellPause", "string", "0.5", None),
    ]
    assert found[0] is not None
    assert found[0].description == "Which bell rings. Empty for the first."


def test_a_field_without_a_declaration_is_a_defect() -> None:
    @dataclass(frozen=True, slots=True)
    class Silent(Group):
        panel: ClassVar[str] = "Silent"
        tone: str = ""

    with pytest.raises(AssertionError, match="tone is not declared"):
        Silent()


def test_a_key_of_the_bundle_is_one_option_s() -> None:
    assert len(keys()) == sum(each.declared.bundle is not None for each in options())
