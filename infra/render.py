"""``make render``: the manifests of a stack as YAML, for those whose cluster follows a repository (Argo CD, Flux).

    python -m infra.render STACK [KEY=VALUE ...]

The same builders as ``pulumi up``. What holds data is marked so that neither tool prunes it. No Secret is printed: a repository
is no place for one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from infra.config import read
from infra.ensemble import keys_of_secret, place_in
from infra.manifests.base import Manifest, annotated
from infra.manifests.command import bucket_secret
from infra.manifests.everything import kept_objects, passing_objects
from infra.manifests.ha import included_name
from infra.manifests.monitoring import monitoring_name, monitoring_values
from infra.manifests.object_store import endpoint_of, included_values
from infra.schema import NAMESPACE, PROJECT
from infra.settings import Settings, settings_from
from understudy.errors import SettingsError, UnderstudyError

#: Argo CD and Flux leave these alone when they are no longer in the repository, and when the application is deleted.
NEVER_PRUNED: Mapping[str, str] = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}


def rendered(settings: Settings) -> list[Manifest]:
    """Raises ``SettingsError`` where a Secret would have to be printed."""
    if settings.bucket.access_key:
        raise _keys_would_be_printed("bucketAccessKey")
    kept = [annotated(each, NEVER_PRUNED) for each in kept_objects(settings)]
    return [*kept, *passing_objects(settings, endpoint_of(settings), applied=True)]


def stack_settings(stack: str, over: Mapping[str, Any]) -> Settings:
    """A stack's file, with single keys replaced. Raises ``SettingsError``."""
    path = PROJECT / "stacks" / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(each.name.split(".")[1] for each in path.parent.glob("Pulumi.*.yaml")))
        raise SettingsError(f"there is no {path.name}", where="STACK", remedy=f"There are {known}")
    config = yaml.safe_load(path.read_text(encoding="utf-8")).get("config") or {}
    found = {key.removeprefix(NAMESPACE): value for key, value in config.items() if key.startswith(NAMESPACE)}
    # Keys that `pulumi config set --secret` left there cannot be read here, nor are they wanted.
    encrypted = [key for key, value in found.items() if isinstance(value, dict) and "secure" in value]
    found = {**read({key: value for key, value in found.items() if key not in encrypted}), **read(over)}
    if found.get("bucketKind") == "incluster" and not found.get("bucketSecret"):
        found["bucketSecret"] = f"{found.get('clusterId', '')}-bucket"
    if encrypted and not found.get("bucketSecret"):
        raise _keys_would_be_printed(encrypted[0])
    return settings_from(found)


def _keys_would_be_printed(key: str) -> SettingsError:
    remedy = "Make a Secret in the cluster, and name it in bucketSecret"
    return SettingsError("would print the bucket's keys", where=f"{NAMESPACE}{key}", remedy=remedy)


def notes(settings: Settings) -> list[str]:
    """What has to be there besides."""
    found = []
    if secret := bucket_secret(settings):
        found.append(f"the Secret {secret} with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if settings.in_zookeeper:
        place = place_in(settings.ha)
        found.append(f"the path {place.chroot or '/'} in ZooKeeper {','.join(place.hosts)}")
    if settings.ha.secret:
        found.append(f"the Secret {settings.ha.secret} with {' and '.join(keys_of_secret(settings.ha))}")
    if settings.bucket.kind == "incluster":
        found.append(_installed(settings, "object-store", included_name(settings), included_values(settings)))
    if settings.bucket.kind == "aws":
        found.append(f"the bucket {settings.bucket.name}, which pulumi up would make")
    if settings.monitoring.chart:
        found.append(_installed(settings, "monitoring", monitoring_name(settings), monitoring_values(settings)))
    return found


def _installed(settings: Settings, chart: str, name: str, values: Mapping[str, Any]) -> str:
    return f"helm install {name} charts/{chart} -n {settings.namespace} -f - <<<'{json.dumps(values)}'"


class _Plain(yaml.SafeDumper):
    """Every value written out: anchors are legal YAML, and not everybody's tools read them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        style = "'" if _MISREAD.match(value) else None
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Plain.add_representer(str, _Plain.text)
#: Texts that PyYAML writes without quotes, and that kubectl and others read as numbers or booleans: 1e3, 0o17, y.
_MISREAD = re.compile(r"[-+.]?[0-9]|[yYnN]\Z")


def as_yaml(manifests: Iterable[Manifest]) -> str:
    return str(yaml.dump_all(manifests, None, _Plain, sort_keys=False, explicit_start=True, width=1000))


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stderr.write("understudy: STACK is missing. For example make render STACK=dev\n")
        return 2
    try:
        settings = stack_settings(arguments[0], dict(pair.partition("=")[::2] for pair in arguments[1:]))
        manifests = rendered(settings)
    except UnderstudyError as error:
        sys.stderr.write(f"understudy: {error}\n")
        return error.exit_code
    sys.stdout.writelines(f"# needs: {note}\n" for note in notes(settings))
    sys.stdout.write(as_yaml(manifests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
