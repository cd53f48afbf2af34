// Goal: operations among workers give the same bits everywhere, whatever their lengths and the number of members; what
// one member does wrong, and what happens to one, is known to all by name; and memory that was given back is not
// touched.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { type LogFields, SILENT_LOG } from "../base/log.ts";
import { MemoryCluster } from "../testing/memory-cluster.ts";
import { SimCluster, type SimClusterOptions } from "../testing/sim-cluster.ts";
import { meshOf } from "../testing/start-office.ts";
import { DIRECT_BYTES_MAX, OPERATIONS_OPEN_MAX, PART_BYTES } from "../wire/collective-frame.ts";
import { idOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { Collective } from "./collective.ts";

const DIRECT_FLOATS = DIRECT_BYTES_MAX / 4;
const PART_FLOATS = PART_BYTES / 4;
/** So slow that an operation of some parts takes seconds. */
const SLOW = { latencyMsMin: 1, latencyMsMax: 1, bytesPerMs: 100, windowBytes: 4096 };

class Workers {
  readonly cluster: SimCluster;
  readonly count: number;
  collectives: Collective[] = [];

  constructor(count: number, options: Partial<SimClusterOptions> = {}) {
    this.count = count;
    this.cluster = new SimCluster({ seed: 7, serverCount: 0, workerCount: count, heartbeatTimeoutMs: 1000, ...options });
  }

  static async start(count: number, options: Partial<SimClusterOptions> = {}): Promise<Workers> {
    const workers = new Workers(count, options);
    await workers.cluster.start();
    workers.collectives = await workers.all((rank) => workers.open(rank));
    return workers;
  }

  async open(rank: number, timeoutMs?: number): Promise<Collective> {
    return await Collective.open(meshOf(this.cluster.worker(rank)), { timeoutMs });
  }

  at(rank: number): Collective {
    return this.collectives[rank] as Collective;
  }

  async all<T>(call: (rank: number) => Promise<T>): Promise<T[]> {
    return await this.cluster.run(Promise.all(Array.from({ length: this.count }, (_, rank) => call(rank))));
  }

  /** What became of each call. */
  async outcomes(calls: readonly Promise<unknown>[]): Promise<string[]> {
    const settled = await this.cluster.run(Promise.allSettled(calls));
    return settled.map((outcome) =>
      outcome.status === "fulfilled"
        ? "ok"
        : isWeighbridgeError(outcome.reason)
          ? `${outcome.reason.code} ${outcome.reason.message}`
          : String(outcome.reason),
    );
  }

  /** Within `all`. */
  async sleepAt(rank: number, seconds: number): Promise<void> {
    await new Promise<void>((wake) => this.cluster.clock.after(1000 * seconds + rank, wake));
  }

  async sleep(ms: number): Promise<void> {
    await this.cluster.run(new Promise<void>((wake) => this.cluster.clock.after(ms, wake)));
  }
}

function valuesOf(rank: number, length: number): Float32Array {
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = Math.fround(Math.sin(i + 1) * 10 ** ((i + rank) % 5));
  return values;
}

/** In the order that the protocol promises. */
function sumOf(count: number, length: number): Float32Array {
  const all = Array.from({ length: count }, (_, rank) => valuesOf(rank, length));
  return Float32Array.from({ length }, (_, i) => {
    let segment = 0;
    while (length > DIRECT_FLOATS && Math.floor((length * (segment + 1)) / count) <= i) segment++;
    let sum = all[segment]?.[i] as number;
    for (let k = 1; k < count; k++) sum = Math.fround(sum + (all[(segment + k) % count]?.[i] as number));
    return sum;
  });
}

function assertBits(actual: Float32Array, expected: Float32Array, what: string): void {
  assert.ok(Buffer.from(actual.buffer).equals(Buffer.from(expected.buffer)), what);
}

test("sums have the same bits at every member, in the promised order, for any length and 1, 2, 3, 5 and 8 members", async () => {
  const lengths = [0, 1, 2, 3, 7, 1000, DIRECT_FLOATS, DIRECT_FLOATS + 1, DIRECT_FLOATS + 13, 3 * PART_FLOATS + 5];
  for (const count of [1, 2, 3, 5, 8]) {
    const workers = await Workers.start(count);
    for (const length of lengths) {
      const expected = sumOf(count, length);
      const sums = await workers.all(async (rank) => {
        const values = valuesOf(rank, length);
        await workers.at(rank).allReduce(values);
        return values;
      });
      for (const [rank, sum] of sums.entries()) assertBits(sum, expected, `${length} floats at worker ${rank} of ${count}`);
    }
    await workers.cluster.finalize();
  }
});

test("operations that are open together, more than may be, end as if each had been alone", async () => {
  const workers = await Workers.start(3);
  const lengths = Array.from({ length: 3 * OPERATIONS_OPEN_MAX }, (_, i) => (i % 7 === 0 ? DIRECT_FLOATS + i : i));
  const sums = await workers.all(async (rank) => {
    const arrays = lengths.map((length) => valuesOf(rank, length));
    await Promise.all(arrays.map((values) => workers.at(rank).allReduce(values)));
    return arrays;
  });
  for (const arrays of sums) for (const [i, values] of arrays.entries()) assertBits(values, sumOf(3, lengths[i] as number), `sum ${i}`);
});

test("a member that is late finds what the others have sent, and they wait for it", async () => {
  const workers = await Workers.start(2);
  const early = valuesOf(0, 20 * PART_FLOATS);
  const first = workers.at(0).allReduce(early);
  await workers.sleep(5000);
  const late = valuesOf(1, 20 * PART_FLOATS);
  assert.deepEqual(await workers.outcomes([first, workers.at(1).allReduce(late)]), ["ok", "ok"]);
  assertBits(early, sumOf(2, 20 * PART_FLOATS), "the early one");
  assertBits(late, early, "the late one");
});

test("an exchange brings each member what was meant for it, empty parts and its own among them", async () => {
  const workers = await Workers.start(3);
  const part = (from: number, to: number): Uint8Array => new Uint8Array(from === 1 ? 0 : PART_BYTES * to + from).fill(10 * from + to);
  const received = await workers.all((rank) => workers.at(rank).exchange([0, 1, 2].map((to) => part(rank, to))));
  for (const [rank, parts] of received.entries()) assert.deepEqual(parts, [part(0, rank), part(1, rank), part(2, rank)]);
});

test("a broadcast makes one member's values everybody's", async () => {
  const workers = await Workers.start(3);
  for (const length of [0, 5, 2 * PART_FLOATS + 1]) {
    const arrays = [0, 1, 2].map((rank) => valuesOf(rank, length));
    await workers.all((rank) => workers.at(rank).broadcast(arrays[rank] as Float32Array, 1));
    for (const values of arrays) assertBits(values, valuesOf(1, length), `${length} floats`);
  }
});

test("arguments are checked before anything is sent", async () => {
  const workers = await Workers.start(2);
  const collective = workers.at(0);
  const calls = [
    collective.allReduce([1, 2] as unknown as Float32Array),
    collective.exchange([new Uint8Array(1)]),
    collective.exchange([new Uint8Array(1), "x" as unknown as Uint8Array]),
    collective.broadcast(new Float32Array(1), 2),
    collective.allReduce(new Float32Array(1), { timeoutMs: -1 }),
  ];
  for (const outcome of (await workers.outcomes(calls)).slice(0, 4)) assert.match(outcome, /^BAD_ARGUMENT/);
});

test("members that call different operations or lengths are told on both sides what differs, and the others too", async () => {
  const workers = await Workers.start(3);
  const outcomes = await workers.outcomes([
    workers.at(0).allReduce(new Float32Array(5)),
    workers.at(1).allReduce(new Float32Array(6)),
    workers.at(2).allReduce(new Float32Array(5)),
  ]);
  for (const outcome of outcomes)
    assert.match(
      outcome,
      /^SPEC_MISMATCH .*operation 1 .*an all-reduce of \d floats at worker \d and an all-reduce of \d floats at worker/,
    );
  await workers.all((rank) => workers.at(rank).reform());
  const kinds = await workers.outcomes([
    workers.at(0).broadcast(new Float32Array(5), 0),
    workers.at(1).exchange([0, 1, 2].map(() => new Uint8Array(1))),
    workers.at(2).broadcast(new Float32Array(5), 1),
  ]);
  for (const outcome of kinds) assert.match(outcome, /^SPEC_MISMATCH/);
  await workers.all((rank) => workers.at(rank).reform());
  assert.deepEqual(await workers.outcomes([0, 1, 2].map((rank) => workers.at(rank).allReduce(new Float32Array(5)))), ["ok", "ok", "ok"]);
});

test("when a member dies, what is open fails everywhere by its name within the detection time, and the others go on", async () => {
  const workers = await Workers.start(3, { network: SLOW });
  const { cluster } = workers;
  const calls = [0, 1].map((rank) => workers.at(rank).allReduce(valuesOf(rank, 4 * PART_FLOATS)));
  workers
    .at(2)
    .allReduce(valuesOf(2, 4 * PART_FLOATS))
    .catch(() => {}); // it dies with its node
  await workers.sleep(300);
  const killedAtMs = cluster.clock.nowMs();
  cluster.kill(idOf("worker", 2));
  for (const outcome of await workers.outcomes(calls)) assert.match(outcome, /^NODE_DEAD .*worker 2/);
  assert.ok(cluster.clock.nowMs() - killedAtMs < 1500, `known after ${cluster.clock.nowMs() - killedAtMs} ms`);
  await cluster.run(Promise.all([0, 1].map((rank) => workers.at(rank).reform())));
  assert.deepEqual(workers.at(0).members, [0, 1]);
  assert.equal(workers.at(0).generation, 2);
  const arrays = [0, 1].map((rank) => valuesOf(rank, 9));
  await cluster.run(Promise.all(arrays.map((values, rank) => workers.at(rank).allReduce(values))));
  assertBits(arrays[0] as Float32Array, sumOf(2, 9), "the sum of two");
});

test("a worker that was restarted waits until the others let it in, with its old rank", async () => {
  const workers = await Workers.start(3);
  const { cluster } = workers;
  cluster.kill(idOf("worker", 1));
  await cluster.run(cluster.startNode(idOf("worker", 1)));
  assert.match((await workers.outcomes([workers.at(0).allReduce(new Float32Array(3))]))[0] ?? "", /^NODE_DEAD .*worker 1/);
  await cluster.run(Promise.all([0, 2].map((rank) => workers.at(rank).reform())));
  assert.deepEqual(workers.at(0).members, [0, 2]);
  assert.deepEqual(workers.at(0).newcomers, []);
  const opening = workers.open(1);
  await workers.sleep(500);
  assert.deepEqual(workers.at(0).newcomers, [1]);
  const [reopened] = await cluster.run(Promise.all([opening, ...[0, 2].map((rank) => workers.at(rank).reform())]));
  assert.deepEqual([reopened.members, reopened.generation, workers.at(2).members], [[0, 1, 2], 3, [0, 1, 2]]);
});

test("a worker that was taken for dead and is heard of again learns that its generation is over, although it only listens", async () => {
  const workers = await Workers.start(3);
  const { cluster } = workers;
  const waiting = workers.at(2).broadcast(new Float32Array(4), 0);
  cluster.network.isolate(cluster.hostOf(idOf("worker", 2)));
  await workers.sleep(2000);
  await cluster.run(Promise.all([0, 1].map((rank) => workers.at(rank).reform())));
  assert.deepEqual(workers.at(0).members, [0, 1]);
  cluster.network.heal();
  assert.match((await workers.outcomes([waiting]))[0] ?? "", /^NODE_DEAD .*worker 2/);
  await cluster.run(Promise.all([0, 1, 2].map((rank) => workers.at(rank).reform())));
  assert.deepEqual(workers.at(2).members, [0, 1, 2]);
});

test("the scheduler may be restarted while workers reduce, and while they gather", async () => {
  const workers = await Workers.start(2);
  const { cluster } = workers;
  cluster.kill(SCHEDULER_ID);
  const arrays = [0, 1].map((rank) => valuesOf(rank, DIRECT_FLOATS + 1));
  await workers.all((rank) => workers.at(rank).allReduce(arrays[rank] as Float32Array));
  assertBits(arrays[0] as Float32Array, sumOf(2, DIRECT_FLOATS + 1), "without a scheduler");
  const first = workers.at(0).reform();
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.run(Promise.all([first, workers.at(1).reform()]));
  assert.deepEqual([workers.at(0).generation, workers.at(1).generation], [2, 2]);
});

test("what a caller writes to its array after a failure reaches nobody", async () => {
  const workers = await Workers.start(2, { network: SLOW });
  const sent = valuesOf(0, 2 * PART_FLOATS);
  const received = new Float32Array(sent.length);
  const calls = [workers.at(0).broadcast(sent, 0), workers.at(1).broadcast(received, 0)];
  await workers.sleep(200);
  const reforms = [workers.at(0).reform()];
  assert.match((await workers.outcomes(calls.slice(0, 1)))[0] ?? "", /^ABORTED/);
  sent.fill(NaN);
  assert.match((await workers.outcomes(calls.slice(1)))[0] ?? "", /^ABORTED .*worker 0 has left generation 1/);
  await workers.cluster.run(Promise.all([...reforms, workers.at(1).reform()]));
  assert.ok(!received.some(Number.isNaN), "nothing of what was written later");
});

test("nothing lands in an array after its operation has failed", async () => {
  const workers = await Workers.start(2, { network: SLOW });
  const sent = valuesOf(0, 2 * PART_FLOATS);
  const received = new Float32Array(sent.length);
  const calls = [workers.at(0).broadcast(sent, 0), workers.at(1).broadcast(received, 0)];
  await workers.sleep(1000);
  assert.ok(received[0] !== 0, "it has begun to land");
  const reforms = [workers.at(1).reform()];
  received.fill(7);
  await workers.outcomes(calls);
  await workers.cluster.run(Promise.all([...reforms, workers.at(0).reform()]));
  await workers.sleep(10_000);
  assert.ok(received.every((value) => value === 7));
});

test("a member that has done its share and leaves the job fails nobody's operation, only later ones", async () => {
  let unfinishedCount = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const workers = await Workers.start(3, { seed, network: { latencyMsMin: 0, latencyMsMax: 30 } });
    const { cluster } = workers;
    const calls = [0, 1, 2].map((rank) => workers.at(rank).allReduce(valuesOf(rank, DIRECT_FLOATS + 1)));
    let isFirstDone = false;
    void calls[0]?.then(() => {
      isFirstDone = true;
    });
    await cluster.run(calls[1] as Promise<void>);
    if (!isFirstDone) {
      unfinishedCount++;
      // Its last part comes from there.
      cluster.network.partition(cluster.hostOf(idOf("worker", 0)), cluster.hostOf(idOf("worker", 2)));
    }
    const leaving = workers.at(1).close();
    await cluster.run(leaving.then(() => cluster.worker(1).finalize({ barrier: false })));
    await workers.sleep(200); // the others know
    cluster.network.heal();
    assert.deepEqual(await workers.outcomes(calls), ["ok", "ok", "ok"], `seed ${seed}`);
    const later = await workers.outcomes([0, 2].map((rank) => workers.at(rank).allReduce(new Float32Array(1))));
    for (const outcome of later) assert.match(outcome, /^(CLOSED|NODE_DEAD) worker 1 has/);
    await cluster.run(Promise.all([0, 2].map((rank) => workers.at(rank).reform())));
    assert.deepEqual(workers.at(0).members, [0, 2]);
  }
  assert.ok(unfinishedCount > 0, "no seed in which somebody was not done yet");
});

