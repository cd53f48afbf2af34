// Goal: whatever happens to links, workers and the scheduler, every unit of every epoch is done, and exactly once
// unless a worker died or was taken for dead; what may have been begun twice is counted; and nobody waits for ever.

import assert from "node:assert/strict";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { LentUnit, UnitFeed } from "../../src/worker/unit-feed.ts";
import { SETTLING } from "../support/settling.ts";

const EPOCHS = 2;
const HEARTBEAT_TIMEOUT_MS = 1000;

/** Who is killed, or cut off until it is taken for dead, while the epochs run. */
export type Trouble = { readonly workers: boolean; readonly scheduler: boolean; readonly joins?: boolean };

/** How many workers join at most. */
const JOINS_MAX = 3;

class LentUnits {
  readonly random: Random;
  readonly cluster: SimCluster;
  readonly workerCount: number;
  readonly batchCount: number;
  readonly partCount: number;
  readonly assignment: "even" | "free" | "rounds";
  /** By epoch and batch, the clocks at which parts of it were due. */
  readonly clocks: Set<number>[][] = [];
  /** Ranks that come later. */
  readonly added: readonly number[];
  readonly trouble: Trouble;
  /** How often each unit of each epoch was begun and done. */
  readonly begun: number[][] = [];
  readonly done: number[][] = [];
  /** As the last to hear of it was told. */
  readonly repeatedCounts: number[] = [];
  /**
   * Workers that were killed, cut off, or found dead by the scheduler: after a restart, for being too late to tell that
   * they live.
   */
  deathCount = 0;
  /** Whether workers sometimes close an epoch and open it again. */
  readonly areFickle: boolean;
  #isEnded = false;
  /** Ranks whose worker has done all epochs, and asks for nothing any more. */
  readonly #finished = new Set<number>();

  constructor(seed: number, trouble: Trouble) {
    this.random = new Random(seed * 7919);
    const { random } = this;
    this.trouble = trouble;
    // A scheduler without a state, and all workers of the start restarted, would be a new job: those that joined are
    // none of it.
    this.workerCount = (trouble.joins === true ? 2 : 1) + random.below(4);
    this.batchCount = 1 + random.below(12);
    this.partCount = random.chance(0.5) ? this.workerCount : 1 + random.below(5);
    this.assignment = (["even", "free", "rounds"] as const)[random.below(3)]!;
    this.added = Array.from({ length: trouble.joins === true ? 1 + random.below(JOINS_MAX) : 0 }, (_, i) => this.workerCount + i);
    this.areFickle = random.chance(0.3);
    this.cluster = new SimCluster({
      seed,
      serverCount: 0,
      workerCount: this.workerCount,
      network: { latencyMsMin: 0, latencyMsMax: 1 + random.below(20), breakChance: random.below(2) * 0.01 },
      heartbeatIntervalMs: 100,
      heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
      settle: SETTLING,
      optionsOf: (node) => (node === SCHEDULER_ID ? { workerCountMax: this.workerCount + JOINS_MAX } : {}),
      log: { ...SILENT_LOG, warn: (message) => this.#heardOf(message) },
    });
    for (let epoch = 0; epoch < EPOCHS; epoch++) {
      const zeros = (): number[] => new Array<number>(this.batchCount * this.partCount).fill(0);
      this.clocks.push(Array.from({ length: this.batchCount }, () => new Set()));
      this.begun.push(zeros());
      this.done.push(zeros());
      this.repeatedCounts.push(0);
    }
  }

  async run(): Promise<void> {
    const { cluster, random, trouble } = this;
    await cluster.start();
    const ranks = Array.from({ length: this.workerCount }, (_, rank) => rank);
    const work = Promise.all([...ranks.map((rank) => this.#workUntilDone(rank)), this.#joinLater()]).then(() => {
      this.#isEnded = true;
    });
    const chaos: Promise<void>[] = [];
    if (trouble.workers) chaos.push(this.#killWorkers(1 + random.below(3)));
    if (trouble.scheduler) chaos.push(this.#killScheduler(1 + random.below(2)));
    await cluster.run(Promise.all([work, ...chaos]));
    await cluster.finalize();
    this.#check();
  }

  async #joinLater(): Promise<void> {
    const joined: Promise<void>[] = [];
    for (const rank of this.added) {
      await this.#sleep(this.random.below(200));
      const office = await this.cluster.startNode(idOf("worker", rank)).catch((thrown: unknown) => {
        if (!isMishap(thrown)) throw thrown; // it was killed on its way
      });
      if (office === undefined) return;
      joined.push(this.#workUntilDone(rank));
    }
    await Promise.all(joined);
  }

  #check(): void {
    for (let epoch = 0; epoch < EPOCHS; epoch++) {
      const [begun = [], done = [], repeatedCount = 0] = [this.begun[epoch], this.done[epoch], this.repeatedCounts[epoch]];
      const undone = done.indexOf(0);
      assert.equal(undone, -1, `unit ${undone} of epoch ${epoch} was never done`);
      const again = begun.reduce((sum, count) => sum + count - 1, 0);
      const isSteady = this.deathCount === 0 && !this.areFickle && !this.trouble.scheduler;
      if (this.assignment === "rounds" && isSteady) {
        const rounds = this.clocks[epoch]!.map((clocks) => [...clocks]);
        assert.deepEqual(
          rounds,
          rounds.map((_, batch) => [batch]),
          `epoch ${epoch}: every batch is one round`,
        );
      }
      if (this.deathCount === 0) {
        assert.deepEqual([Math.max(...begun), Math.max(...done)], [1, 1], `epoch ${epoch}: every unit once`);
        assert.equal(repeatedCount, 0, `epoch ${epoch}: nothing was repeated`);
      } else if (!this.trouble.scheduler) {
        assert.ok(again <= repeatedCount, `epoch ${epoch}: ${again} were begun again, and ${repeatedCount} told`);
      }
    }
  }

  /** Works in whichever incarnation the worker has, until all epochs are over. */
  async #workUntilDone(rank: number): Promise<void> {
    const node = idOf("worker", rank);
    for (let isDone = false; !isDone; ) {
      try {
        const office = this.cluster.office(node);
        for (let epoch = 0; epoch < EPOCHS; epoch++) await this.#work(office, rank, epoch);
        isDone = true;
        this.#finished.add(rank);
      } catch (thrown) {
        if (!isMishap(thrown)) throw thrown;
        await this.#sleep(50);
      }
    }
  }

  async #work(office: Postoffice, rank: number, epoch: number): Promise<void> {
    const { batchCount, partCount, assignment, random } = this;
    const units = office.worker?.sessions?.units;
    assert.ok(units !== undefined);
    const feed = await units.open("train", { epoch, batchCount, partCount, assignment, timeoutMs: 60_000 });
    const isAlive = (): boolean => this.#isRunning(office, rank);
    for (;;) {
      const unit = await feed.next({ timeoutMs: 60_000 });
      if (!isAlive()) throw new Error("this incarnation is not running any more");
      if (unit === "over") break;
      if (unit === "idle") continue;
      this.#count(this.begun, epoch, unit);
      if (unit.clock !== undefined) this.clocks[epoch]![unit.batch]!.add(unit.clock);
      const isStrict = assignment === "even" && this.deathCount === 0 && partCount === this.workerCount && !this.areFickle;
      if (isStrict) assert.equal(unit.part, rank, "its own part");
      await this.#sleep(random.below(40));
      if (!isAlive()) throw new Error("this incarnation is not running any more");
      feed.done(unit.unit);
      this.#count(this.done, epoch, unit);
      if (this.areFickle && random.chance(0.1)) await this.#leaveAndComeBack(feed);
    }
    this.repeatedCounts[epoch] = Math.max(this.repeatedCounts[epoch] ?? 0, feed.repeatedCount);
  }

  /** Throws, so that the epoch is opened again. */
  async #leaveAndComeBack(feed: UnitFeed): Promise<void> {
    await feed.close({ timeoutMs: 60_000 });
    await assert.rejects(feed.next(), throwsCode("CLOSED"));
    throw new Error("this incarnation is not running any more");
  }

