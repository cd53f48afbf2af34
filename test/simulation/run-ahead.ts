// run-ahead — the simulation of run-ahead.test.ts. Goal: runs of small pushes that a head sends to its standby before
// it handles them count once, and what the head refuses of them is refused by its standby, whoever is killed or cut off
// meanwhile.

import assert from "node:assert/strict";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Server } from "../../src/server/server.ts";
import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { DEADLINE, ReplicatedJob, SERVERS, WORKERS } from "./replicated-job.ts";

const ROUNDS = 10;
const PUSHES = 12;
const KEYS = 9;
/** It has values of two floats: pushes of one are refused. */
export const WIDE = 4;

/** Key `i` of the even range of this rank. */
const keyOf = (rank: number, i: number): bigint => BigInt(rank) * 2n ** 63n + BigInt(i);

export const serverOf = (cluster: SimCluster, node: number): Server => cluster.office(node).server as Server;

class Runs {
  readonly #job: ReplicatedJob;
  readonly #random: Random;
  readonly #sums = Array.from({ length: SERVERS }, () => new Float32Array(KEYS));
  /** How many runs heads sent ahead. */
  aheadCount = 0;

  constructor(seed: number) {
    this.#random = new Random(seed * 13 + 5);
    const network = { latencyMsMin: 0, latencyMsMax: 1 + (seed % 3), breakChance: (seed % 2) * 0.003 };
    this.#job = new ReplicatedJob({ seed, random: this.#random, network, options: { digestEntries: 7 } });
  }

  async run(): Promise<void> {
    const { cluster } = this.#job;
    await this.#job.start();
    const workers = Array.from({ length: WORKERS }, (_, rank) => new KVWorker(cluster.worker(rank), 0));
    const [first] = workers as [KVWorker];
    for (let rank = 0; rank < SERVERS; rank++) {
      this.#countRuns(serverOf(cluster, idOf("server", rank)));
      await cluster.run(first.wait(first.push(BigUint64Array.of(keyOf(rank, WIDE)), new Float32Array(2)), DEADLINE));
    }
    const isStruck = this.#strike();
    await cluster.run(Promise.all(workers.map((worker, rank) => this.#work(worker, new Random(rank + 1)))));
    await cluster.run(this.#check(first));
    cluster.network.heal();
    for (let rank = isStruck ? 1 : 0; rank < SERVERS; rank++) {
      const head = idOf("server", rank);
      const hasStandby = cluster.running(head) !== undefined && serverOf(cluster, head).replica?.log.takesAhead === true;
      if (hasStandby) cluster.kill(head);
    }
    await cluster.run(this.#check(first)); // as standbys have it
    await this.#job.end();
  }

  #countRuns({ replica }: Server): void {
    assert.ok(replica !== undefined);
    const { log } = replica;
    const append = log.appendRun.bind(log);
    log.appendRun = (...run) => {
      this.aheadCount++;
      append(...run);
    };
  }

  /** Something happens to one process of the first rank, or nothing: false. */
  #strike(): boolean {
    const { cluster } = this.#job;
    const random = this.#random;
    const [head, standby] = [idOf("server", 0), idOf("standby", 0)];
    const kill = (node: number): void => {
      if (cluster.running(node) !== undefined) cluster.kill(node);
    };
    const strikes = [() => kill(head), () => kill(standby), () => cluster.network.partition(cluster.hostOf(head), cluster.hostOf(standby))];
    const strike = strikes[random.below(strikes.length + 1)];
    const afterMs = random.below(60);
    if (strike !== undefined) cluster.clock.after(afterMs, strike);
    return strike !== undefined;
  }

  async #work(worker: KVWorker, random: Random): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const pushes: Promise<void>[] = [];
      for (let i = 0; i < PUSHES; i++) pushes.push(this.#push(worker, random.below(SERVERS), random.below(KEYS)));
      await Promise.all(pushes);
    }
  }

  async #push(worker: KVWorker, rank: number, key: number): Promise<void> {
    try {
      await worker.wait(worker.push(BigUint64Array.of(keyOf(rank, key)), Float32Array.of(1)), DEADLINE);
      assert.notEqual(key, WIDE, "two floats are not one");
      this.#sums[rank]![key]!++;
    } catch (thrown) {
      if (key !== WIDE || !isWeighbridgeError(thrown, "VALUE_LENGTH")) throw thrown;
    }
  }

  async #check(worker: KVWorker): Promise<void> {
    for (const [rank, sums] of this.#sums.entries()) {
      for (const [key, sum] of sums.entries()) {
        const read = new Float32Array(key === WIDE ? 2 : 1).fill(Number.NaN);
        await worker.wait(worker.pull(BigUint64Array.of(keyOf(rank, key)), read), DEADLINE);
        assert.deepEqual(read, new Float32Array(read.length).fill(sum), `key ${key} of rank ${rank}`);
      }
    }
  }
}

/**
 * Throws when a push is lost, counted twice, or refused by one and taken by another. Returns how many runs were sent
 * ahead.
 */
export async function runAhead(seed: number): Promise<number> {
  const runs = new Runs(seed);
  await runs.run();
  return runs.aheadCount;
}