test("who waits for workers that do not come is told their names, and waits again later", async () => {
  const workers = new Workers(3);
  await workers.cluster.start();
  const [outcome] = await workers.outcomes([workers.open(1, 500)]);
  assert.match(outcome ?? "", /^DEADLINE waited 500 ms for worker 0, worker 2 /);
  workers.collectives = await workers.all((rank) => workers.open(rank));
  const [late] = await workers.outcomes([workers.at(2).reform({ timeoutMs: 300 })]);
  assert.match(late ?? "", /^DEADLINE waited 300 ms for worker 0, worker 1 /);
  const [alone] = await workers.outcomes([workers.at(0).allReduce(new Float32Array(1), { timeoutMs: 200 })]);
  assert.match(alone ?? "", /^(DEADLINE .*worker 1, worker 2|ABORTED .*worker 2)/);
  await workers.all((rank) => workers.at(rank).reform());
  assert.deepEqual(workers.at(0).members, [0, 1, 2]);
});

test("a wait that ends names the members that are behind", async () => {
  const workers = await Workers.start(3);
  const calls = [0, 1].map((rank) => workers.at(rank).allReduce(new Float32Array(4), { timeoutMs: 100 }));
  assert.match((await workers.outcomes(calls))[0] ?? "", /^DEADLINE waited 100 ms for an all-reduce of 4 floats: parts from worker 2$/);
});

