// Goal: replicated servers whose processes die are replaced by fresh standbys, which are filled while training goes on,
// and die or take over in their turn. No call of a worker fails, every update counts once, and synchronous and
// single-worker results have the bits of a run without faults.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { PART_COUNT } from "../../src/keys/part.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { digestOf } from "../../src/server/replication/state-digest.ts";
import type { Server } from "../../src/server/server.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { DEADLINE, noise, ReplicatedJob, SERVERS, SimStore } from "./replicated-job.ts";

const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);
const CLOCKS = 40;
const SIZE = 24;
const ROWS = [1, 2, 3, 5, 8, 13, 21, 34];
/** Enough keys for a list that links name. */
const LISTED = Array.from({ length: 20 }, (_, i) => i * 3);
/** Between two faults of a rank. */
const FAULT_MS = 180;
/** A scheduler that was killed is started again within this time. */
const RESTART_MS = 150;

const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1 },
  { type: "momentum", learningRate: 0.1 },
  { type: "adam" },
  { type: "lazyAdam" },
  { type: "ftrl" },
];

/** What is the same whatever dies. */
type Outcome = {
  readonly tensor: Float32Array;
  readonly rows: Float32Array;
  /** By worker: what it alone has pushed to. */
  readonly own: readonly Float32Array[];
};

export type FillingCounts = { fills: number; takeovers: number; differing: number };

class Filling {
  readonly cluster: SimCluster;
  readonly counts: FillingCounts = { fills: 0, takeovers: 0, differing: 0 };
  readonly #seed: number;
  readonly #isCalm: boolean;
  readonly #random: Random;
  readonly #job: ReplicatedJob;
  #pushed = 0;
  #processes = 0;
  #isOver = false;
  /** By rank: until when its standby is cut off. */
  readonly #cutUntilMs = new Map<number, number>();

  constructor(seed: number, { isCalm }: { readonly isCalm: boolean }) {
    this.#seed = seed;
    this.#random = new Random(seed * 11 + 5);
    this.#isCalm = isCalm;
    const network = { latencyMsMin: 0, latencyMsMax: 1 + (seed % 3), breakChance: isCalm ? 0 : (seed % 3) * 0.001 };
    const options = { digestEntries: 7, fillBytes: 200 };
    this.#job = new ReplicatedJob({ seed, random: this.#random, network, options, log: this.#log() });
    this.cluster = this.#job.cluster;
  }

