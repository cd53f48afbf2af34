// Goal: whatever frames are lost, doubled or swapped, however often links break, and whoever crashes, a call of a
// server to a worker runs exactly once if it is answered, once at most if it failed, in order, and every call ends.
// Beside it the workers push to the servers over the same links.

import assert from "node:assert/strict";
import { Deferred } from "../../src/base/deferred.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { psFunction } from "../../src/contracts/ps-function.ts";
import { workerFunction } from "../../src/contracts/worker-function.ts";
import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { FunctionClient } from "../../src/worker/function-client.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SERVERS = 2;
const WORKERS = 2;
const CALLS = 40;
/** CLOSED: of the server that is killed. */
const DEAD: readonly string[] = ["NODE_DEAD", "LINK_LOST", "CLOSED"];

const FIELDS = { server: "u32", n: "u32", bytes: "u8[]" } as const;
const told = workerFunction({ name: "told", request: FIELDS, response: { n: "u32" } });
const heard = workerFunction({ name: "heard", request: FIELDS, response: {} });
const added = psFunction({
  ...{ name: "added", request: { n: "u32" }, response: { sum: "u32" } },
  handler: (context, { n }) => {
    const sums = context.own(`sums of ${context.worker}`, () => ({ sum: 0 }));
    sums.sum += n;
    return { sum: sums.sum };
  },
});

/** What an incarnation of a worker was told, by the server that told it. */
type Log = readonly number[][];

function serveAt(cluster: SimCluster, rank: number, random: Random): Log {
  const log: number[][] = Array.from({ length: SERVERS }, () => []);
  const worker = cluster.worker(rank).worker!;
  const { clock } = cluster;
  worker.serve(told, (_caller, { server, n }) => {
    log[server]!.push(n);
    if (random.chance(0.5)) return { n: n + 1 };
    return new Promise((resolve) => clock.after(random.below(30), () => resolve({ n: n + 1 })));
  });
  worker.serve(heard, (_caller, { server, n, bytes }) => {
    assert.equal(bytes.length, sizeOf(n));
    log[server]!.push(n);
    return {};
  });
  return log;
}

/** Some take several frames. */
const sizeOf = (n: number): number => (n % 17 === 5 ? 1_200_000 : n % 5 === 2 ? 3000 : n % 8);

type Outcome = { readonly n: number; readonly state: "answered" | "dead" };

/** One server tells one incarnation of a worker of 0, 1, 2 …, several at a time. */
async function tell(cluster: SimCluster, server: number, worker: number, random: Random): Promise<Outcome[]> {
  const { workers } = cluster.server(server).server!;
  const { incarnation } = cluster.worker(worker).node.peer;
  const outcomes: Outcome[] = [];
  const open: Promise<void>[] = [];
  for (let n = 0; n < CALLS; n++) {
    const request = { server, n, bytes: new Uint8Array(sizeOf(n)) };
    const call = random.chance(0.5)
      ? workers.call(worker, told, request, { incarnation })
      : workers.call(worker, heard, request, { incarnation });
    open.push(
      call.then(
        (answer) => {
          if ("n" in answer) assert.equal(answer.n, n + 1, "the answer is that of its own call");
          outcomes.push({ n, state: "answered" });
        },
        (error: unknown) => {
          assert.ok(isWeighbridgeError(error) && DEAD.includes(error.code), String(error));
          outcomes.push({ n, state: "dead" });
        },
      ),
    );
    if (random.chance(0.3)) await open[random.below(open.length)];
  }
  await Promise.all(open);
  return outcomes;
}

function checkOnce(log: readonly number[], outcomes: readonly Outcome[], text: string): void {
  assert.deepEqual(
    log,
    [...new Set(log)].sort((a, b) => a - b),
    `${text}: in order, none twice`,
  );
  for (const { n, state } of outcomes)
    if (state === "answered") assert.ok(log.includes(n), `${text}: call ${n} was answered and has not run`);
}

export async function runCalledWorkers(seed: number): Promise<void> {
  const random = new Random(seed);
  const cluster = await stormyCluster(random, { seed, serverCount: SERVERS, workerCount: WORKERS });
  const logs = Array.from({ length: WORKERS }, (_, rank) => serveAt(cluster, rank, new Random(seed * 7 + rank)));
  for (let rank = 0; rank < SERVERS; rank++) cluster.server(rank).server!.functions.add(added);
  if (random.chance(0.5)) {
    cluster.clock.after(random.below(300), () => cluster.network.partition("worker-0", "server-1", { breakLinks: random.chance(0.5) }));
    cluster.clock.after(300 + random.below(2000), () => cluster.network.heal());
  }
  const push = async (rank: number): Promise<void> => {
    const client = new FunctionClient(cluster.worker(rank).worker!.router);
    for (let n = 1; n <= 20; n++) {
      const { sum } = await client.call(added, { server: n % SERVERS }, { n });
      assert.equal(
        sum,
        Array.from({ length: n }, (_, i) => i + 1).reduce((all, i) => (i % SERVERS === n % SERVERS ? all + i : all), 0),
      );
    }
  };
  const telling: Promise<void>[] = [];
  for (let server = 0; server < SERVERS; server++)
    for (let worker = 0; worker < WORKERS; worker++)
      telling.push(
        tell(cluster, server, worker, new Random(seed * 13 + server * 3 + worker)).then((outcomes) => {
          assert.equal(outcomes.filter(({ state }) => state === "answered").length, CALLS, "nobody died");
          checkOnce(logs[worker]![server]!, outcomes, `server ${server} to worker ${worker}`);
          assert.equal(logs[worker]![server]!.length, CALLS);
        }),
      );
  await cluster.run(Promise.all([...telling, push(0), push(1)]));
  await cluster.finalize();
}

/** As above, and worker 0 or server 1 is killed somewhere in between and started again. */
export async function runCrashedCalls(seed: number): Promise<void> {
  const random = new Random(seed);
  const cluster = await stormyCluster(random, { seed, serverCount: SERVERS, workerCount: WORKERS });
  const logs = Array.from({ length: WORKERS }, (_, rank) => serveAt(cluster, rank, new Random(seed * 7 + rank)));
  const victim = random.chance(0.5) ? idOf("worker", 0) : idOf("server", 1);
  const crash = new Deferred<unknown>();
  cluster.clock.after(random.below(200), () => cluster.kill(victim));
  cluster.clock.after(200 + random.below(30_000), () => crash.resolve(cluster.startNode(victim)));
  const telling = [0, 1].flatMap((server) =>
    [0, 1].map(async (worker) => {
      const outcomes = await tell(cluster, server, worker, new Random(seed * 13 + 3 * server + worker));
      assert.equal(outcomes.length, CALLS);
      checkOnce(logs[worker]![server]!, outcomes, `server ${server} to worker ${worker}`);
    }),
  );
  await cluster.run(Promise.all([...telling, crash.promise]));
  await cluster.clock.advance(1000);
  const again = victim === idOf("worker", 0) ? serveAt(cluster, 0, new Random(seed)) : logs[0]!;
  again[1]!.length = 0;
  const outcomes = await cluster.run(tell(cluster, 1, 0, new Random(seed * 19)));
  assert.equal(outcomes.filter(({ state }) => state === "answered").length, CALLS, "the new incarnation is called");
  checkOnce(again[1]!, outcomes, "after the crash");
  await cluster.finalize();
}
