// Goal: ranks that are held by two processes come to a running job and leave it, while heads, standbys and the
// scheduler die at any moment of that: every push counts once, BSP has the bits of a run whose servers stay, whoever is
// to leave ends well, and each change is done or taken back. docs/decisions/0080.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import type { Scaling, WishedServers } from "../../src/scheduler/scaling.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { OfficeOptions } from "../../src/testing/start-office.ts";
import { idOf, rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { RosterEntry } from "../../src/wire/roster.ts";
import type { ScalingEnd, ScalingReport } from "../../src/wire/scaling.ts";
import { SETTLING } from "../support/settling.ts";
import { DEADLINE, SimStore } from "./replicated-job.ts";

const WORKERS = 2;
const STEPS = 60;
const ROWS = 120;
const KEYS = Array.from({ length: 64 }, (_, i) => i * 7);
/** Of a step beside its calls, so that a training lasts as long as the changes. */
const PACE_MS = 8;
const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1 },
  { type: "adam" },
  { type: "momentum", learningRate: 0.1 },
];
/** How long new processes are waited for. */
const TIMEOUT_MS = 3000;
/** Why nobody takes a wish now: the scheduler has died, or has not heard of all nodes, or a head is being replaced. */
const AWAY = ["CLOSED", "NO_ROUTE", "NODE_DEAD"] as const;
/** In which processes die, from the beginning of a change on, and are started again. */
const STRIKES_MS = 400;
const REFILL_MS = 200;

/** From here on ranks are names of processes that ask for none. */
export const SPARE = 50;

/** A slot of a rank. */
export type CopyRole = "server" | "standby";
const COPIES: readonly CopyRole[] = ["server", "standby"];

export class ScalingReplicas {
  readonly cluster: SimCluster;
  readonly random: Random;
  /** Which processes of a new rank are started by themselves, as launchers do. */
  started: readonly CopyRole[] = COPIES;
  readonly #records: StateRecord[] = [];
  #store: SimStore | undefined;
  /** Ranks that had processes, and the names of processes. */
  readonly #ranks = new Set([0]);
  readonly #names = new Set(COPIES.map((role) => idOf(role, 0)));
  /** Of servers and standbys that were not killed: how they end. */
  readonly #ends = new Map<Postoffice, Promise<void>>();
  #processes = 0;
  #hasKilled = false;
  #isOver = false;