  async run(): Promise<Outcome> {
    const { cluster } = this;
    const sessions = await this.#job.start();
    if (!this.#isCalm) for (let rank = 0; rank < SERVERS; rank++) this.#next(rank);
    const outcomes = await cluster.run(Promise.all(sessions.map((session, rank) => this.#work(session, rank))));
    this.#isOver = true;
    const [first] = outcomes;
    assert.ok(first !== undefined);
    for (const { tensor, rows } of outcomes) assert.deepEqual([tensor, rows], [first.tensor, first.rows], "workers read the same round");
    const shared = await cluster.run(
      (sessions[0] as Session).tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp", ...DEADLINE }),
    );
    assert.deepEqual(await cluster.run(shared.pull(DEADLINE)), new Float32Array(SIZE).fill(this.#pushed), "pushes to all");
    await this.#job.end();
    return { tensor: first.tensor, rows: first.rows, own: outcomes.flatMap(({ own }) => own) };
  }

  /** Something happens to this rank again and again, until the workers are done. */
  #next(rank: number): void {
    const atMs = 20 + (this.#random.below(1_000_000) / 1_000_000) * FAULT_MS;
    this.cluster.clock.after(atMs, () => {
      if (this.#isOver) return;
      this.#strike(rank);
      this.#next(rank);
    });
  }

  /** A head is killed only while its standby counts: with its last copy a rank is lost. */
  #strike(rank: number): void {
    const { cluster } = this;
    const [head, standby] = [idOf("server", rank), idOf("standby", rank)];
    const roster = cluster.running(SCHEDULER_ID)?.roster.nodes ?? [];
    const entryOf = (node: number) => roster.find((entry) => entry.node === node);
    if (cluster.running(standby) !== undefined && entryOf(head)?.label === cluster.hostOf(standby)) cluster.takenOver(rank);
    // It is being replaced, or cut off.
    if (cluster.running(head) === undefined || cluster.clock.nowMs() < (this.#cutUntilMs.get(rank) ?? 0)) return;
    const entry = entryOf(standby);
    const isThere = cluster.running(standby) !== undefined && entry?.state === "alive" && entry.label === cluster.hostOf(standby);
    if (!isThere) {
      this.#startStandby(rank);
      return;
    }
    const isCounted = entry.isFilling !== true && entryOf(head)?.state === "alive";
    const drawn = this.#random.below(8);
    const cutMs = 100 + this.#random.below(600);
    if (drawn > 5) this.#cutUntilMs.set(rank, cluster.clock.nowMs() + cutMs + 20);
    if (drawn < 3 && isCounted) {
      this.counts.takeovers++;
      cluster.kill(head);
    } else if (drawn < 4) cluster.kill(standby);
    else if (drawn < 5) this.#job.killScheduler(RESTART_MS);
    else if (drawn < 6) cluster.network.breakLinks(cluster.hostOf(standby));
    else if (drawn < 7) {
      const host = cluster.hostOf(standby); // stopped for a while
      cluster.network.isolate(host);
      cluster.clock.after(cutMs, () => cluster.network.heal(host));
    } else {
      const [one, other] = [cluster.hostOf(head), cluster.hostOf(standby)];
      cluster.network.partition(one, other, { breakLinks: this.#random.chance(0.5) });
      cluster.clock.after(cutMs, () => cluster.network.heal(one, other));
    }
  }

  /** A process that has nothing: what ran there before has died, was given up, or is the head by now. */
  #startStandby(rank: number): void {
    const { cluster } = this;
    const standby = idOf("standby", rank);
    if (cluster.running(standby) !== undefined) cluster.kill(standby);
    cluster.startNode(standby, `standby-${rank}-${++this.#processes}`).then(
      (office) => void new KVServer(office, 0),
      () => {}, // killed before it had its rank
    );
  }

  /** Counts what nodes say. */
  #log(): Log {
    const note = (message: string, fields?: { readonly cause?: unknown }): void => {
      if (process.env.SIM_LOG !== undefined) console.log(this.cluster.clock.nowMs().toFixed(1), message, fields);
      if (message === "the standby has everything") this.counts.fills++;
      if (message === "this standby cannot go on, and leaves" && /comes to/.test(String(fields?.cause))) this.counts.differing++;
    };
    return { debug: () => {}, info: note, warn: note, error: note };
  }

  async #work(session: Session, rank: number): Promise<Outcome> {
    const seed = this.#seed;
    const random = new Random(seed * 31 + rank);
    const optimizer = OPTIMIZERS[seed % OPTIMIZERS.length] as OptimizerSpec;
    const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp", ...DEADLINE });
    const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: { bsp: true, reduce: "mean" }, optimizer, ...DEADLINE });
    const rows = await session.embedding("rows", { dim: 3, consistency: "bsp", optimizer, ...DEADLINE });
    const pulled = await session.tensor(`pulled ${rank}`, {
      shape: [SIZE],
      consistency: "asp",
      optimizer: { type: "dcAsgd", learningRate: 0.1, lambda: 0.5 },
      ...DEADLINE,
    });
    const coded = await session.embedding(`coded ${rank}`, {
      dim: 2,
      optimizer: { type: "adam" },
      link: { push: "int8", pull: "fp16", keyCache: true },
      ...DEADLINE,
    });
    const kv = new KVWorker(this.cluster.worker(rank), 0);
    const keys = BigUint64Array.of(BigInt(rank), 2n ** 63n + BigInt(rank));
    let pushed = 0;
    for (let clock = 0; clock < CLOCKS; clock++) {
      const pushes: Promise<unknown>[] = [];
      for (let i = random.below(3); i > 0; i--) {
        pushed++;
        const ones = new Float32Array(SIZE).fill(1);
        if (random.chance(0.3)) pushes.push(shared.pushPull(ones, "all", DEADLINE));
        else pushes.push(shared.push(ones, { priority: random.below(3), ...DEADLINE }));
        pushes.push(kv.wait(kv.push(keys, Float32Array.of(1, 2)), DEADLINE));
      }
      const read = new Float32Array(2);
      await kv.wait(kv.pull(keys, read), DEADLINE);
      assert.deepEqual([...read], [pushed, 2 * pushed], "own sums");
      await pulled.pull(DEADLINE);
      pushes.push(
        pulled.push(noise(SIZE, seed + rank - clock), DEADLINE),
        coded.push(LISTED, noise(LISTED.length * 2, seed + clock), DEADLINE),
        tensor.push(noise(SIZE, seed + rank + clock), DEADLINE),
        rows.push(ROWS, noise(ROWS.length * 3, seed - rank + clock), DEADLINE),
      );
      session.clock();
      await tensor.pull(DEADLINE);
      await Promise.all(pushes);
    }
    this.#pushed += pushed;
    const own = [await pulled.pull(DEADLINE), await coded.pull(LISTED, DEADLINE)];
    return { tensor: await tensor.pull(DEADLINE), rows: await rows.pull(ROWS, DEADLINE), own };
  }
}

/** Throws when a call fails, something is lost or counted twice, or bits differ from those of a run without faults. */
export async function runFilling(seed: number): Promise<FillingCounts> {
  const troubled = new Filling(seed, { isCalm: false });
  const outcome = await troubled.run();
  assert.deepEqual(outcome, await new Filling(seed, { isCalm: true }).run(), "the bits of a run without faults");
  return troubled.counts;
}

/** One rank, whose standby has died and is started again when `refill` is called. */
export class FillingStage {
  readonly cluster: SimCluster;
  session!: Session;
  /** The last push that was acknowledged. */
  pushed = 0;

  constructor(seed = 1, standbyOptions: { readonly arenaBytesMax?: number } = {}) {
    let starts = 0;
    const records: StateRecord[] = [];
    this.cluster = new SimCluster({
      seed,
      serverCount: 1,
      workerCount: 1,
      replicas: 2,
      network: { latencyMsMin: 0.5, latencyMsMax: 2 },
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs: 500,
      settle: SETTLING,
      optionsOf: (node) => {
        if (node === SCHEDULER_ID) return { store: new SimStore(records, (written) => written()) };
        return node === STANDBY && ++starts > 1 ? { fillBytes: 1024, ...standbyOptions } : { fillBytes: 1024 };
      },
    });
  }

  async open(): Promise<void> {
    const { cluster } = this;
    await cluster.start();
    this.session = await cluster.run(Session.open(cluster.worker(0).node));
    await this.push();
    cluster.kill(STANDBY);
    await this.push();
  }

  async push(): Promise<void> {
    const { cluster, session } = this;
    const tensor = await cluster.run(session.tensor("tensor", { shape: [64], consistency: "asp", optimizer: { type: "adam" } }));
    const rows = await cluster.run(session.embedding("rows", { dim: 8, optimizer: "sum" }));
    await cluster.run(tensor.push(new Float32Array(64).fill(1)));
    await cluster.run(rows.push([this.pushed, this.pushed + 1], new Float32Array(16).fill(1)));
    this.pushed++;
  }

  /** Whether the scheduler counts on the standby. */
  get isCounted(): boolean {
    const entry = this.cluster.running(SCHEDULER_ID)?.roster.nodes.find(({ node }) => node === STANDBY);
    return entry?.state === "alive" && entry.isFilling === undefined;
  }

  serverOf(node: number): Server {
    return this.cluster.office(node).server as Server;
  }

  digests(node: number): number[] {
    return Array.from({ length: PART_COUNT }, (_, part) => digestOf(this.serverOf(node).parameters, part));
  }

  async close(): Promise<void> {
    const { cluster } = this;
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  }
}

export type Victim = "head" | "standby" | "scheduler";
const VICTIMS: Readonly<Record<Victim, number>> = { head: HEAD, standby: STANDBY, scheduler: SCHEDULER_ID };
const PUSHES = 12;

/**
 * Somebody dies after so many events since a standby has come, while a worker pushes. All pushes count, unless the only
 * copy has died. Returns whether the standby counted by then.
 */
export async function killWhileFilling(victim: Victim, events: number): Promise<boolean> {
  const stage = new FillingStage(4);
  await stage.open();
  const { cluster, session } = stage;
  await cluster.run(cluster.startNode(STANDBY));
  const push = async (): Promise<unknown> => {
    const rows = await session.embedding("rows", { dim: 8, optimizer: "sum" });
    for (let i = 0; i < PUSHES; i++) await rows.push([0], new Float32Array(8).fill(1));
    return (await rows.pull([0]))[0];
  };
  const pushing = push().catch((thrown: unknown) => thrown);
  let isCounted = false;
  for (let i = 0; i < events && !isCounted; i++) {
    cluster.clock.step();
    await setImmediate();
    isCounted = stage.isCounted;
  }
  cluster.kill(VICTIMS[victim]);
  if (victim === "scheduler") cluster.clock.after(30, () => void cluster.startNode(SCHEDULER_ID));
  const outcome = await cluster.run(pushing);
  const isLost = victim === "head" && !isCounted && isWeighbridgeError(outcome, "NODE_DEAD");
  if (!isLost) assert.equal(outcome, 1 + PUSHES, `${victim} after ${events} events`);
  await stage.close();
  return isCounted;
}
