"""A leader whose supervisor was killed: what its script has forked is killed before anybody leads; real processes throughout."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import boot_id, started_at
from understudy.protocol.driver_spec import HOLDER_VARIABLE
from understudy.supervisor.evidence import EvidenceWatch

#: A supervisor; a driver that dies with it; a child of the script's, in a session of its own, that does not.
LEADER = """
import os, subprocess, sys, time
from pathlib import Path
from understudy.processes import Alive
from understudy.protocol.driver_spec import HOLDER_VARIABLE
alive = Alive(Path(sys.argv[1]))
driver = '''
import os, time
from understudy.processes import die_with_parent
die_with_parent()
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
time.sleep(600)
'''
environment = {**os.environ, HOLDER_VARIABLE: Path(sys.argv[1]).name}
made = subprocess.Popen(
    [sys.executable, "-c", driver], env=environment, pass_fds=(alive.descriptor,), stdout=subprocess.PIPE, text=True
)
print(alive.inode, made.pid, made.stdout.readline(), flush=True)
time.sleep(600)
"""


@dataclass
class Leader:
    holder: str
    supervisor: subprocess.Popen[str]
    inode: int
    driver: int
    child: int

    @property
    def replica(self) -> Replica:
        return Replica(
            self.holder, "leader", False, "", 0, 0.0, "", "", 1, self.supervisor.pid, "here", self.inode, boot_id(), 0.0
        )


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    holder = str(uuid.uuid4())
    with subprocess.Popen(
        [sys.executable, "-c", LEADER, str(tmp_path / holder)], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        inode, driver, child = (int(word) for word in supervisor.stdout.readline().split())
        yield Leader(holder, supervisor, inode, driver, child)
        for pid in (supervisor.pid, driver, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def watched(directory: Path, leader: Leader, seconds: float) -> bool:
    """Whether the watch reports the leader's death; a process of the leader's that lives for ever is waited for that long."""
    replicas = ReplicaStore(MemoryDocumentStore(MemoryServer()), "flights-replicas")
    await replicas.join("flights")
    await replicas.publish(leader.replica)
    dead = asyncio.Event()
    watch = EvidenceWatch(directory, replicas, lambda: leader.holder, lambda _: dead.set())
    running = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(dead.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        running.cancel()
    return True


def test_a_dead_supervisors_children_are_killed_and_its_death_is_known_at_once(tmp_path: Path, leader: Leader) -> None:
    leader.supervisor.kill()
    leader.supervisor.wait()
    assert asyncio.run(watched(tmp_path, leader, 60.0))
    give_up = time.monotonic() + 60
    while started_at(leader.child) is not None:  # it has closed its files, and so is as good as dead, a moment before
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{leader.holder}.dead"]


def test_a_frozen_supervisor_is_not_dead_and_loses_no_process(tmp_path: Path, leader: Leader) -> None:
    leader.supervisor.send_signal(signal.SIGSTOP)
    assert not asyncio.run(watched(tmp_path, leader, 1.0))
    assert started_at(leader.driver) is not None
    assert started_at(leader.child) is not None


def test_whoever_watches_is_not_killed_for_the_mark_it_inherited(tmp_path: Path, leader: Leader) -> None:
    """A replica that was started by the script of the dead one."""
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from understudy.processes import kill_orphans\n"
        "print(kill_orphans(sys.argv[1]), flush=True)\n"
    )
    leader.supervisor.kill()
    leader.supervisor.wait()
    ended = subprocess.run(
        [sys.executable, "-c", script, leader.holder],
        env={**os.environ, HOLDER_VARIABLE: leader.holder},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert int(ended.stdout) >= 1
    assert tmp_path.is_dir()
