// Goal: durable servers whose processes die, one by one or all at once, with or without the power, come back with every
// update that was acknowledged and with none that was not sent, bit for bit. Workers that live go on where they were.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import type { Log, LogFields } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { SegmentLog } from "../../src/node/durable/segment-log.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { type Changes, keepChanging } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, nameOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { noise, SimStore } from "./replicated-job.ts";
import { type Mount, SimDisk } from "./sim-disk.ts";

const SERVERS = 2;
const WORKERS = 2;
const SIZE = 12;
const ROWS = [1, 2, 3, 5, 8, 13];
const DIM = 3;
const DEADLINE = { timeoutMs: 120_000 };
const HEARTBEAT_TIMEOUT_MS = 2000;
const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1 },
  { type: "momentum", learningRate: 0.1 },
  { type: "adam" },
  { type: "lazyAdam" },
];

export class DurableStage {
  readonly cluster: SimCluster;
  /** What nodes have said at warn and error. */
  readonly said: string[] = [];
  /** By server. */
  readonly disks: Map<number, SimDisk> = new Map();
  /** Servers that have left their state. */
  readonly stopped: Set<number> = new Set();
  readonly counts = { refills: 0, registeredTwice: 0 };
  failure: unknown;
  readonly #random: Random;
  readonly #mounts = new Map<number, Mount>();
  readonly #records: StateRecord[] = [];
  #scheduler: SimStore | undefined;
  #run = 0;
  /** Who got a rank last, by node. */
  readonly #ranked = new Map<string, number>();