  #isRunning(office: Postoffice, rank: number): boolean {
    try {
      return this.cluster.worker(rank) === office;
    } catch {
      return false;
    }
  }

  #count(counts: number[][], epoch: number, { unit, parts = 1 }: LentUnit): void {
    const ofEpoch = counts[epoch] as number[];
    for (let i = unit; i < unit + parts; i++) ofEpoch[i] = (ofEpoch[i] as number) + 1;
  }

  #heardOf(message: string): void {
    if (message === "a node is dead") this.deathCount++;
  }

  async #killWorkers(rounds: number): Promise<void> {
    const { cluster, random } = this;
    for (let round = 0; round < rounds; round++) {
      await this.#sleep(random.below(300));
      if (this.#isEnded) return;
      const rank = random.below(this.workerCount);
      if (this.#finished.has(rank)) continue; // its next incarnation would forget that it asks for nothing any more
      const node = idOf("worker", rank);
      this.deathCount++;
      if (random.chance(0.3)) {
        // Cut off for so long that it is taken for dead; it goes on as if nothing had been.
        cluster.network.isolate(cluster.hostOf(node), { breakLinks: random.chance(0.5) });
        await this.#sleep(2 * HEARTBEAT_TIMEOUT_MS);
        cluster.network.heal(cluster.hostOf(node));
      } else {
        cluster.kill(node);
        await this.#sleep(random.below(2) * random.below(3000));
        await cluster.startNode(node);
      }
    }
  }

  async #killScheduler(rounds: number): Promise<void> {
    const { cluster, random } = this;
    for (let round = 0; round < rounds; round++) {
      await this.#sleep(random.below(300));
      if (this.#isEnded) return;
      cluster.kill(SCHEDULER_ID);
      await this.#sleep(random.below(2) * random.below(HEARTBEAT_TIMEOUT_MS));
      await cluster.startNode(SCHEDULER_ID);
    }
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((wake) => this.cluster.clock.after(ms, wake));
  }
}

/** What may happen to a caller while nodes die. DEADLINE is none of it: that would be a hang. */
function isMishap(thrown: unknown): boolean {
  const codes = ["NODE_DEAD", "CLOSED", "ABORTED"] as const;
  return codes.some((code) => isWeighbridgeError(thrown, code)) || String(thrown).includes("not running");
}

/** Throws when a unit is left out, done too often, or somebody hangs. */
export async function runLentUnits(seed: number, trouble: Trouble): Promise<void> {
  await new LentUnits(seed, trouble).run();
}
