"""What a type checker sees of the public names: `make lint` fails here if one of them is `Any`."""

from typing import Any, assert_type

import skyt
from cachemedicpp import Guard, KVState, Repair, load_repair, medic
from cachemedicpp.repair.base import RepairReport


def state(model: Any, cache: Any) -> None:
    assert_type(Guard(model), Guard)
    assert_type(KVState(cache).length, int)
    assert_type(load_repair("op", model), Repair)
    assert_type(load_repair("op").repair_cache(cache), RepairReport)
    with medic(model) as session:
        assert_type(session.repair, Repair | None)


def output(generate: Any) -> None:
    assert_type(skyt.wrap(generate, contract="gcd"), skyt.Wrapped)
    assert_type(skyt.wrap(generate, contract="gcd").sample().canonical, bool)
