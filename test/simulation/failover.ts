// Goal: heads and standbys of replicated servers are killed, stopped and cut off at any moment. No call of a worker
// fails, every update counts once, workers see their own writes, and BSP gives the same bits as a run in which nothing
// happens.

import assert from "node:assert/strict";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { DEADLINE, noise, ReplicatedJob, SERVERS } from "./replicated-job.ts";

const CLOCKS = 8;
const SIZE = 24;
const ROWS = [1, 2, 3, 5, 8, 13, 21, 34];
/** In which a run without faults is over. */
const FAULTS_MS = 150;
/** A scheduler that was killed is started again within this time. */
const RESTART_MS = 400;
/** Longer than a node pauses between two dials: one whose link breaks again and again is not taken for dead. */
const HEARTBEAT_TIMEOUT_MS = 1_500;

/** What happens to one of the processes of a rank. */
const FAULTS = [
  "kill head",
  "kill head at an answer",
  "kill standby",
  "stop head",
  "stop standby",
  "cut chain",
  "cut head from scheduler",
  "hold log back",
  "kill scheduler",
  "kill scheduler, then head",
  "kill head, then scheduler as it writes",
  "break links",
] as const;
export type Fault = (typeof FAULTS)[number];

const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1 },
  { type: "momentum", learningRate: 0.1 },
  { type: "adagrad" },
  { type: "adam" },
  { type: "ftrl" },
];

/** What the synchronous parameters came to. */
export type Outcome = { readonly tensor: Float32Array; readonly rows: Float32Array };

class Failover {
  readonly seed: number;
  readonly cluster: SimCluster;
  readonly #job: ReplicatedJob;
  readonly #random: Random;
  /** Called with the next push that is acknowledged. */
  #answered: (() => void) | undefined;
  /** To the shared tensor, by all workers. */
  #pushed = 0;

  constructor(seed: number, isCalm: boolean) {
    this.seed = seed;
    this.#random = new Random(seed * 7 + 3);
    const network = { latencyMsMin: 0, latencyMsMax: 1 + (seed % 4), breakChance: isCalm ? 0 : (seed % 3) * 0.002 };
    const heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS;
    this.#job = new ReplicatedJob({ seed, random: this.#random, network, options: { digestEntries: 7 }, heartbeatTimeoutMs });
    this.cluster = this.#job.cluster;
  }

