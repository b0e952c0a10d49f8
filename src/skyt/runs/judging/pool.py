"""Programs are judged once each: what is remembered again never, the rest in this process or in several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now
from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.oracle.oracle import Verdict
from skyt.records import Sample
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import Assessor, prepare
from skyt.runs.judging.judges import Judges, Patience
from skyt.runs.judging.memory import Memory, key
from skyt.text.distance import get_distance

_FEW = 16  # programs for which other processes are not worth their start
_AT_ONCE = 500  # jobs that are looked up together
_NAMES = 20_000  # outputs of which it is known what program they hold

Job = tuple[Generation, Contract, Canon | None]


class JudgePool(AbstractContextManager["JudgePool"]):
    """Judges outputs of any of the contracts, in as many processes as there are workers."""

    def __init__(self, settings: MeasureConfig, contracts: Mapping[str, Contract], workers: int = 1) -> None:
        self.settings, self.workers = settings, workers
        self.distance = get_distance(settings.distance)
        self._contracts = contracts
        self._memory = Memory.from_environment()
        self._name = lru_cache(_NAMES)(self._name_of)
        self._assessor: Assessor | None = None
        self._processes: _Processes | None = None

    def __exit__(self, *exception: object) -> None:
        if self._processes is not None:
            self._processes.close()
        if self._assessor is not None:
            self._assessor.__exit__(None, None, None)
        self._memory.close()

    def sample(self, output: Generation, contract: Contract, canon: Canon | None) -> Sample:
        [(_, found)] = self.samples([(output, contract, canon)])
        return found

    def verdict(self, contract: Contract, text: str) -> Verdict:
        """What the oracle says of a normalised program."""
        name = key("verdict", contract.hash, text)
        known = self._memory.find([name])
        if name in known:
            return Verdict(**known[name])
        found = self._here().verdict(contract, text)
        self._memory.keep({name: found.to_json()})
        return found

    def samples(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Sample]]:
        """The sample of each job with the job's number, as they come."""
        todo: dict[str, list[int]] = {}
        for start in range(0, len(jobs), _AT_ONCE):
            some = range(start, min(start + _AT_ONCE, len(jobs)))
            names = [self._key(*jobs[number]) for number in some]
            known = self._memory.find(names)
            for number, name in zip(some, names, strict=True):
                if name in known:
                    yield number, _of(known[name], jobs[number][0])
                else:
                    todo.setdefault(name, []).append(number)
        for name, sample in self._judged({name: jobs[numbers[0]] for name, numbers in todo.items()}):
            self._memory.keep({name: _knowledge(sample)})
            for number in todo[name]:
                yield number, _of(sample.record, jobs[number][0])

    def _judged(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Sample]]:
        if self._processes is None and (self.workers == 1 or len(jobs) < _FEW):
            for name, (output, contract, canon) in jobs.items():
                yield name, self._here().judge_and_repair(output, contract, canon)
            return
        if self._processes is None:
            self._processes = _Processes(self.settings, self._contracts, self.workers)
        yield from self._processes.judged(jobs)

    def _here(self) -> Assessor:
        if self._assessor is None:
            self._assessor = Assessor(self.settings)
        return self._assessor

    def _key(self, output: Generation, contract: Contract, canon: Canon | None) -> str:
        return self._name(contract.id, output.raw_output, None if canon is None else canon.normalized_code)

    def _name_of(self, contract_id: str, raw: str, canon: str | None) -> str:
        """The name under which the sample of a program is remembered."""
        contract, chosen = self._contracts[contract_id], self.settings
        how = [chosen.evidence, chosen.inputs, chosen.seed, self.distance.id]
        return key("sample", contract.hash, prepare(raw, contract).text, canon, *how)


_OWN = ("model", "temperature", "sample", "raw_output")  # what belongs to an output, not to its program


def _knowledge(sample: Sample) -> dict[str, Any]:
    return {name: value for name, value in sample.record.items() if name not in _OWN}


def _of(record: Mapping[str, Any], output: Generation) -> Sample:
    """What is known of an output's program, as the sample of the output."""
    own = {name: getattr(output, name) for name in _OWN}
    return Sample({**record, **own}, utc_now())


class _Processes:
    """Judge processes and the thread that waits for them."""

    def __init__(self, settings: MeasureConfig, contracts: Mapping[str, Contract], workers: int) -> None:
        self._evidence = settings.evidence
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judges", daemon=True)
        self._thread.start()
        self._judges = Judges(settings, contracts, [settings.evidence], workers, Patience())
        try:
            self._submit(self._judges.start()).result()
        except BaseException:
            self.close()
            raise

    def judged(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Sample]]:
        waiting = {self._submit(self._judges.ask(self._request(*job))): name for name, job in jobs.items()}
        for done in as_completed(waiting):
            name, reply = waiting.pop(done), done.result()
            answer = reply.answer or {"refused": reply.why}
            if "failed" in answer:
                raise RuntimeError(answer["failed"])
            if "refused" in answer:
                problem = answer["refused"]
                raise UserError(f"an output of {jobs[name][1].id!r} could not be judged: {problem}")
            yield name, Sample(answer["sample"], answer["timestamp"])

    def close(self) -> None:
        self._submit(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._judges.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _request(self, output: Generation, contract: Contract, canon: Canon | None) -> dict[str, Any]:
        return {
            "task": "measure",
            "contract": contract.id,
            "evidence": self._evidence,
            "canon": None if canon is None else asdict(canon),
            "may_fix": False,
            "text": output.raw_output,
            "model": output.model,
            "temperature": output.temperature,
        }

    def _submit(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
