"""One of many processes that count up one document: ``python -m e2e.harness.racing_writer NAMESPACE SHAPE NAME WHO ROUNDS``."""

from __future__ import annotations

import asyncio
import json
import sys

from e2e.harness.documents import PATIENT, SHAPES
from tests.contract.worker import Win, race
from understudy.documents.api_server import ApiServer
from understudy.documents.kubernetes import KubernetesDocumentStore


async def main(namespace: str, shape: str, name: str, who: str, rounds: int) -> list[Win]:
    async with await ApiServer.connect(PATIENT, namespace) as api:
        return await race(KubernetesDocumentStore(api, SHAPES[shape]), name, who, rounds)


if __name__ == "__main__":
    namespace, shape, name, who, rounds = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(main(namespace, shape, name, who, int(rounds)))))