  async run(faults: readonly Fault[]): Promise<Outcome> {
    const { cluster } = this;
    const sessions = await this.#job.start();
    for (const [rank, fault] of faults.entries()) this.#schedule(fault, rank % SERVERS);
    const outcomes = await cluster.run(Promise.all(sessions.map((session, rank) => this.#work(session, rank))));
    const [outcome] = outcomes;
    assert.ok(outcome !== undefined);
    for (const other of outcomes) assert.deepEqual(other, outcome, "workers read the same round");
    await this.#checkSums(sessions[0] as Session);
    await this.#job.end();
    return outcome;
  }

  /** The scheduler dies when it next writes something down, or a little later. */
  #killAtWrite(): void {
    const { store } = this.#job;
    if (store === undefined) return;
    store.onWrite = () => {
      store.onWrite = () => {};
      this.cluster.clock.after(this.#random.below(4), () => this.#job.killScheduler(RESTART_MS));
    };
  }

  /** At any moment: latencies are no whole numbers either. */
  #schedule(fault: Fault, rank: number): void {
    const { cluster } = this;
    const [head, standby] = [idOf("server", rank), idOf("standby", rank)];
    const [headHost, standbyHost] = [cluster.hostOf(head), cluster.hostOf(standby)];
    const breakLinks = this.#random.chance(0.5);
    const atMs = (this.#random.below(1_000_000) / 1_000_000) * FAULTS_MS;
    // A link that breaks may have cost the rank its standby: then nothing outlives the head, and it is left alone.
    const killHead = (): void => {
      if (cluster.running(head) !== undefined && cluster.server(rank).server?.replica?.log.isOn === true) cluster.kill(head);
    };
    const stop = (node: number): void => {
      cluster.network.isolate(cluster.hostOf(node));
      cluster.clock.after(2000 + this.#random.below(3000), () => cluster.network.heal(cluster.hostOf(node)));
    };
    cluster.clock.after(atMs, () => {
      if (fault.startsWith("kill scheduler")) {
        this.#job.killScheduler(RESTART_MS);
        if (fault === "kill scheduler, then head") cluster.clock.after(this.#random.below(100), killHead);
      } else if (fault === "kill head, then scheduler as it writes") {
        killHead();
        this.#killAtWrite();
      } else if (fault === "kill head") killHead();
      else if (fault === "kill head at an answer") this.#answered = killHead;
      else if (fault === "kill standby") cluster.kill(standby);
      else if (fault === "stop head") stop(head);
      else if (fault === "stop standby") stop(standby);
      else if (fault === "cut chain") cluster.network.partition(headHost, standbyHost, { breakLinks });
      else if (fault === "break links") cluster.network.breakLinks(headHost);
      else cluster.network.partition(headHost, cluster.hostOf(SCHEDULER_ID), { breakLinks });
      if (fault !== "hold log back") return;
      cluster.network.partition(headHost, standbyHost, { isOneWay: true }); // until its head was replaced
      cluster.clock.after((breakLinks ? 50 : 500) + this.#random.below(40), () => cluster.network.heal());
    });
  }

  async #work(session: Session, rank: number): Promise<Outcome> {
    const { seed } = this;
    const random = new Random(seed * 31 + rank);
    const optimizer = OPTIMIZERS[seed % OPTIMIZERS.length] as OptimizerSpec;
    const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp", ...DEADLINE });
    const own = await session.embedding(`own ${rank}`, { dim: 2, optimizer: "sum", ...DEADLINE });
    const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: { bsp: true, reduce: "mean" }, optimizer, ...DEADLINE });
    const rows = await session.embedding("rows", { dim: 3, consistency: "bsp", optimizer, ...DEADLINE });
    const kv = new KVWorker(this.cluster.worker(rank), 0);
    const keys = BigUint64Array.of(BigInt(rank), 2n ** 63n + BigInt(rank));
    let pushed = 0;
    for (let clock = 0; clock < CLOCKS; clock++) {
      const pushes: Promise<unknown>[] = [];
      for (let i = 1 + random.below(3); i > 0; i--) {
        pushed++;
        const ones = new Float32Array(SIZE).fill(1);
        if (random.chance(0.3)) pushes.push(shared.pushPull(ones, "all", DEADLINE));
        else pushes.push(shared.push(ones, { priority: random.below(3), ...DEADLINE }));
        pushes.push(own.push([1, 2, 1], new Float32Array(6).fill(1), { priority: random.below(3), ...DEADLINE }));
        pushes.push(kv.wait(kv.push(keys, Float32Array.of(1, 2)), DEADLINE).then(() => this.#takeAnswer()));
      }
      assert.deepEqual([...(await own.pull([1, 2], DEADLINE))], [2 * pushed, 2 * pushed, pushed, pushed], "own rows");
      const read = new Float32Array(2);
      await kv.wait(kv.pull(keys, read), DEADLINE);
      assert.deepEqual([...read], [pushed, 2 * pushed], "own sums");
      pushes.push(
        tensor.push(noise(SIZE, seed + rank + clock), DEADLINE),
        rows.push(ROWS, noise(ROWS.length * 3, seed - rank + clock), DEADLINE),
      );
      session.clock();
      await tensor.pull(DEADLINE);
      await Promise.all(pushes);
    }
    this.#pushed += pushed;
    return { tensor: await tensor.pull(DEADLINE), rows: await rows.pull(ROWS, DEADLINE) };
  }

  /** A push was acknowledged. */
  #takeAnswer(): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.();
  }

  async #checkSums(session: Session): Promise<void> {
    const { cluster } = this;
    const shared = await cluster.run(session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp", ...DEADLINE }));
    assert.deepEqual(await cluster.run(shared.pull(DEADLINE)), new Float32Array(SIZE).fill(this.#pushed), "pushes to the shared tensor");
  }
}

/** Throws when a call fails, something is lost or counted twice. Returns the bits of the synchronous parameters. */
export async function runFailover(seed: number, faults: readonly Fault[]): Promise<Outcome> {
  return await new Failover(seed, faults.length === 0).run(faults);
}

/** Faults by the seed: one for each rank, sometimes for one rank alone. */
export function drawFaults(seed: number): readonly Fault[] {
  const random = new Random(seed);
  const draw = (): Fault => FAULTS[random.below(FAULTS.length)] as Fault;
  return random.chance(0.7) ? [draw()] : [draw(), draw()];
}