test("a closed collective, and a closed node, end what is open", async () => {
  const workers = await Workers.start(2);
  const first = workers.at(0).allReduce(new Float32Array(4));
  await workers.cluster.run(workers.at(0).close());
  assert.match((await workers.outcomes([first]))[0] ?? "", /^CLOSED/);
  assert.match((await workers.outcomes([workers.at(0).allReduce(new Float32Array(4))]))[0] ?? "", /^CLOSED/);
  assert.match((await workers.outcomes([workers.at(1).allReduce(new Float32Array(4))]))[0] ?? "", /^CLOSED worker 0 has closed/);
  const reopened = workers.open(0);
  await workers.sleep(100);
  const [again] = await workers.cluster.run(Promise.all([reopened, workers.at(1).reform()]));
  const waiting = again.allReduce(new Float32Array(4));
  await workers.cluster.run(workers.cluster.worker(0).close());
  assert.match((await workers.outcomes([waiting]))[0] ?? "", /^CLOSED/);
});

test("workers that close shortly after each other warn of nothing: one that has stopped takes the word of another", async () => {
  const warnings: string[] = [];
  const warn = (message: string, fields: LogFields = {}): void => void warnings.push(`${message} ${JSON.stringify(fields)}`);
  const workers = await Workers.start(2, { log: { ...SILENT_LOG, warn }, network: { latencyMsMin: 1, latencyMsMax: 5 } });
  for (let laterMs = 0; laterMs < 16; laterMs++) {
    await workers.all((rank) => workers.at(rank).allReduce(new Float32Array(4)));
    await workers.all(async (rank) => {
      if (rank === 1) await workers.sleepAt(laterMs, 0);
      await workers.at(rank).close();
    });
    workers.collectives = await workers.all((rank) => workers.open(rank));
  }
  assert.deepEqual(warnings, []);
});

