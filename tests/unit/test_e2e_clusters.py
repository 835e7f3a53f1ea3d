"""Where the end-to-end tests may run; no cluster is needed to decide it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.build import MODULES, Module, kubernetes_version
from e2e.cluster.image import image_names, write_image
from e2e.clusters import Choice, Given, Kind, Local, Refused, Wishes, choose


def chosen(*, kind: bool = False, root: bool = True, current: str = "", **wishes: str) -> Choice:
    return choose(Wishes(**wishes), current_context=current, kind=kind, root=root)


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
