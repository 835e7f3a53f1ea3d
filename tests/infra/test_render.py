"""What is the same for every way to deploy: by Pulumi, or by a tool that follows what ``make render`` prints."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from infra.components.ha_state import MANAGER
from infra.manifests.base import Manifest
from infra.manifests.everything import kept_objects, passing_objects
from infra.manifests.object_store import endpoint_of
from infra.render import NEVER_PRUNED, as_yaml, notes, rendered, stack_settings
from infra.settings import settings_from
from testkit.bundle import LEAST
from tests.infra.recorder import record
from tests.infra.stacks import TEXTS, everything, patient, stacks
from understudy.errors import SettingsError

#: ``make render`` refuses to print a Secret.
printable = stacks().filter(lambda keys: "bucketAccessKey" not in keys)


def without(marks: Mapping[str, str], manifest: Manifest) -> Manifest:
    """As it was before it was marked; an object without annotations has no empty ones either."""
    found = copy.deepcopy(manifest)
    annotations = found["metadata"].get("annotations", {})
    for mark in marks:
        annotations.pop(mark, None)
    if not annotations:
        found["metadata"].pop("annotations", None)
    return found


def by_name(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


@settings(parent=patient, max_examples=15)
@given(keys=stacks())
def test_pulumi_registers_what_the_builders_build(keys: dict[str, Any]) -> None:
    seen = [dict(each.inputs) for each in record(**keys) if "metadata" in each.inputs]
    registered = by_name([without(MANAGER, each) for each in seen])
    assert len(registered) == len(seen)
    assert registered == by_name(everything(settings_from(keys)))


@patient
@given(keys=printable)
def test_render_prints_what_the_builders_build_and_marks_what_holds_data(keys: dict[str, Any]) -> None:
    stack = settings_from(keys)
    printed = rendered(stack)
    built = [*kept_objects(stack), *passing_objects(stack, endpoint_of(stack), applied=True)]
    assert [without(NEVER_PRUNED, each) for each in printed] == built
    marked = [each for each in printed if NEVER_PRUNED.items() <= each["metadata"].get("annotations", {}).items()]
    assert [without(NEVER_PRUNED, each) for each in marked] == kept_objects(stack)


class OthersLoader(yaml.SafeLoader):
    """Reads as YAML 1.2 and as Go's parsers do where PyYAML differs."""


OthersLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
OthersLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"0o[0-7]+\Z"), ["0"])
OthersLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))


@patient
@given(keys=printable)
def test_what_render_prints_is_read_alike_by_everybody(keys: dict[str, Any]) -> None:
    printed = rendered(settings_from(keys))
    text = as_yaml(printed)
    assert list(yaml.safe_load_all(text)) == printed
    assert list(yaml.load_all(text, OthersLoader)) == printed
    assert not re.search(r"[&*]id0", text), "anchors"


@patient
@given(value=TEXTS)
def test_any_text_is_printed_as_a_text(value: str) -> None:
    assert list(yaml.load_all(as_yaml([{"a": value, value: "b"}]), OthersLoader)) == [{"a": value, value: "b"}]


def test_a_stack_whose_keys_are_encrypted_is_not_rendered_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be one whose drivers ask a workload identity."""
    keys = {f"understudy:{key}": value for key, value in LEAST.items()}
    encrypted = {f"understudy:{key}": {"secure": "v1:abc"} for key in ("bucketAccessKey", "bucketSecretKey")}
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.mine.yaml").write_text(yaml.safe_dump({"config": {**keys, **encrypted}}))
    monkeypatch.setattr("infra.render.PROJECT", tmp_path)
    with pytest.raises(SettingsError, match="understudy:bucketAccessKey: would print the bucket's keys"):
        stack_settings("mine", {})
    assert stack_settings("mine", {"bucketSecret": "flights-bucket"}).bucket.secret == "flights-bucket"


def test_what_has_to_be_there_besides_is_said() -> None:
    said = notes(settings_from({**LEAST, "bucketKind": "aws", "monitoringChart": True}))
    assert len(said) == 2
    assert "the bucket " in said[0]
    assert "charts/monitoring" in said[1]