test("collectives that all close and open again, in any order, have all members again", async () => {
  const workers = await Workers.start(3);
  for (let generation = 2; generation < 5; generation++) {
    await workers.all(async (rank) => {
      await workers.sleepAt(rank, (generation * rank) % 3);
      await workers.at(rank).close();
      await workers.sleepAt(rank, (generation + rank) % 3);
      workers.collectives[rank] = await workers.open(rank, 5000);
    });
    assert.deepEqual([workers.at(0).generation, workers.at(0).members], [generation, [0, 1, 2]]);
    const sums = await workers.all(async (rank) => {
      const values = Float32Array.of(rank + 1);
      await workers.at(rank).allReduce(values, { timeoutMs: 5000 });
      return values[0];
    });
    assert.deepEqual(sums, [6, 6, 6]);
  }
  await workers.all((rank) => workers.at(rank).close());
  const [outcome] = await workers.outcomes([workers.open(1, 500)]);
  assert.match(outcome ?? "", /^DEADLINE waited 500 ms for worker 0, worker 2 /);
});

test("who opens a collective again does not wait for a member that waits for all to leave the job", async () => {
  const workers = await Workers.start(2);
  await workers.all((rank) => workers.at(rank).close());
  const again = workers.open(1, 5000);
  const leaving = workers.cluster.worker(0).finalize();
  assert.deepEqual((await workers.cluster.run(again)).members, [1]);
  await Promise.all([leaving, workers.cluster.finalize()]);
});