  /**
   * `keepsState`: the scheduler does. `leaves`: servers are not durable, and leave their state when they are stopped.
   * `breakChance`: of a link, by frame.
   */
  constructor(
    seed: number,
    {
      isCalm = false,
      keepsState = true,
      leaves = false,
      breakChance = isCalm ? 0 : (seed % 3) * 0.001,
    }: { readonly isCalm?: boolean; readonly keepsState?: boolean; readonly leaves?: boolean; readonly breakChance?: number } = {},
  ) {
    this.#random = new Random(seed * 13 + 7);
    this.cluster = new SimCluster({
      seed,
      serverCount: SERVERS,
      workerCount: WORKERS,
      network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 3), breakChance },
      heartbeatIntervalMs: 500,
      heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
      settle: SETTLING,
      log: this.#log(),
      optionsOf: (node) => {
        if (node === SCHEDULER_ID) return { jobId: `sim/${++this.#run}`, ...(keepsState ? { store: this.#store() } : {}) };
        if (roleOf(node) === "server" && leaves) {
          const found = this.stopped.delete(node) ? this.#logOf(node) : undefined;
          return { stops: { logOf: async () => this.#logOf(node), found }, digestEntries: 7, fillBytes: 200 };
        }
        if (roleOf(node) === "server") return { durable: this.#logOf(node), digestEntries: 7, fillBytes: 200, refillBytes: 8000 };
        return {};
      },
    });
  }

  get servers(): number[] {
    return Array.from({ length: SERVERS }, (_, rank) => idOf("server", rank));
  }

  async start(): Promise<Session[]> {
    const { cluster } = this;
    await cluster.start();
    for (const server of this.servers) new KVServer(cluster.office(server), 0);
    const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
    return await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  }

  /** SIGKILL, or the power fails on its machine. */
  kill(node: number, { power }: { readonly power: boolean }): void {
    this.#mounts.get(node)?.die();
    if (node === SCHEDULER_ID) this.#scheduler?.die();
    this.cluster.kill(node);
    if (power) this.disks.get(node)?.failPower();
  }

  killAll({ power }: { readonly power: boolean }): void {
    for (const node of this.cluster.nodes()) if (this.cluster.running(node) !== undefined) this.kill(node, { power });
  }

  async stop(server: number): Promise<void> {
    await this.cluster.office(server).node.leave();
    this.stopped.add(server);
  }

  async comeBack(server: number): Promise<void> {
    new KVServer(await this.cluster.startNode(server), 0);
  }

  /** A server could not come back. */
  fail(thrown: unknown): void {
    this.failure ??= thrown;
    if (process.env.SIM_LOG !== undefined) console.log(thrown);
  }

  async close(): Promise<void> {
    const { cluster } = this;
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  }

  #logOf(node: number): SegmentLog {
    const directory = `/durable/${nameOf(node).replace(" ", "-")}`;
    const disk = this.disks.get(node) ?? new SimDisk(this.#random, "/durable");
    this.disks.set(node, disk);
    const { clock } = this.cluster;
    const mount = disk.mount(clock, 1);
    this.#mounts.set(node, mount);
    const self = { id: String(this.#random.below(2 ** 30)), host: "sim", pid: 1, startedAt: "" };
    return new SegmentLog({ directory, clock, log: this.#log(), layer: mount.layer, self, isGone: () => true, segmentBytes: 4096 });
  }

  #store(): SimStore {
    this.#scheduler = new SimStore(this.#records, (written) => void this.cluster.clock.after(this.#random.below(5), written));
    return this.#scheduler;
  }

  #log(): Log {
    const note = (message: string, fields?: LogFields): void => {
      if (process.env.SIM_LOG !== undefined) console.log(this.cluster.clock.nowMs().toFixed(1), message, fields);
      if (message === "the state was written anew") this.counts.refills++;
      if (message !== "a node has its rank") return;
      const { node, incarnation } = fields as { readonly node: string; readonly incarnation: number };
      if (this.#ranked.get(node) === incarnation) this.counts.registeredTwice++;
      this.#ranked.set(node, incarnation);
    };
    const say = (message: string, fields?: LogFields): void => {
      note(message, fields);
      this.said.push(message);
    };
    return { debug: () => {}, info: note, warn: say, error: say };
  }
}

type Progress = { sent: number; acknowledged: number };

/** What a worker's own parameters are after so many steps: each is a push to all of them. */
type Values = { readonly tensor: Float32Array; readonly rows: Float32Array; readonly sum: number };

class OwnWork {
  readonly progress: Progress = { sent: 0, acknowledged: 0 };
  readonly #stage: DurableStage;
  readonly #session: Session;
  readonly #seed: number;
  readonly #rank: number;

  constructor(stage: DurableStage, session: Session, seed: number, rank: number) {
    this.#stage = stage;
    this.#session = session;
    this.#seed = seed;
    this.#rank = rank;
  }

  async step(): Promise<void> {
    const { progress } = this;
    const at = ++progress.sent + this.#rank * 1000 + this.#seed;
    const { tensor, rows, kv, keys } = await this.#open();
    await Promise.all([
      tensor.push(noise(SIZE, at), DEADLINE),
      rows.push(ROWS, noise(ROWS.length * DIM, -at), DEADLINE),
      kv.wait(kv.push(keys, Float32Array.of(1)), DEADLINE),
    ]);
    progress.acknowledged++;
  }

  async values(): Promise<Values> {
    const { tensor, rows, kv, keys } = await this.#open();
    const sum = new Float32Array(1);
    await kv.wait(kv.pull(keys, sum), DEADLINE);
    return { tensor: await tensor.pull(DEADLINE), rows: await rows.pull(ROWS, DEADLINE), sum: sum[0] as number };
  }

  #kv: KVWorker | undefined;

  async #open() {
    const optimizer = OPTIMIZERS[this.#seed % OPTIMIZERS.length] as OptimizerSpec;
    const tensor = await this.#session.tensor(`tensor ${this.#rank}`, { shape: [SIZE], consistency: "asp", optimizer, ...DEADLINE });
    const rows = await this.#session.embedding(`rows ${this.#rank}`, { dim: DIM, optimizer, ...DEADLINE });
    this.#kv ??= new KVWorker(this.#stage.cluster.worker(this.#rank), 0);
    return { tensor, rows, kv: this.#kv, keys: BigUint64Array.of(2n ** 62n * BigInt(this.#rank) + 5n) };
  }
}

/** The values after each of so many steps, of a run without faults. */
async function expected(seed: number, steps: number): Promise<Values[][]> {
  const stage = new DurableStage(seed, { isCalm: true });
  const sessions = await stage.start();
  const values: Values[][] = [];
  for (const [rank, session] of sessions.entries()) {
    const work = new OwnWork(stage, session, seed, rank);
    const own: Values[] = [await stage.cluster.run(work.values())];
    for (let i = 0; i < steps; i++) {
      await stage.cluster.run(work.step());
      own.push(await stage.cluster.run(work.values()));
    }
    values.push(own);
  }
  await stage.close();
  return values;
}

/** Between two changes of the placement. */
const MOVE_MS_MAX = 50;
export const CRASHES = 3;
const STEPS_MAX = 40;

export type Blackouts = {
  /** After how many of them everything was found. */
  readonly crashes: number;
  /** How often a state was written anew. */
  readonly refills: number;
  /** How often a node got a rank that it had already: the link broke before it heard so. */
  readonly registeredTwice: number;
};

/** Everything dies at once, several times, until a step is found in part, from which the reference knows no way on. */
export async function runBlackouts(seed: number, links: { readonly breakChance?: number } = {}): Promise<Blackouts> {
  const random = new Random(seed + 99);
  const stage = new DurableStage(seed, { keepsState: seed % 2 === 0, ...links });
  const { cluster } = stage;
  const references = await expected(seed, STEPS_MAX);
  let sessions = await stage.start();
  const done: number[] = sessions.map(() => 0);
  for (let crash = 0; crash < CRASHES; crash++) {
    const works = sessions.map((session, rank) => new OwnWork(stage, session, seed, rank));
    const crashAtMs = cluster.clock.nowMs() + 5 + random.below(400);
    for (const [rank, work] of works.entries()) {
      work.progress.sent = done[rank] as number;
      work.progress.acknowledged = done[rank] as number;
      const push = async (): Promise<void> => {
        while (work.progress.sent < STEPS_MAX) await work.step();
      };
      push().catch(() => {}); // its process dies meanwhile
    }
    await cluster.clock.advance(crashAtMs - cluster.clock.nowMs());
    stage.killAll({ power: random.chance(0.5) });
    sessions = await stage.start();
    let isWhole = true;
    for (const [rank, session] of sessions.entries()) {
      const { sent, acknowledged } = (works[rank] as OwnWork).progress;
      const values = await cluster.run(new OwnWork(stage, session, seed, rank).values());
      const known = references[rank] as Values[];
      // A step that was under way may be there in part: each tensor, row and sum is as before it or as after it.
      const steps = [acknowledged, sent];
      const isOneOf = (of: (value: Values) => unknown): number =>
        steps.findIndex((step) => JSON.stringify(of(values)) === JSON.stringify(of(known[step] as Values)));
      const ofRow = (row: number): number => isOneOf(({ rows }) => [...rows.subarray(row * DIM, (row + 1) * DIM)]);
      const found = [isOneOf(({ tensor }) => [...tensor]), ...ROWS.map((_, row) => ofRow(row)), isOneOf(({ sum }) => sum)];
      assert.ok(!found.includes(-1), `crash ${crash}, worker ${rank}: ${acknowledged} acknowledged, ${sent} sent, found ${found.join()}`);
      isWhole &&= acknowledged === sent || found.every((index) => index === found[0]);
      done[rank] = steps[found[0] as number] as number;
    }
    if (!isWhole) return { crashes: crash + 1, ...stage.counts };
  }
  await stage.close();
  return { crashes: CRASHES, ...stage.counts };
}

/**
 * Servers die one by one, with or without the power, or are stopped, and come back, some of them long after they were
 * declared dead: no call fails, and every step counts once. `leaves`: those that are not durable are only ever stopped.
 * `moves`: parts go from server to server meanwhile, and it counts how often.
 */
export async function runComebacks(
  seed: number,
  { leaves = false, moves }: { readonly leaves?: boolean; readonly moves?: Changes } = {},
): Promise<number> {
  const steps = leaves ? 60 : 30;
  const random = new Random(seed + 5);
  const references = await expected(seed, steps);
  const stage = new DurableStage(seed, { leaves });
  const { cluster } = stage;
  const sessions = await stage.start();
  const stopMoving = moves === undefined ? () => {} : keepChanging(cluster, new Random(seed), MOVE_MS_MAX, moves);
  let isOver = false;
  let comebacks = 0;
  const struck = new Set<number>();
  const strike = (): void => {
    if (isOver) return;
    const server = idOf("server", random.below(SERVERS));
    if (cluster.running(server) !== undefined && !struck.has(server)) {
      comebacks++;
      struck.add(server);
      const awayMs = random.chance(0.3) ? HEARTBEAT_TIMEOUT_MS + random.below(10_000) : random.below(100);
      const isPlanned = leaves || random.chance(0.3);
      const away = async (): Promise<void> => {
        if (isPlanned) await stage.stop(server);
        stage.kill(server, { power: random.chance(0.5) });
        await new Promise<void>((resolve) => cluster.clock.after(awayMs, resolve));
        await stage.comeBack(server);
        struck.delete(server);
      };
      away().catch((thrown: unknown) => stage.fail(thrown));
    }
    cluster.clock.after(100 + random.below(400), strike);
  };
  cluster.clock.after(20 + random.below(50), strike);
  const work = async (session: Session, rank: number): Promise<Values> => {
    const own = new OwnWork(stage, session, seed, rank);
    for (let i = 0; i < steps; i++) await own.step();
    return await own.values();
  };
  const values = await cluster.run(Promise.all(sessions.map(work)));
  isOver = true;
  stopMoving();
  assert.equal(stage.failure, undefined);
  for (const [rank, value] of values.entries()) assert.deepEqual(value, references[rank]?.[steps], `worker ${rank}`);
  await cluster.clock.advance(1000);
  await stage.close();
  return comebacks;
}
