"""Where the end-to-end tests may run, and how they get there; kind and kubectl are scripts here, and no cluster is needed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.__main__ import kind_cluster, main
from e2e.cluster.build import MODULES, Module
from e2e.cluster.choice import Choice, Given, Kind, Local, Refused, Wishes, choose, takes_pods, too_few
from e2e.cluster.image import image_names, write_image
from e2e.cluster.layout import REPOSITORY
from e2e.harness.kubectl import current_context
from testkit.programs import program
from testkit.versions import kubernetes_version


def chosen(*, kind: bool = False, root: bool = True, current: str = "", **wishes: str) -> Choice:
    return choose(Wishes(**wishes), current_context=current, kind=kind, root=root)


def node(*effects: str, ready: str = "True") -> dict[str, Any]:
    """With a taint of each effect."""
    taints = {"taints": [{"key": "any", "effect": effect} for effect in effects]} if effects else {}
    conditions = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    return {"spec": taints, "status": {"conditions": conditions}}


def test_help_brings_up_no_cluster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["--help"]) == 0
    assert "--run MODULE" in capsys.readouterr().out


class TestAGivenCluster:
    @pytest.mark.parametrize("context", ["kind-understudy", "kind-a", "minikube", "lab"])
    def test_is_used_unasked_when_its_name_is_harmless(self, context: str) -> None:
        assert chosen(kubeconfig="config", context=context) == Given(context)

    @pytest.mark.parametrize(
        "context",
        ["production", "kind", "kind-", "mankind-1", "minikube-prod", "my-lab", "labour", "LAB", "eu/lab", "lab\n"],
    )
    def test_is_refused_under_any_other_name(self, context: str) -> None:
        assert isinstance(chosen(kubeconfig="config", context=context), Refused)

    def test_is_used_when_its_name_is_repeated(self) -> None:
        assert chosen(kubeconfig="config", context="production", confirm="production") == Given("production")

    @pytest.mark.parametrize("confirm", ["yes", "1", "staging", "Production", "product"])
    def test_is_refused_when_anything_else_is_said(self, confirm: str) -> None:
        answer = chosen(kubeconfig="config", context="production", confirm=confirm)

        assert isinstance(answer, Refused)
        assert "E2E_CONFIRM=production" in answer.reason

    def test_is_its_current_context_when_none_is_named_and_needs_the_same_word(self) -> None:
        assert isinstance(chosen(kubeconfig="config", current="production"), Refused)
        assert chosen(kubeconfig="config", current="production", confirm="production") == Given("production")
        assert chosen(kubeconfig="config", current="minikube") == Given("minikube")

    def test_a_harmless_current_context_does_not_vouch_for_the_one_that_is_named(self) -> None:
        assert isinstance(chosen(kubeconfig="config", current="minikube", context="production"), Refused)

    def test_is_never_replaced_by_another(self) -> None:
        assert isinstance(chosen(kubeconfig="config", context="production", kind=True), Refused)
        assert isinstance(chosen(kubeconfig="config"), Refused)

    def test_a_context_without_a_kubeconfig_is_refused_with_the_remedy(self) -> None:
        answer = chosen(context="minikube", kind=True)

        assert isinstance(answer, Refused)
        assert "KUBECONFIG" in answer.reason


class TestWithoutAGivenCluster:
    def test_kind_comes_before_the_local_cluster(self) -> None:
        assert chosen(kind=True) == Kind()

    def test_the_local_cluster_needs_root(self) -> None:
        assert chosen() == Local()
        assert isinstance(chosen(root=False), Refused)

    def test_an_empty_kubeconfig_is_none(self) -> None:
        assert Wishes.of({"KUBECONFIG": " ", "HOME": "/root"}) == Wishes()
        assert Wishes.of({"KUBECONFIG": "a", "E2E_CONTEXT": "b", "E2E_CONFIRM": "c"}) == Wishes("a", "b", "c")


class TestNodes:
    def test_a_node_takes_pods_unless_it_is_unready_or_a_taint_keeps_them_away(self) -> None:
        assert takes_pods(node())
        assert takes_pods(node("PreferNoSchedule"))
        for other in (
            node("NoSchedule"),
            node("NoExecute"),
            node("PreferNoSchedule", "NoSchedule"),
            node(ready="Unknown"),
        ):
            assert not takes_pods(other), other

    def test_one_that_takes_pods_is_enough_for_the_short_list_and_two_for_everything(self) -> None:
        control_plane, worker = node("NoSchedule"), node()

        assert too_few([worker], everything=False) is None
        assert too_few([control_plane, worker, worker], everything=True) is None
        for given, everything in (([control_plane], False), ([control_plane, worker], True)):
            assert isinstance(too_few(given, everything=everything), Refused)

    def test_who_has_one_for_everything_is_told_what_it_is_enough_for(self) -> None:
        refused = too_few([node()], everything=True)

        assert refused is not None
        assert "make e2e is content with one" in refused.reason


class TestPrograms:
    """``make e2e`` on a machine where nothing is but what the test puts there."""

    def called(self, tmp_path: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        around = {"PATH": str(tmp_path), "HOME": str(tmp_path), **environment}
        command = [sys.executable, "-m", "e2e"]
        return subprocess.run(command, cwd=REPOSITORY, env=around, capture_output=True, text=True, check=False)

    def test_what_is_missing_is_named_before_a_given_cluster_is_asked_anything(self, tmp_path: Path) -> None:
        ended = self.called(tmp_path, {"KUBECONFIG": "config"})

        assert ended.returncode == 2
        assert ended.stderr == (
            "e2e: please install kubectl and helm, or run tools/setup.sh cluster, which compiles them\n"
        )

    def test_what_is_missing_is_named_before_kind_makes_anything(self, tmp_path: Path) -> None:
        for name, script in {"docker": "", "kubectl": "", "kind": f"echo $* >{tmp_path / 'asked'}"}.items():
            program(tmp_path / name, script)

        ended = self.called(tmp_path, {})

        assert ended.returncode == 2
        assert "please install helm" in ended.stderr
        assert not (tmp_path / "asked").exists()


class TestKind:
    @pytest.fixture
    def asked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """What kind was asked, one question a line. It lists what is in ``clusters``; ``status`` is how creating one ends."""
        (tmp_path / "clusters").write_text("understudy\nunderstudy-e2e-2\n")
        (tmp_path / "status").write_text("0")
        asked = tmp_path / "asked"
        script = f"""
            echo "$1 $2" >>{asked}
            case "$1" in
                get) cat {tmp_path}/clusters ;;
                create) exit $(cat {tmp_path}/status) ;;
            esac"""
        program(tmp_path / "kind", script)
        program(tmp_path / "kubectl", "")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return asked

    def test_a_new_cluster_is_the_runs_own_and_goes_with_it(self, asked: Path, tmp_path: Path) -> None:
        with kind_cluster(tmp_path / "new" / "config", keep=False) as found:
            assert found is not None
            assert (found.context, found.owned) == ("kind-understudy-e2e", True)
            assert found.kubeconfig == str(tmp_path / "new" / "config")
            assert asked.read_text().splitlines() == ["get clusters", "create cluster"]
        assert asked.read_text().splitlines()[2:] == ["delete cluster"]

    def test_a_new_cluster_stays_if_it_shall(self, asked: Path, tmp_path: Path) -> None:
        with kind_cluster(tmp_path / "config", keep=True):
            pass
        assert asked.read_text().splitlines() == ["get clusters", "create cluster"]

    def test_a_cluster_that_was_there_is_used_and_stays(self, asked: Path, tmp_path: Path) -> None:
        (tmp_path / "clusters").write_text("kind\nunderstudy-e2e\n")

        with kind_cluster(tmp_path / "config", keep=False) as found:
            assert found is not None
            assert (found.context, found.owned) == ("kind-understudy-e2e", False)
        assert asked.read_text().splitlines() == ["get clusters", "export kubeconfig"]

    def test_a_cluster_that_cannot_be_made_is_left_to_kind_which_may_have_found_that_it_is_anothers(
        self, asked: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "status").write_text("1")

        with kind_cluster(tmp_path / "config", keep=False) as found:
            assert found is None
        assert asked.read_text().splitlines() == ["get clusters", "create cluster"]

    def test_an_interrupted_run_takes_its_cluster_away(self, asked: Path, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt), kind_cluster(tmp_path / "config", keep=False):
            raise KeyboardInterrupt
        assert asked.read_text().splitlines()[-1] == "delete cluster"


def test_a_kubeconfig_may_be_a_list_of_files(tmp_path: Path) -> None:
    kubectl = program(tmp_path / "kubectl", 'echo "$KUBECONFIG: $*"')

    assert current_context(str(kubectl), "a:b") == "a:b: config current-context"


class TestImages:
    def test_an_image_is_the_same_every_time_and_runs_its_entry_as_nobody_special(self, tmp_path: Path) -> None:
        (tmp_path / "tool").write_bytes(b"\x7fELF")
        for name in ("one.tar", "two.tar"):
            write_image(tmp_path / name, "localhost/tool:1", {"/bin/tool": tmp_path / "tool"}, ["/bin/tool"])

        assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
        identity, names = image_names(tmp_path / "one.tar")
        assert names == ("localhost/tool:1",)
        with tarfile.open(tmp_path / "one.tar") as archive:
            config = json.load(archive.extractfile(f"{identity}.json") or io.BytesIO())
            (layer,) = [member for member in archive.getnames() if member.endswith("layer.tar")]
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                assert [(file.name, file.mode) for file in files] == [("bin/tool", 0o755)]
        assert config["config"]["User"] == "10001:10001"


class TestBuilding:
    def test_what_is_compiled_is_known_by_its_files(self) -> None:
        digests = {module.name: module.digest() for module in MODULES}

        assert len(set(digests.values())) == len(MODULES)
        assert digests == {module.name: Module(module.name, (), "").digest() for module in MODULES}

    def test_kubernetes_has_the_version_that_the_module_pins(self) -> None:
        assert kubernetes_version().startswith("v1.")