test("a worker that was away while the others came and went reforms alone", async () => {
  const workers = await Workers.start(2);
  const { cluster } = workers;
  cluster.network.isolate(cluster.hostOf(idOf("worker", 1)), { breakLinks: true });
  await workers.sleep(2000);
  await cluster.run(workers.at(0).close());
  cluster.network.heal();
  await workers.sleep(100);
  assert.match((await workers.outcomes([workers.at(1).allReduce(new Float32Array(1))]))[0] ?? "", /^(NODE_DEAD|CLOSED)/);
  await cluster.run(workers.at(1).reform());
  assert.deepEqual(workers.at(1).members, [1]);
});

test("a worker that is alone lets its node breathe in every operation: heartbeats do not wait for a loop of them", async () => {
  const workers = await Workers.start(1);
  const operations = {
    "a small sum": () => workers.at(0).allReduce(valuesOf(0, 4)),
    "a large sum": () => workers.at(0).allReduce(valuesOf(0, DIRECT_FLOATS + 1)),
    "an exchange": () => workers.at(0).exchange([new Uint8Array(4)]),
    "a broadcast": () => workers.at(0).broadcast(valuesOf(0, 4), 0),
  };
  for (const [name, call] of Object.entries(operations)) {
    const order: string[] = [];
    workers.cluster.clock.afterInput(() => order.push("input"));
    await workers.cluster.run(call().then(() => order.push("done")));
    assert.deepEqual(order, ["input", "done"], name);
  }
});

test("where workers are not joined with each other it says so, and what would join them", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 0, workerCount: 1, meshAddress: "" });
  await assert.rejects(cluster.run(Collective.open(meshOf(cluster.worker()))), { code: "UNSUPPORTED", message: /--van weighbridge/ });
});
