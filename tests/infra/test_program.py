"""The whole program under Pulumi's mocks: what each resource is told beside what it is."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.infra.recorder import Registered, outputs, record


def of(seen: list[Registered], *kinds: str) -> list[Registered]:
    return [each for each in seen if each.kind in kinds]


def objects(seen: list[Registered]) -> list[Registered]:
    """Those that are something in the cluster."""
    return [each for each in seen if "metadata" in each.inputs]


def ha(seen: list[Registered]) -> list[Registered]:
    return [each for each in objects(seen) if each.parent == "understudy:infra:HaState"]


class TestWhatOutlivesTheStack:
    def test_documents_and_the_lock_are_there_under_the_names_that_replicas_use(self) -> None:
        found = {(each.kind, each.object_name) for each in ha(record())}
        assert found == {
            ("ConfigMap", "flights-flights"),
            ("ConfigMap", "flights-replicas"),
            ("ConfigMap", "flights-lock"),
            ("Lease", "flights-lock"),
        }

    def test_a_lock_is_changed_without_taking_away_the_old_one(self) -> None:
        """Replicas of the old revision hold it until the new ones have rehearsed."""
        for lock in ("lease", "multi", "configmap"):
            seen = record(lock=lock)
            assert {each.kind for each in ha(seen) if each.object_name == "flights-lock"} == {"ConfigMap", "Lease"}
            (role,) = of(seen, "Role")
            granted = {name for rule in role.inputs["rules"] for name in rule.get("resourceNames", [])}
            assert granted == {"flights-flights", "flights-replicas", "flights-lock"}

    @pytest.mark.parametrize("given", [{}, {"workload": "StatefulSet", "replicas": 1}, {"createNamespace": True}])
    def test_destroy_keeps_them(self, given: dict[str, Any]) -> None:
        kept = ha(record(**given))
        assert kept
        assert all(each.retain for each in kept)

    def test_nothing_else_is_kept(self) -> None:
        seen = record(createNamespace=True, metricsFrom="monitoring", flowSchema=True, podMonitor=True, mode="native")
        assert {each.kind for each in seen if each.retain} == {"Lease", "ConfigMap", "Namespace"}

    @pytest.mark.parametrize(
        "change",
        [{"ha": "zookeeper", "haAddress": "zk:2181"}, {"jobId": "other"}, {"workload": "StatefulSet", "replicas": 1}],
        ids=" ".join,
    )
    def test_a_change_that_leaves_them_out_is_not_refused_and_keeps_them(self, change: dict[str, Any]) -> None:
        """The engine deletes nothing that is protected, be it retained or not, and fails instead."""
        before, after = record(production=True), record(production=True, **change)
        left_out = [each for each in before if each.name not in {other.name for other in after}]
        kept = [each for each in left_out if each.parent == "understudy:infra:HaState"]
        assert kept
        assert all(each.retain for each in kept)
        assert not any(each.protect for each in left_out)

    @pytest.mark.parametrize("given", [{"purge": True}, {"purge": True, "production": True}, {"retain": False}])
    def test_purge_lifts_both_but_for_the_namespace(self, given: dict[str, Any]) -> None:
        """Others may live in it."""
        seen = record(**given, createNamespace=True)
        assert {each.kind for each in seen if each.retain or each.protect} == {"Namespace"}

    @pytest.mark.parametrize("workload", [{}, {"workload": "StatefulSet", "replicas": 1}, {"workload": "Job"}])
    def test_with_purge_nothing_runs_that_could_write_or_fail_to_come_up(self, workload: dict[str, Any]) -> None:
        told = {"bucketKind": "incluster", "bucketSecret": "s", "monitoringChart": True, "purge": True}
        seen = record(**workload, **told)
        (kind,) = {each.kind for each in record(**workload)} & {"Deployment", "StatefulSet", "Job"}
        assert not of(seen, kind, "Chart", "PodDisruptionBudget")
        kept = {each.object_name for each in ha(record(**workload, **{**told, "purge": False}))}
        assert {each.object_name for each in ha(seen)} == kept

    def test_what_drivers_wrote_is_never_declared_and_never_compared(self) -> None:
        for each in ha(record()):
            assert not {"data", "binaryData", "spec"} & set(each.inputs)
            assert {"data", "binaryData"} <= set(each.ignore_changes)

    def test_what_a_refresh_reads_of_it_is_encrypted(self) -> None:
        for each in ha(record()):
            assert {"data", "binaryData", "spec", "metadata"} <= set(each.secret_outputs)

    def test_the_provider_that_makes_them_adopts_what_is_there(self) -> None:
        seen = record()
        assert {each.provider for each in ha(seen)} == {"keeping"}
        (keeping,) = (each for each in seen if each.name == "keeping")
        # Providers take their inputs as JSON.
        assert keeping.inputs["upsertExistingObjects"] == "true"
        assert keeping.inputs["enableConfigMapMutable"] == "true"
        assert keeping.inputs["enableServerSideApply"] == "true"

    @pytest.mark.parametrize(
        "given", [{}, {"workload": "StatefulSet", "replicas": 1}, {"ha": "zookeeper", "haAddress": "zk:2181"}]
    )
    def test_another_stack_of_the_same_job_is_refused_before_it_adopts_them(self, given: dict[str, Any]) -> None:
        """By an account that exists, which the other provider does not adopt."""
        seen = record(
            **given, createNamespace=True, bucketKind="incluster", bucketAccessKey="AKIA", bucketSecretKey="shh"
        )
        (account,) = of(seen, "ServiceAccount")
        assert account.provider == "cluster"
        adopted = [each for each in ha(seen) if each.kind != "Namespace"]
        assert "flights-objects" in {each.object_name for each in adopted}
        assert all(account.name in each.after for each in adopted)

    @pytest.mark.parametrize(
        ("one", "other", "name"),
        [
            (("flights", "eu-delays"), ("flights-eu", "delays"), "flights-eu-delays"),
            (("flights", "eu-lock"), ("flights-eu", "delays"), "flights-eu-lock"),
            (("flights", "eu-replicas"), ("flights-eu", "delays"), "flights-eu-replicas"),
        ],
    )
    def test_those_of_another_job_are_refused_before_they_are_adopted(
        self, one: tuple[str, str], other: tuple[str, str], name: str
    ) -> None:
        """Two ids make a name. What the other stack has made by a provider that does not adopt is in the way."""
        first, second = (record(clusterId=cluster, jobId=job) for cluster, job in (one, other))
        here, there = ({each.object_name for each in ha(seen)} for seen in (first, second))
        assert here & there == {name}
        alone = [{(each.kind, each.object_name) for each in objects(seen)} for seen in (first, second)]
        in_the_way = {each for each in alone[0] & alone[1] if each[1] not in here}
        assert in_the_way
        for seen in (first, second):
            refused = [each for each in objects(seen) if (each.kind, each.object_name) in in_the_way]
            assert {(each.provider, each.retain) for each in refused} == {("cluster", False)}
            assert all(owner.name in each.after for owner in refused for each in ha(seen))

    def test_their_field_manager_is_always_the_same_one(self) -> None:
        for each in ha(record(createNamespace=True)):
            assert each.inputs["metadata"]["annotations"]["pulumi.com/patchFieldManager"] == "understudy"
            assert "pulumi.com/patchForce" not in each.inputs["metadata"]["annotations"]


class TestARollout:
    @pytest.mark.parametrize(("replicas", "minutes"), [(1, "10m"), (3, "10m"), (5, "15m"), (20, "60m")])
    def test_has_time_for_one_replica_after_the_other(self, replicas: int, minutes: str) -> None:
        (deployment,) = of(record(replicas=replicas), "Deployment")
        assert deployment.timeouts == (minutes, minutes)

    @pytest.mark.parametrize("other", [{"jobId": "other"}, {"ha": "zookeeper", "haAddress": "zk:2181"}])
    def test_that_is_refused_has_taken_no_right_from_those_that_run(self, other: dict[str, Any]) -> None:
        """Other rules are another Role, and the engine deletes the old one after the rollout."""
        roles = [{each.name for each in of(record(**given), "Role", "RoleBinding")} for given in ({}, other)]
        assert not roles[0] & roles[1]
        assert {each.name for each in of(record(replicas=5), "Role", "RoleBinding")} == roles[0]


class TestDeclaredState:
    @pytest.mark.parametrize(
        ("state", "order"), [("suspended", ["Job", "Deployment"]), ("running", ["Deployment", "Job"])]
    )
    def test_a_job_stands_still_before_its_replicas_change_and_runs_while_they_do(
        self, state: str, order: list[str]
    ) -> None:
        first, last = (each for each in record(state=state) if each.kind in {"Job", "Deployment"})
        assert [first.kind, last.kind] == order
        assert (first.name in last.after) is (state == "suspended")


class TestEverything:
    def test_nothing_has_an_owner_that_takes_it_along(self) -> None:
        for each in objects(record(mode="native", createNamespace=True)):
            assert "ownerReferences" not in each.inputs["metadata"]

    def test_the_rest_is_made_by_a_provider_that_adopts_nothing(self) -> None:
        seen = record(mode="native")
        rest = [each for each in objects(seen) if each.parent != "understudy:infra:HaState"]
        assert {each.provider for each in rest} == {"cluster"}
        (cluster,) = (each for each in seen if each.name == "cluster")
        assert "upsertExistingObjects" not in cluster.inputs

    def test_every_object_belongs_to_a_component_and_the_namespace(self) -> None:
        for each in objects(record(mode="native", flowSchema=True, podMonitor=True, metricsFrom="monitoring")):
            assert each.parent.startswith("understudy:infra:"), each
            if each.kind not in {"Namespace", "FlowSchema"}:
                assert each.inputs["metadata"]["namespace"] == "streaming"

    def test_names_are_what_they_were(self) -> None:
        """A changed name is another resource: the old one is deleted, its data with it. Give it an alias, and add it here."""
        assert {each.name: each.object_name for each in ha(record(createNamespace=True))} == {
            "streaming-namespace": "streaming",
            "flights-flights-configmap": "flights-flights",
            "flights-replicas-configmap": "flights-replicas",
            "flights-lock-configmap": "flights-lock",
            "flights-lock-lease": "flights-lock",
        }
        assert {each.type for each in ha(record())} == {
            "kubernetes:core/v1:ConfigMap",
            "kubernetes:coordination.k8s.io/v1:Lease",
        }


class TestAnObjectStoreMadeAlong:
    GIVEN: ClassVar = {"bucketKind": "incluster", "bucketAccessKey": "AKIA", "bucketSecretKey": "shh"}

    def test_its_volume_is_adopted_and_kept_like_other_data(self) -> None:
        """The chart's own claim would be kept, too, and then be in the way of the next up."""
        seen = record(**self.GIVEN)
        (claim,) = of(seen, "PersistentVolumeClaim")
        assert (claim.object_name, claim.provider, claim.retain) == ("flights-objects", "keeping", True)
        assert claim.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
        (chart,) = (each for each in seen if each.type == "kubernetes:helm.sh/v4:Chart")
        assert chart.inputs["values"]["persistence"] == {"existingClaim": "flights-objects"}

    @pytest.mark.parametrize(
        ("mode", "kept_out"),
        [({}, True), ({"mode": "native"}, True), ({"mode": "standalone", "master": "spark://master:7077"}, False)],
    )
    def test_it_lets_in_whoever_works_for_the_job(self, mode: dict[str, str], kept_out: bool) -> None:
        (chart,) = (each for each in record(**self.GIVEN, **mode) if each.type == "kubernetes:helm.sh/v4:Chart")
        assert chart.inputs["values"].get("networkPolicy", {"enabled": True})["enabled"] is kept_out

    def test_other_keys_restart_all_who_read_them(self) -> None:
        def readers(key: str) -> list[str]:
            seen = record(**{**self.GIVEN, "bucketSecretKey": key})
            (secret,), (workload,) = of(seen, "Secret"), of(seen, "Deployment")
            (chart,) = (each for each in seen if each.type == "kubernetes:helm.sh/v4:Chart")
            assert secret.object_name in repr(workload.inputs)
            assert chart.inputs["values"]["credentials"]["existingSecret"] == secret.object_name
            return [secret.object_name]

        assert readers("one") == readers("one") != readers("other")


