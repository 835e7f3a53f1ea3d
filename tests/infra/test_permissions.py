"""What the Roles of every stack allow, and whom."""

from __future__ import annotations

from infra.manifests.ha import ha_objects
from infra.settings import Settings
from tests.infra.stacks import everything, patient
from tests.infra.test_builders import any_stack, names, of_kind, rules_of


class TestPermissions:
    @patient
    @any_stack
    def test_hold_no_wildcard_and_no_cluster_s_worth(self, stack: Settings) -> None:
        objects = everything(stack)
        assert not of_kind(objects, "ClusterRole", "ClusterRoleBinding")
        for rule in rules_of(objects):
            assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}
            for value in rule.values():
                assert value
                assert not any("*" in each for each in value)

    @patient
    @any_stack
    def test_are_for_ha_objects_by_name(self, stack: Settings) -> None:
        granted: dict[str, set[str]] = {"configmaps": set(), "leases": set()}
        for rule in rules_of(everything(stack)):
            if rule["resources"] == ["leases"] and "resourceNames" not in rule:
                assert rule["verbs"] == ["create"]  # what is created cannot be named
                continue
            for resource in granted.keys() & set(rule["resources"]):
                assert rule["resourceNames"]
                granted[resource] |= set(rule["resourceNames"])
        assert granted == {
            "configmaps": names(ha_objects(stack), "ConfigMap"),
            "leases": names(ha_objects(stack), "Lease"),
        }

    @patient
    @any_stack
    def test_of_replicas_make_and_remove_nothing_but_executors_and_make_their_lock_again(self, stack: Settings) -> None:
        objects = everything(stack)
        for role in of_kind(objects, "Role"):
            executors = role["metadata"]["name"] == f"{stack.job.cluster}-executors"
            assert not executors or stack.run.mode == "native"
            for rule in role["rules"]:
                changing = set(rule["verbs"]) - {"get", "list", "watch", "patch"}
                if rule["resources"] == ["events"]:
                    assert changing == {"create"}  # what it says of itself
                elif rule["resources"] == ["leases"] and "resourceNames" not in rule:
                    assert changing == {"create"}  # a deleted lock, by its living holder
                    assert names(ha_objects(stack), "Lease")
                elif executors:
                    assert rule["resources"] == ["pods"]
                    assert changing == {"create", "delete", "deletecollection"}
                else:
                    assert not changing

    @patient
    @any_stack
    def test_never_open_a_secret(self, stack: Settings) -> None:
        assert not any("secrets" in rule["resources"] for rule in rules_of(everything(stack)))

    @patient
    @any_stack
    def test_are_bound_to_accounts_of_the_stack_only(self, stack: Settings) -> None:
        objects = everything(stack)
        for binding in of_kind(objects, "RoleBinding"):
            assert binding["roleRef"]["kind"] == "Role"
            assert binding["roleRef"]["name"] in names(objects, "Role")
            for subject in binding["subjects"]:
                assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", stack.namespace)
                assert subject["name"] in names(objects, "ServiceAccount")
