"""A worker's whole way through a job: python3 walk.py SCHEDULER SERVERS WORKERS. Writes what it found as one line of JSON."""
import json
import sys

import numpy as np

import client as wb
from wire import Failed, part_of


def refusal(call):
    """The failure of a call that must fail."""
    try:
        call()
    except Failed as failure:
        return failure
    raise AssertionError("it was not refused")


def walk(scheduler, servers, workers):
    worker = wb.Worker(scheduler, servers, workers, rank=0)
    found = {"rank": worker.rank, "epoch": worker.epoch, "firstClock": worker.clock}

    tensor = worker.tensor("w", [300, 1000], updates="sync", staleness=0, optimizer={"type": "sgd", "learningRate": 0.5})
    table = worker.table("e", 4)
    found["servers"] = sorted(set(worker.owners[part_of(tensor.keys)].tolist()))
    gradient = np.arange(300_000, dtype=np.float32).reshape(300, 1000) / 8
    tensor.push(gradient)
    keys = [2**64 - 1, 7, 0, 7]
    table.push(keys, np.arange(16).reshape(4, 4))
    found["ownRows"] = table.pull(keys).tolist()
    worker.end_clock()
    values = tensor.pull()  # waits until every worker has ended the clock
    found["tensor"] = {"first": float(values[0, 0]), "last": float(values[-1, -1]), "even": bool(np.all(values == -0.5 * workers * gradient))}

    owner = int(worker.owners[part_of(tensor.keys)[0]])
    other = worker.servers[next(rank for rank in worker.ranks if rank != owner)]
    pull = {"parameter": tensor.parameter, "block": 0, "clock": worker.clock}
    found["wrongOwner"] = refusal(other.call(wb.TENSOR_PULL, pull, worker.epoch)).code
    row = np.array([7], np.uint64)
    stranger = worker.servers[next(rank for rank in worker.ranks if rank != int(worker.owners[part_of(row)[0]]))]
    push = {**worker.push_fields(table.parameter), "keys": row, "gradients": [1, 1, 1, 1]}
    found["wrongOwnerOfRow"] = refusal(stranger.call(wb.ROWS_PUSH, push, worker.epoch)).code
    outdated = refusal(other.call(wb.TENSOR_PULL, pull))
    found["noEpoch"] = [outdated.code, outdated.retryable, outdated.detail["epoch"]]
    found["stale"] = refusal(worker.servers[owner].call(wb.TENSOR_PUSH, {**pull, "clock": 0, "pushNumber": 9, "scale": 1, "gradients": gradient.reshape(-1)[: tensor.block]}, worker.epoch)).code
    found["unknown"] = refusal(other.call("wb/no/such{} → {}", {})).code
    found["otherSignature"] = refusal(other.call("wb/tensor/pull{parameter: u32} → {}", {"parameter": 1})).code
    found["otherSpec"] = refusal(lambda: worker.table("e", 5)).code
    found["rowsAfter"] = table.pull([7]).tolist()

    many, rows = np.arange(150_000, dtype=np.uint64) + np.uint64(2**40), np.arange(600_000, dtype=np.float32).reshape(-1, 4)
    table.push(many, rows)  # above what a frame holds, to each server, and so is the answer [A7, A8]
    found["many"] = bool(np.array_equal(table.pull(many), rows))

    worker.end_clock()
    found["lastClock"] = worker.clock
    worker.leave()
    print(json.dumps(found))


if __name__ == "__main__":
    walk(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