class TestWhatAUserIsTold:
    def test_how_to_look_and_where_things_are(self) -> None:
        told = outputs(context="kind-kind", lock="multi")
        assert told["status"] == (
            "understudy status --cluster-id flights --namespace streaming --context kind-kind --lock multi"
        )
        assert told["workload"] == "deployment/flights"
        assert told["haObjects"] == [
            "configmap/flights-flights",
            "configmap/flights-replicas",
            "configmap/flights-lock",
            "lease/flights-lock",
        ]
        assert told["checkpoints"] == "s3a://flights/flights/checkpoints"

    def test_no_secret(self) -> None:
        assert "shh" not in repr(outputs(**TestKeysOfTheBucket.KEYS))


class TestKeysOfTheBucket:
    KEYS: ClassVar = {"bucketAccessKey": "AKIA", "bucketSecretKey": "shh"}

    def test_they_are_secrets_and_stand_nowhere_else(self) -> None:
        seen = record(**self.KEYS)
        (secret,) = of(seen, "Secret")
        assert secret.inputs["stringData"] == {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "shh"}
        assert any(path.startswith("stringData") for path in secret.secrets)
        for each in seen:
            if each is not secret:
                assert "shh" not in repr(each.inputs)
                assert "AKIA" not in repr(each.inputs)

    def test_an_existing_secret_is_used_and_none_is_made(self) -> None:
        seen = record(bucketSecret="flights-bucket")
        assert not of(seen, "Secret")
        (workload,) = of(seen, "Deployment")
        (container,) = workload.inputs["spec"]["template"]["spec"]["containers"]
        found = [each for each in container["env"] if each["name"] == "AWS_SECRET_ACCESS_KEY"]
        assert found[0]["valueFrom"]["secretKeyRef"] == {"name": "flights-bucket", "key": "AWS_SECRET_ACCESS_KEY"}

    def test_without_keys_the_workload_s_identity_counts(self) -> None:
        seen = record(workloadIdentity={"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"})
        (account,) = of(seen, "ServiceAccount")
        assert account.inputs["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}
        (workload,) = of(seen, "Deployment")
        arguments = workload.inputs["spec"]["template"]["spec"]["containers"][0]["args"]
        assert any("WebIdentityTokenFileCredentialsProvider" in each for each in arguments)

    def test_another_identity_makes_other_pods(self) -> None:
        """Which one a pod has is decided when it is made."""

        def template(**told: Any) -> dict[str, Any]:
            (workload,) = of(record(**told), "Deployment")
            found: dict[str, Any] = workload.inputs["spec"]["template"]["metadata"]
            return found

        one, other = (template(workloadIdentity={"example.com/role": role}) for role in ("x", "y"))
        assert one["annotations"] != other["annotations"]
        assert "annotations" not in template()
        (job,) = of(record(workload="Job", workloadIdentity={"example.com/role": "x"}), "Job")
        assert "annotations" not in job.inputs["spec"]["template"]["metadata"], "it would be another run"


class TestABucketOnAws:
    GIVEN: ClassVar = {"bucketKind": "aws", "expireRehearsalsDays": 3}

    def of_aws(self, **given: Any) -> dict[str, Registered]:
        seen = record(**self.GIVEN, **given)
        return {each.type.rpartition(":")[2]: each for each in seen if each.type.startswith("aws:")}

    def test_nothing_that_is_protected_needs_what_a_destroy_removes(self) -> None:
        """``--exclude-protected`` keeps all that a protected resource depends on."""
        seen = record(production=True, **self.GIVEN)
        by_name = {each.name: each for each in seen}
        needed = [by_name[name] for each in seen if each.protect for name in each.after]
        assert [each for each in needed if not each.protect and "metadata" in each.inputs] == []

    def test_it_is_kept_and_in_production_protected_with_everything_that_guards_it(self) -> None:
        found = self.of_aws(production=True)
        assert set(found) == {
            "Bucket",
            "BucketVersioning",
            "BucketPublicAccessBlock",
            "BucketLifecycleConfiguration",
        }
        for each in found.values():
            assert (each.retain, each.protect, each.parent) == (True, True, "understudy:infra:ObjectStore")
        assert not found["Bucket"].inputs.get("forceDestroy")

    def test_a_purge_takes_it_with_all_that_is_in_it(self) -> None:
        found = self.of_aws(purge=True)
        assert not any(each.retain or each.protect for each in found.values())
        assert found["Bucket"].inputs["forceDestroy"] is True

    def test_versions_are_on_and_public_access_is_off(self) -> None:
        found = self.of_aws()
        assert found["BucketVersioning"].inputs["versioningConfiguration"] == {"status": "Enabled"}
        shut = found["BucketPublicAccessBlock"].inputs
        for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
            assert shut[key] is True

    def test_nothing_expires_but_what_rehearsals_left(self) -> None:
        rules = self.of_aws()["BucketLifecycleConfiguration"].inputs["rules"]
        expiring = [rule for rule in rules if "expiration" in rule or "noncurrentVersionExpiration" in rule]
        assert [(rule["filter"]["prefix"], rule["expiration"]["days"]) for rule in expiring] == [
            ("flights/scratch/", 3)
        ]
