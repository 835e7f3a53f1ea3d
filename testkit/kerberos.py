"""A KDC of MIT's for tests, with one realm, and a ZooKeeper server that lets its users in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.ports import ports
from testkit.s3 import Missing, NotStarted
from testkit.zookeeper import Server, configure, jars

REALM = "TESTS"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
#: Names are taken as they are written: a resolver would make another one of localhost.
_CLIENT = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVER = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  database_module = tests
 }}
[dbmodules]
 tests = {{
  db_library = db2
  database_name = {directory}/principal
 }}
 {modules}
"""


@dataclass(frozen=True, slots=True)
class Kdc:
    directory: Path
    programs: dict[str, str]

    @property
    def configuration(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Of a client without a ticket."""
        return {"KRB5_CONFIG": str(self.configuration), "KRB5CCNAME": f"FILE:{self.directory}/no-ticket"}

    def ticket(self, user: str) -> dict[str, str]:
        """The environment of a client with one."""
        told = {**self.environment, "KRB5CCNAME": f"FILE:{self.directory}/ticket-of-{user}"}
        self.run("kadmin.local", "-q", f"addprinc -pw a-secret {user}")
        self.run("kinit", user, text="a-secret\n", environment=told)
        return told

    def keytab(self, principal: str) -> Path:
        path = self.directory / "keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def run(self, program: str, *words: str, text: str = "", environment: dict[str, str] | None = None) -> None:
        """Raises ``NotStarted`` for one that cannot do it."""
        own = {**self.environment, "KRB5_KDC_PROFILE": f"{self.directory}/kdc.conf", **(environment or {})}
        told = [self.programs[program], *words]
        done = subprocess.run(
            told, input=text, env={**os.environ, **own}, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise NotStarted(f"{program} failed: {done.stderr.strip()}")


@contextmanager
def kdc(directory: Path) -> Iterator[Kdc]:
    """Raises ``Missing`` and ``NotStarted``."""
    found = {each: shutil.which(each, path=_PATH) for each in _PROGRAMS}
    programs = {each: path for each, path in found.items() if path}
    if len(programs) < len(found):
        raise Missing("there is no Kerberos server: apt-get install krb5-kdc krb5-admin-server krb5-user")
    made = Kdc(directory, programs)
    directory.mkdir(parents=True)
    with ports(1) as (port,), ExitStack() as stack:
        made.configuration.write_text(_CLIENT.format(realm=REALM, port=port))
        # where they were only unpacked, they look for what they load where they were not installed
        unpacked = next(Path(programs["krb5kdc"]).parents[1].glob("lib/*/krb5/plugins/kdb"), None)
        modules = f"db_module_dir = {unpacked}" if unpacked else ""
        (directory / "kdc.conf").write_text(
            _SERVER.format(realm=REALM, port=port, directory=directory, modules=modules)
        )
        made.run("kdb5_util", "create", "-s", "-P", "a-master-key", "-r", REALM)
        log = stack.enter_context((directory / "log").open("wb"))
        profile = {"KRB5_KDC_PROFILE": f"{directory}/kdc.conf"}
        server = subprocess.Popen(
            [programs["krb5kdc"], "-n"], env={**os.environ, **made.environment, **profile}, stdout=log, stderr=log
        )
        try:
            _listening(port, server)
            yield made
        finally:
            server.kill()
            server.wait()


def _listening(port: int, server: subprocess.Popen[bytes], within: float = 30) -> None:
    end = time.monotonic() + within
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise NotStarted("the Kerberos server did not start") from None
            time.sleep(0.05)
        else:
            return


@contextmanager
def kerberized(directory: Path, java: str, made: Kdc, service: str) -> Iterator[str]:
    """A server that is no ensemble, for users of the realm; where it is. Raises ``Missing`` and ``NotStarted``."""
    jars()
    home, principal = directory / "server", f"{service}/localhost"
    keytab = made.keytab(principal)
    with ports(1) as (port,):
        settings = f"clientPort={port}\nclientPortAddress=127.0.0.1\n"
        configure(home, 1, settings, home=str(home), user="", password="")
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false"
        (home / "jaas.conf").write_text(
            f'Server {{ {module} useTicketCache=false keyTab="{keytab}" principal="{principal}@{REALM}"; }};\n'
        )
        with Server(1, home, port, java, (f"-Djava.security.krb5.conf={made.configuration}",)).alone():
            yield f"localhost:{port}"
