"""A worker that pushes on while parts of its parameters change hands: python3 move.py SCHEDULER SERVERS EPOCH. Goes on until the placement of that epoch is there, and
then acts once as if it had not heard of it. Writes what it found as one line of JSON."""
import json
import sys
import time

import numpy as np

import client as wb

KEYS = np.arange(2000, dtype=np.uint64) * np.uint64(2**53 + 1)


def move(scheduler, servers, last_epoch):
    worker = wb.Worker(scheduler, servers, 1)
    tensor, table = worker.tensor("w", [1_000_000], updates="sync", staleness=0), worker.table("e", 2)
    first, pushes, epochs = (worker.owners, worker.ranks, worker.epoch), 0, {worker.epoch}
    print("ready", flush=True)
    until = time.monotonic() + 30
    while (worker.epoch < last_epoch or pushes < 10) and time.monotonic() < until:
        tensor.push(np.ones(1_000_000, np.float32))
        table.push(KEYS, np.ones((len(KEYS), 2), np.float32))
        worker.end_clock()
        pushes += 1
        epochs.add(worker.epoch)
    refused = worker.refused
    for push in (lambda: tensor.push(np.ones(1_000_000, np.float32)), lambda: table.push(KEYS, np.ones((len(KEYS), 2), np.float32)), worker.end_clock):
        worker.owners, worker.ranks, worker.epoch = first  # as if no roster had told of another
        push()
    pushes += 1
    rows, values = table.pull(KEYS), tensor.pull()
    right = bool(np.all(rows == pushes)) and bool(np.all(values == pushes))
    worker.leave()
    print(json.dumps({"lastEpoch": worker.epoch, "hasMoved": len(epochs) > 1, "refused": worker.refused - refused > 2, "right": right}))


if __name__ == "__main__":
    move(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
