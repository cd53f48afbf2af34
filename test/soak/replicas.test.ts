// replicas — Goal: 200 SIGKILLs and 50 SIGSTOPs of heads, standbys and schedulers, by seeds, while workers train in
// step and push asynchronously: no call fails, each push counts once, and what was trained in step has the bits of a
// run without them. Half an hour.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "../e2e/cluster.ts";
import { Copies } from "../e2e/copies.ts";

const SEEDS = 5;
const KILLS = 40;
const STOPS = 10;
const SERVERS = 2;

async function run(seed: number, strikes: readonly ("SIGKILL" | "SIGSTOP")[]): Promise<readonly string[]> {
  await using cluster = await Cluster.create({ servers: SERVERS, workers: 2, flags: ["--replicas", 2, "--job", `replicas-${seed}`] });
  const copies = new Copies(cluster, { servers: SERVERS, seed });
  const workers = [cluster.worker(0, "survivor"), cluster.worker(1, "survivor")];
  for (const worker of workers) await worker.says(/^pushed \d+$/, 2, 120_000);
  for (const [count, signal] of strikes.entries()) await copies.strike(count, signal);
  for (const worker of workers) worker.endInput();
  const bits: string[] = [];
  for (const worker of workers) {
    bits.push((await worker.says(/^bits (\w+)$/, 1, 600_000))[1] as string);
    await worker.says(/^verified \d+ pushes/, 1, 120_000);
  }
  for (const node of [...workers, ...copies.processes, copies.scheduler]) await node.succeeds(120_000);
  return bits;
}

for (let seed = 1; seed <= SEEDS; seed++) {
  test(`${KILLS} kills and ${STOPS} stops lose nothing, seed ${seed}`, async () => {
    const strikes = [...Array<"SIGKILL">(KILLS).fill("SIGKILL"), ...Array<"SIGSTOP">(STOPS).fill("SIGSTOP")];
    const bits = [...(await run(seed, strikes)), ...(await run(seed, []))];
    assert.equal(new Set(bits).size, 1, bits.join());
  });
}