  constructor(seed: number) {
    this.random = new Random(seed * 31 + 7);
    this.cluster = new SimCluster({
      ...{
        seed,
        serverCount: 1,
        workerCount: WORKERS,
        replicas: 2,
        placement: seed % 3 === 0 ? "ring" : "range",
        settle: SETTLING,
      },
      ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 400 },
      network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 3) },
      optionsOf: (node) => this.#optionsOf(node),
    });
  }

  /** Both copies of a rank register as servers; the scheduler decides which one leads. */
  #optionsOf(node: number): Partial<OfficeOptions> {
    if (node === SCHEDULER_ID) return { store: this.#nextStore(), onServers: (servers) => this.#startWished(servers) };
    const own = { digestEntries: 7, ...(rankOf(node) < SPARE ? {} : { rank: undefined }) };
    return roleOf(node) === "standby" ? { role: "server", ...own } : own;
  }

  #nextStore(): SimStore {
    this.#store = new SimStore(this.#records, (written) => void this.cluster.clock.after(this.random.below(3), written));
    return this.#store;
  }

  #startWished({ wished }: WishedServers): void {
    for (const rank of wished.filter((one) => !this.#ranks.has(one))) {
      this.#ranks.add(rank);
      for (const role of this.started) this.startCopy(idOf(role, rank));
    }
  }

  /** Starts a process that asks for this node's rank, on a host of its own. */
  startCopy(node: number): void {
    const { cluster } = this;
    const host = this.#names.has(node) ? `${cluster.hostOf(node)}-${++this.#processes}` : undefined;
    this.#names.add(node);
    cluster.startNode(node, host).then(
      (office) => this.#stay(office),
      () => {}, // killed before it had its rank, or not needed any more
    );
  }

  #stay(office: Postoffice): void {
    const end = office.finalize();
    end.catch(() => {}); // it is looked at in the end
    this.#ends.set(office, end);
  }

  async start(): Promise<readonly Session[]> {
    const { cluster } = this;
    await cluster.start();
    for (const role of COPIES) this.#stay(cluster.office(idOf(role, 0)));
    const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
    return await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  }

  get scaling(): Scaling {
    const { node } = this.cluster.scheduler;
    assert.ok(node instanceof SchedulerNode);
    return node.scheduler.scaling;
  }

  /** How many processes wait for a rank. */
  get spareCount(): number {
    return this.cluster.scheduler.scheduler?.status().waiting.length ?? 0;
  }

  get report(): ScalingReport | undefined {
    return this.cluster.running(SCHEDULER_ID) === undefined ? undefined : this.scaling.report();
  }

  /** What the scheduler has in this slot, if it is alive. */
  entry(role: CopyRole, rank: number): RosterEntry | undefined {
    const roster = this.cluster.running(SCHEDULER_ID)?.roster.nodes ?? [];
    return roster.find((one) => one.role === role && one.rank === rank && one.state === "alive");
  }

  /** The process that holds this slot, by its name. */
  #nodeOf(role: CopyRole, rank: number): number | undefined {
    const { cluster } = this;
    const label = this.entry(role, rank)?.label;
    return COPIES.map((of) => idOf(of, rank)).find((node) => cluster.running(node) !== undefined && cluster.hostOf(node) === label);
  }

  /** Kills a head or standby as SIGKILL does, unless it is the last process that has parts of the job. */
  kill(role: CopyRole, rank: number): boolean {
    const { cluster } = this;
    const other = role === "server" ? "standby" : "server";
    const isPlaced = cluster.scheduler.roster.placement?.servers.includes(rank) === true;
    const isOtherWhole = this.#nodeOf(other, rank) !== undefined && this.entry(other, rank)?.isFilling !== true;
    const node = this.#nodeOf(role, rank);
    if (node === undefined || (isPlaced && !isOtherWhole)) return false;
    this.#hasKilled = true;
    this.#ends.delete(cluster.office(node));
    cluster.kill(node);
    return true;
  }

  /** A process for the free slot of a rank, if it has one. */
  refill(rank: number): void {
    const free = COPIES.map((role) => idOf(role, rank)).find((node) => this.cluster.running(node) === undefined);
    if (free !== undefined && this.#ranks.has(rank)) this.startCopy(free);
  }

  /** What it has not written by then is lost. It is started again soon. */
  killScheduler(): void {
    const { cluster } = this;
    this.#store?.die();
    cluster.kill(SCHEDULER_ID);
    cluster.clock.after(this.random.below(60), () => void cluster.startNode(SCHEDULER_ID));
  }

  /** Somebody dies, of any rank. */
  strike(): void {
    const { cluster, random } = this;
    if (this.#isOver || cluster.running(SCHEDULER_ID) === undefined) return;
    const rank = random.below(3);
    const drawn = random.below(3);
    const role = COPIES[drawn];
    if (role === undefined) this.killScheduler();
    else if (this.kill(role, rank) && random.chance(0.7)) cluster.clock.after(random.below(REFILL_MS), () => this.refill(rank));
  }

  strikeSoon(): void {
    const count = 1 + this.random.below(3);
    for (let i = 0; i < count; i++) this.cluster.clock.after(this.random.below(STRIKES_MS), () => this.strike());
  }

  /** Lets time pass until that holds; nobody decides while there is no scheduler. */
  async reaches(what: string, isThere: (report: ScalingReport) => boolean): Promise<void> {
    for (let tries = 0; tries < 60_000; tries++) {
      const { report } = this;
      if (report !== undefined && isThere(report)) return;
      await this.cluster.clock.advance(1);
    }
    assert.fail(`${what} does not come: ${JSON.stringify(this.report)}`);
  }

  async ask(to: number): Promise<number> {
    const { cluster } = this;
    for (let tries = 0; ; tries++) {
      try {
        return await cluster.run(this.scaling.request({ to, timeoutMs: TIMEOUT_MS }));
      } catch (thrown) {
        const isAway = cluster.running(SCHEDULER_ID) === undefined || AWAY.some((code) => isWeighbridgeError(thrown, code));
        if (!isAway || tries === 100) throw thrown;
        await cluster.clock.advance(20);
      }
    }
  }

  /** The scheduler may be another one by then. Undefined: it died before it had written the wish down. */
  async ended(number: number): Promise<ScalingEnd | undefined> {
    await this.reaches(`the end of change ${number}`, ({ current, queued }) => current?.number !== number && !queued.includes(number));
    return this.report?.ended.find((end) => end.number === number);
  }

  async scaleTo(to: number): Promise<ScalingEnd> {
    for (;;) {
      const end = await this.ended(await this.ask(to));
      if (end !== undefined) return end;
    }
  }

  /** The workers are done: all nodes end, and those that were neither killed nor given up end well. */
  async end(): Promise<void> {
    const { cluster } = this;
    await this.reaches("the scheduler", () => true);
    this.#isOver = true;
    const nodes = [SCHEDULER_ID, ...Array.from({ length: WORKERS }, (_, rank) => idOf("worker", rank))];
    const ends = [...this.#ends.values()].map((end) =>
      end.catch((thrown: unknown) => {
        // A standby that was given up, or whose head died before it had everything.
        const isGivenUp = isWeighbridgeError(thrown, "FENCED") || isWeighbridgeError(thrown, "ABORTED");
        if (!this.#hasKilled || !isGivenUp) throw thrown;
      }),
    );
    await cluster.run(Promise.all([...nodes.map((node) => cluster.office(node).finalize()), ...ends]));
  }
}

/** What each worker does. Returns what BSP has in the end, which is the same whatever happens to the servers. */
async function train({ cluster: { clock } }: ScalingReplicas, session: Session): Promise<readonly Float32Array[]> {
  const tensors = await Promise.all(
    OPTIMIZERS.map((optimizer) =>
      session.tensor(`bsp ${optimizer.type}`, { shape: [ROWS, 4], optimizer, consistency: "bsp", ...DEADLINE }),
    ),
  );
  const rows = await session.embedding("rows", { dim: 4, optimizer: { type: "sum" }, consistency: "asp", ...DEADLINE });
  for (let step = 0; step < STEPS; step++) {
    const gradient = Float32Array.from({ length: ROWS * 4 }, (_, i) => Math.sin(i + 3 * session.rank + 7 * step));
    await Promise.all([
      ...tensors.map((tensor) => tensor.push(gradient, DEADLINE)),
      rows.push(KEYS, new Float32Array(KEYS.length * 4).fill(1), DEADLINE),
      new Promise<void>((resume) => clock.after(PACE_MS, resume)),
    ]);
    session.clock();
    await Promise.all(tensors.map((tensor) => tensor.pull(DEADLINE)));
  }
  await session.barrier(DEADLINE);
  const sums = await rows.pull(KEYS, DEADLINE);
  assert.deepEqual(sums, new Float32Array(sums.length).fill(WORKERS * STEPS), "pushes are lost or doubled");
  return await Promise.all(tensors.map((tensor) => tensor.pull(DEADLINE)));
}

/** Workers train while `change` happens to the servers. */
export async function trainWhile(seed: number, change: (job: ScalingReplicas) => Promise<void>): Promise<readonly Float32Array[]> {
  const job = new ScalingReplicas(seed);
  const sessions = await job.start();
  const trained = Promise.all(sessions.map((session) => train(job, session)));
  trained.catch(() => {}); // it is awaited below
  await job.cluster.clock.advance(40);
  await change(job);
  const [bsp] = await job.cluster.run(trained);
  assert.ok(bsp !== undefined);
  await job.end();
  return bsp;
}

/** One rank becomes three, and then two, while processes die. Returns how many changes were done. */
export async function runScalingReplicas(seed: number, expected: readonly Float32Array[]): Promise<number> {
  let done = 0;
  const bsp = await trainWhile(seed, async (job) => {
    for (const to of [3, 2]) {
      job.strikeSoon();
      const { outcome, reason } = await job.scaleTo(to);
      assert.ok(outcome === "done" || (outcome === "rolledBack" && /to come|to be filled/.test(reason ?? "")), `${outcome}: ${reason}`);
      if (outcome === "done") done++;
    }
  });
  assert.deepEqual(bsp, expected, "the bits of BSP");
  return done;
}
