# A worker's whole way through a job of two servers, beside another worker: walk.py SCHEDULER SERVERS WORKERS. Writes
# what it found as one line of JSON.
import json
import sys
import threading
from typing import Any

import numpy as np

from client import CREATE, ROWS_PULL, ROWS_PUSH, TENSOR_PULL, TENSOR_PUSH, Worker
from conversation import Conversation, Failure, end
from wire import Signature, decode_fields, part_of


def walk(scheduler: str, servers: int, workers: int) -> None:
    worker = Worker(scheduler, servers, workers, rank=0)
    found: dict[str, Any] = {"rank": (worker.node - 9) // 2, "epoch": worker.placement["epoch"], "firstClock": worker.now}
    tensor = worker.tensor("w", [300, 1000], updates="sync", staleness=0, optimizer={"type": "sgd", "learningRate": 0.5})
    table = worker.table("e", 4)
    owners = worker.placement["owners"]
    found["servers"] = sorted(set(owners[part_of(tensor.keys)].tolist()))
    gradient = np.arange(300_000, dtype="f4").reshape(300, 1000) / 8
    tensor.push(gradient)
    keys = [2**64 - 1, 7, 0, 7]
    table.push(keys, np.arange(16).reshape(4, 4))
    found["ownRows"] = table.pull(keys).tolist()
    worker.clock()
    values = tensor.pull()  # waits until every worker has ended the clock
    found["tensor"] = {"first": float(values[0, 0]), "last": float(values[-1, -1]), "even": bool(np.all(values == -0.5 * workers * gradient))}
    found["together"] = together(worker, table)
    found["refused"] = refusals(worker, tensor, table)
    found["rowsAfter"] = table.pull([7]).tolist()

    many, rows = np.arange(150_000, dtype="u8") + np.uint64(2**40), np.arange(600_000, dtype="f4").reshape(-1, 4)
    breaking = threading.Thread(target=break_links, args=(worker,))
    breaking.start()
    for _ in range(5):
        table.push(many, rows)  # above what a frame holds, to each server, and so is the answer (A7, A8)
    breaking.join()
    found["many"] = bool(np.array_equal(table.pull(many), 5 * rows))
    found["told"] = told(worker)
    worker.clock()
    found["lastClock"] = worker.now
    worker.leave()
    print(json.dumps(found))


def together(worker: Worker, table: Any) -> dict[str, Any]:
    """A push, a read of what it pushed, one that cannot be, and another read, in one frame (A15); then one that another placement cut (A16)."""
    epoch, owners, some = worker.placement["epoch"], worker.placement["owners"], np.arange(2**41, 2**41 + 100, dtype="u8")
    server, keys = worker.servers[0], some[owners[part_of(some)] == 0][:2]
    push = table.next_push() | {"keys": keys, "gradients": np.arange(8)}
    read = table.common_fields() | {"keys": keys}
    calls = server.together([(ROWS_PUSH, push), (ROWS_PULL, read), (ROWS_PULL, read | {"parameter": 99}), (ROWS_PULL, read)], epoch)
    rows = [decode_fields(ROWS_PULL.response, calls[i].result())["values"].tolist() for i in (1, 3)]
    late = server.together([(ROWS_PUSH, table.next_push() | {"keys": keys, "gradients": np.ones(8)}), (ROWS_PULL, read)], epoch - 1)
    found = {"pushed": calls[0].result() == b"", "rows": rows, "failed": failure_of(calls[2].result).code}
    return found | {"late": [failure_of(call.result).code for call in late], "after": decode_fields(ROWS_PULL.response, server.call(ROWS_PULL, read, epoch).result())["values"].tolist()}


def told(worker: Worker) -> dict[str, Any]:
    """What servers tell this worker, over the links that it opened (A12), while those break; and what it does not serve, or describes otherwise."""
    told, sums = Signature("told{keys: u64[], values: f32[]} → {sum: f64}"), []
    tell = Signature("tell{worker: u32, count: u32, rowCount: u32} → {sum: f64, failure: string}", True)

    def take(keys: np.ndarray, values: np.ndarray) -> dict[str, Any]:
        sums.append(float(keys.sum()) + float(values.sum()))
        return {"sum": sums[-1]}

    def ask(rank: int, count: int, rows: int) -> Any:
        answer = decode_fields(tell.response, worker.servers[rank].call(tell, {"worker": 0, "count": count, "rowCount": rows}).result())
        return answer["failure"] or answer["sum"]

    found: dict[str, Any] = {"not served": ask(0, 1, 2)}
    worker.serve(Signature("told{keys: u64[]} → {}"), take)
    found["described otherwise"] = ask(0, 1, 2)
    worker.serve(told, take)
    breaking = threading.Thread(target=break_links, args=(worker,))
    breaking.start()
    found["by each server"] = [ask(0, 20, 2), ask(1, 2, 200_000)]  # the second in several frames (A7)
    breaking.join()
    found["runs"] = len(sums)
    return found


def break_links(worker: Worker) -> None:
    """Ends links in the middle of what they carry: they are dialed again, and the conversations go on (R13)."""
    for conversation in (worker.servers[0], worker.servers[1], worker.scheduler, worker.servers[0]):
        worker.is_done.wait(0.02)
        end(conversation.link)


def refusals(worker: Worker, tensor: Any, table: Any) -> dict[str, Any]:
    """What is refused, and with which code."""
    owner = int(worker.placement["owners"][part_of(tensor.keys)[0]])
    right, wrong, epoch = worker.servers[owner], worker.servers[1 - owner], worker.placement["epoch"]
    pull = tensor.common_fields() | {"block": 0, "rows": []}
    push = pull | {"pushNumber": tensor.push_count + 1, "scale": 1.0, "gradients": np.zeros(tensor.block)}
    some = np.arange(100, dtype="u8")
    row = table.common_fields() | {"keys": some[worker.placement["owners"][part_of(some)] == owner][:1]}
    bad_spec = {"kind": "tensor", "name": "x", "shape": [3], "initializer": {"type": "constant"}, "optimizer": {"type": "sum", "color": 1}, "updates": "async", "reduce": "sum"}
    unstamped = Signature(TENSOR_PUSH.text, False, True)
    tries: dict[str, tuple[Conversation, Signature, dict[str, Any], int]] = {
        "block of another server": (wrong, TENSOR_PULL, pull, epoch),
        "push to another server": (wrong, TENSOR_PUSH, push, epoch),
        "row of another server": (wrong, ROWS_PULL, row, epoch),
        "row pushed to another server": (wrong, ROWS_PUSH, row | {"pushNumber": table.push_count + 1, "scale": 1.0, "gradients": np.ones(4)}, epoch),
        "no stamp": (right, unstamped, push, epoch),
        "too few values": (right, TENSOR_PUSH, push | {"gradients": [1.0]}, epoch),
        "NaN": (right, TENSOR_PUSH, push | {"gradients": np.full(tensor.block, np.nan)}, epoch),
        "clock that is over": (right, TENSOR_PUSH, push | {"clock": 0}, epoch),
        "parameter that is not there": (right, ROWS_PULL, row | {"parameter": 99}, epoch),
        "rows of a tensor": (right, ROWS_PULL, row | {"parameter": tensor.number}, epoch),
        "no such function": (right, Signature("my/own{} → {}"), {}, 0),
        "another signature": (right, Signature("wb/tensor/pull{parameter: u32} → {}"), {"parameter": 1}, 0),
        "a spec that makes no sense": (right, CREATE, {"parameter": 50, "edition": 1, "spec": json.dumps(bad_spec)}, 0),
        "no epoch": (right, TENSOR_PULL, pull, 0),
    }
    found: dict[str, Any] = {what: failure_of(lambda: server.call(fn, fields, at).result()).code for what, (server, fn, fields, at) in tries.items()}
    outdated = failure_of(lambda: right.call(TENSOR_PULL, pull).result())
    found["placement told"] = [outdated.retryable, outdated.detail["epoch"]]
    found["another spec"] = failure_of(lambda: worker.table("e", 5)).code
    return found


def failure_of(call: Any) -> Failure:
    try:
        call()
    except Failure as failure:
        return failure
    raise AssertionError("it was not refused")


if __name__ == "__main__":
    walk(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
