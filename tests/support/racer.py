"""Processes, each with its own service on a shared database, racing for a new canon.

    python racer.py UPSTREAM_URL PROCESSES REQUESTS DATABASE…

One line of output per process: the answers that it got, by database.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import httpx

from homeostat.core.resources import resource
from skyt.contracts.contract import Contract, read_contract
from skyt.serve.config import ServeConfig
from skyt.serve.service import Service
from skyt.serve.web.app import create_app


async def ask_all(service: Service, number: int, requests: int) -> list[dict[str, Any]]:
    await service.start()
    together = asyncio.Semaphore(10)
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=120) as client:

        async def ask(turn: int) -> dict[str, Any]:
            async with together:
                body = {
                    "model": "skyt/gcd",
                    "messages": [{"role": "user", "content": "?"}],
                    "user": f"p{number}_{turn}",
                }
                response = await client.post("/v1/chat/completions", json=body)
                answer = response.json()
                return {
                    "status": response.status_code,
                    "skyt": answer.get("skyt"),
                    "choices": answer["choices"],
                }

        answers = await asyncio.gather(*(ask(turn) for turn in range(requests)))
    await service.stop()
    return list(answers)


def race(
    barrier: Barrier,
    contract: Contract,
    upstream: str,
    answers: Connection,
    number: int,
    requests: int,
    databases: list[str],
) -> None:
    found = []
    for database in databases:
        config = ServeConfig.model_validate(
            {
                "database": database,
                "judges": 1,
                "limits": {"judge_busy_s": 30.0, "slow_judges": 0},  # what races is the canon, not the judges
                "canons_from": "anyone",
                "upstream": {"kind": "http", "base_url": upstream, "model": "scripted"},
            }
        )
        service = Service(config, {"gcd": contract})
        barrier.wait()
        found.append(asyncio.run(ask_all(service, number, requests)))
    answers.send(found)


def main() -> None:
    upstream, processes, requests, *databases = sys.argv[1:]
    contract = read_contract(resource("contracts/gcd.yaml"))
    context = multiprocessing.get_context("fork")  # one import for all
    barrier = context.Barrier(int(processes))
    racers, inboxes = [], []
    for number in range(int(processes)):
        inbox, outbox = context.Pipe(duplex=False)
        arguments = (barrier, contract, upstream, outbox, number, int(requests), databases)
        racers.append(context.Process(target=race, args=arguments))
        racers[-1].start()
        outbox.close()
        inboxes.append(inbox)
    try:
        for inbox in inboxes:  # one writer to standard output: long lines of several would mix
            sys.stdout.write(json.dumps(inbox.recv()) + "\n")
    except EOFError:  # one has died: the others would wait for ever to be heard
        for racer in racers:
            racer.kill()
        raise


if __name__ == "__main__":
    main()
