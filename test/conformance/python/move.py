# A worker that pushes on while parts of its parameters change hands: move.py SCHEDULER SERVERS EPOCH. Goes on until the
# placement of that epoch is there, and then acts once as if it had not heard of it. Writes what it found as one line of
# JSON.
import json
import sys
import time
from typing import Any

import numpy as np

from client import Worker

KEYS = np.arange(2000, dtype="u8") * np.uint64(2**53 + 1)


class CountingWorker(Worker):
    """Counts the requests that were refused with a placement, and the placements that clocks were held for."""
    refused, prepared = 0, 0

    def _take_placement(self, placement: dict[str, Any] | None) -> None:
        self.refused += placement is not self.roster.get("placement")
        super()._take_placement(placement)

    def _hold_clock(self, body: dict[str, Any]) -> None:
        self.prepared += 1
        super()._hold_clock(body)


def move(scheduler: str, servers: int, last_epoch: int) -> None:
    worker = CountingWorker(scheduler, servers, 1)
    tensor, table = worker.tensor("w", [1_000_000], updates="sync", staleness=0), worker.table("e", 2)
    steps = (lambda: tensor.push(np.ones(1_000_000)), lambda: table.push(KEYS, np.ones((len(KEYS), 2))), worker.clock)
    first, clocks, epochs, until = worker.placement, 0, {1}, time.monotonic() + 30
    print("ready", flush=True)
    while (worker.placement["epoch"] < last_epoch or clocks < 10) and time.monotonic() < until:
        for step in steps:
            step()
        clocks += 1
        epochs.add(worker.placement["epoch"])
    refused = worker.refused
    for step in steps:
        worker.placement = first  # as if no roster had told of another
        step()
    right = bool(np.all(table.pull(KEYS) == clocks + 1)) and bool(np.all(tensor.pull() == clocks + 1))
    found = {"lastEpoch": worker.placement["epoch"], "hasMoved": len(epochs) > 1, "refused": worker.refused - refused > 2, "right": right}
    worker.leave()
    print(json.dumps(found | {"prepared": worker.prepared}))


if __name__ == "__main__":
    move(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
