"""A slow link: what goes to a server on this machine arrives later, as it would from another region; connections stay open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def slow_link(port: int, delay_s: float) -> Iterator[int]:
    """A port behind which the server on ``port`` answers ``delay_s`` later; as much goes through at a time as without it.

    A request that is answered at once takes ``delay_s``, and so does a new connection's first one: a real link would take another
    round trip to connect, and this one does not.
    """
    with asyncio.Runner() as runner:  # which cancels what is still served
        loop = runner.get_loop()
        server = runner.run(
            asyncio.start_server(lambda reader, writer: _serve(reader, writer, port, delay_s), "127.0.0.1", 0)
        )
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()


async def _serve(client: asyncio.StreamReader, back: asyncio.StreamWriter, port: int, delay_s: float) -> None:
    with suppress(OSError, asyncio.CancelledError):  # Python 3.11's streams report a cancelled task as a defect
        answers, forth = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass(client, forth, delay_s))
            both.create_task(_pass(answers, back, 0.0))


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float) -> None:
    """Each part is written ``delay_s`` after it was read, in order, while the next ones are read."""
    clock = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

    async def write() -> None:
        while True:
            due, part = await waiting.get()
            await asyncio.sleep(max(0.0, due - clock.time()))
            if not part:
                break
            sink.write(part)
            await sink.drain()
        sink.close()

    async def read() -> None:
        part = b"-"
        while part:
            part = await source.read(65536)
            await waiting.put((clock.time() + delay_s, part))

    with suppress(OSError):
        await asyncio.gather(write(), read())
