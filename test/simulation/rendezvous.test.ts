// Goal: workers that wait for each other leave with the same values, over broken links, deaths, and schedulers that are
// restarted at any moment; nobody waits for the dead, and a deadline names those who are missing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS } from "../../src/testing/control-cluster.ts";
import type { RendezvousValue } from "../../src/wire/control.ts";
import { RendezvousClient } from "../../src/worker/rendezvous-client.ts";
import { forSeeds } from "./seeds.ts";

const WORKERS = 3;
const ROUNDS = 6;

async function formedWorkers(seed: number) {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: WORKERS, seed });
  const formed = await cluster.formed();
  const { clock } = cluster;
  const clients = formed.workers.map((membership) => new RendezvousClient({ membership, clock }));
  return { cluster, clock, clients };
}

test("all leave every round with the same values, while links break and the scheduler is restarted", async () => {
  await forSeeds({ from: 1, count: 25 }, async (seed) => {
    const { cluster, clock, clients } = await formedWorkers(seed);
    const random = new Random(seed);
    const results: (readonly RendezvousValue[])[][] = clients.map(() => []);
    const working = clients.map(async (client, rank) => {
      for (let generation = 0; generation < ROUNDS; generation++) {
        await new Promise<void>((resolve) => clock.after(random.below(300), resolve));
        results[rank]?.push(await client.meet("end", { generation, value: `${rank}/${generation}` }));
      }
    });
    let isDone = false;
    const all = Promise.all(working).finally(() => {
      isDone = true;
    });
    const disturbing = (async () => {
      for (let i = 0; i < 3 && !isDone; i++) {
        await new Promise<void>((resolve) => clock.after(random.below(600), resolve));
        if (random.chance(0.5)) cluster.network.breakLinks("scheduler", `w${random.below(WORKERS)}`);
        else {
          cluster.network.crash("scheduler");
          await new Promise<void>((resolve) => clock.after(random.below(400), resolve));
          await cluster.scheduler();
        }
      }
    })();
    await clock.runUntil(Promise.all([all, disturbing]), { untilMs: clock.nowMs() + 300_000 });
    const expected = Array.from({ length: ROUNDS }, (_, generation) =>
      Array.from({ length: WORKERS }, (_unused, rank) => ({ rank, value: `${rank}/${generation}` })),
    );
    for (const result of results) assert.deepEqual(result, expected);
  });
});

test("nobody waits for a worker that died, nor for its next incarnation before that is there", async () => {
  const { cluster, clock, clients } = await formedWorkers(1);
  const meeting = Promise.all(clients.slice(0, 2).map((client) => client.meet("end", { generation: 0 })));
  cluster.network.crash("w2");
  const [values] = await clock.runUntil(meeting, { untilMs: clock.nowMs() + 2 * HEARTBEAT_TIMEOUT_MS });
  assert.deepEqual(
    values?.map(({ rank }) => rank),
    [0, 1],
  );
  const restarted = await cluster.restarted("worker", "w2", { rank: 2 });
  const third = new RendezvousClient({ membership: restarted, clock });
  assert.deepEqual(await clock.runUntil(third.meet("end", { generation: 0 })), values, "what was held stays held");
  const next = [...clients.slice(0, 2), third].map((client) => client.meet("end", { generation: 1 }));
  assert.equal((await clock.runUntil(Promise.all(next)))[0]?.length, WORKERS);
});

test("a deadline names those who are missing; one that waits for the scheduler names that", async () => {
  const { cluster, clients } = await formedWorkers(1);
  const late = clients[1]?.meet("end", { generation: 0, timeoutMs: 3000 }) as Promise<unknown>;
  await cluster.fails(late, "DEADLINE", /waited 3000 ms at rendezvous 0 of "end" for workers 0, 2$/);
  cluster.network.crash("scheduler");
  const alone = clients[0]?.meet("end", { generation: 1, timeoutMs: 500 }) as Promise<unknown>;
  await cluster.fails(alone, "DEADLINE", /for the scheduler$/);
});

test("names, generations and values that cannot be are refused, nothing sent", async () => {
  const { clients } = await formedWorkers(1);
  const [client] = clients as [RendezvousClient];
  for (const refused of [
    () => client.meet("", { generation: 0 }),
    () => client.meet("x".repeat(257), { generation: 0 }),
    () => client.meet("x", { generation: -1 }),
    () => client.meet("x", { generation: 0.5 }),
    () => client.meet("x", { generation: 0, value: "x".repeat(1025) }),
    () => client.meet("x", { generation: 0, value: 7 as unknown as string }),
  ])
    await assert.rejects(refused(), { code: "BAD_ARGUMENT" });
});
