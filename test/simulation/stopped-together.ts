// stopped-together — Goal: both processes of a server rank are stopped close to each other, at random times, at every
// boundary between two events, or all ranks at once, while a worker pushes. One of the two leaves the whole state, the
// rank is awaited, and the next processes go on from there: no call fails, and every push counts once.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { SegmentLog } from "../../src/node/durable/segment-log.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, nameOf, rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { RosterEntry } from "../../src/wire/roster.ts";
import { SETTLING } from "../support/settling.ts";
import { stopLog } from "./planned-stops.ts";
import { SimStore } from "./replicated-job.ts";
import { SimDisk } from "./sim-disk.ts";

const DEADLINE = { timeoutMs: 120_000 };
const KEYS = [1, 2, 3, 4, 5, 6, 7, 8];
/** So close to each other the two of a rank are stopped. */
const SPREAD_MS = 30;
/** A stop that takes longer than this hangs. */
const STOP_MS_MAX = 20_000;
const RESTART_MS = 40;
/** What a disk may take before the state can be written. */
const DISK_MS = 400;
/** In a move of this length they are stopped. */
const MOVE_MS = 200;
/** So many events after the end of the first one, the other one has heard of it. */
const EVENTS_AFTER = 100;

export type TogetherOptions = {
  readonly seed: number;
  readonly serverCount?: number;
  /** False: without a checkpoint directory. */
  readonly hasDirectory?: boolean;
  readonly fillBytes?: number;
};

export class TogetherStage implements AsyncDisposable {
  readonly cluster: SimCluster;
  readonly random: Random;
  /** What nodes have said at warn and error. */
  readonly said: string[] = [];
  readonly #disk: SimDisk;
  readonly #serverCount: number;
  readonly #records: StateRecord[] = [];
  #store: SimStore | undefined;
  /** The next processes of the ranks find what was left. */
  #areNext = false;
  #pushing: Promise<void> = Promise.resolve();
  #pushed = 0;
  #isEnough = false;

  constructor({ seed, serverCount = 1, hasDirectory = true, fillBytes = 200 }: TogetherOptions) {
    this.random = new Random(seed);
    this.#disk = new SimDisk(this.random, "/stopped");
    this.#serverCount = serverCount;
    this.cluster = new SimCluster({
      seed,
      serverCount,
      workerCount: 1,
      replicas: 2,
      network: { latencyMsMin: 0.3, latencyMsMax: 3 },
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs: 500,
      settle: SETTLING,
      log: this.#log(),
      optionsOf: (node) => {
        if (node === SCHEDULER_ID) return { store: this.#nextStore() };
        if (roleOf(node) === "worker") return {};
        const found = this.#areNext && roleOf(node) === "server" ? this.#logOf(rankOf(node)) : undefined;
        const stops = hasDirectory ? { logOf: (rank: number) => this.#slowLogOf(rank), found } : undefined;
        return { stops, fillBytes, digestEntries: 7 };
      },
    });
  }

  get servers(): readonly number[] {
    return Array.from({ length: this.#serverCount }, (_, rank) => idOf("server", rank));
  }

  get standbys(): readonly number[] {
    return Array.from({ length: this.#serverCount }, (_, rank) => idOf("standby", rank));
  }

  /** Starts all nodes, and a worker that pushes until the end. */
  async open(): Promise<this> {
    const { cluster } = this;
    await cluster.start();
    const session = await cluster.run(Session.open(cluster.worker(0).node, DEADLINE));
    this.#pushing = this.#push(session);
    this.#pushing.catch(() => {}); // `end` has its failure
    await this.goOn();
    return this;
  }

  async #push(session: Session): Promise<void> {
    const rows = await session.embedding("rows", { dim: 1, optimizer: { type: "sum" }, ...DEADLINE });
    while (!this.#isEnough) {
      await rows.push(KEYS, new Float32Array(KEYS.length).fill(1), DEADLINE);
      const pushed = this.#pushed + 1;
      const sums = await rows.pull(KEYS, DEADLINE);
      if (sums.some((sum) => sum !== pushed)) throw new Error(`${pushed} pushes came to ${sums.join(", ")}`);
      this.#pushed = pushed;
    }
  }

  /** Waits for a few more pushes. */
  async goOn(): Promise<void> {
    const until = this.#pushed + 3;
    const reached = (async (): Promise<void> => {
      while (this.#pushed < until) await new Promise<void>((resolve) => void this.cluster.clock.after(1, resolve));
    })();
    await this.cluster.run(Promise.race([reached, this.#pushing]));
  }

  /** As SIGTERM; the process has ended when it resolves. */
  async stop(node: number): Promise<void> {
    await this.cluster.office(node).node.leave();
    this.cluster.kill(node);
  }

  /** Lets both of each rank stop, and checks that the rank is awaited. */
  async stopped(stops: Promise<unknown>): Promise<void> {
    const { cluster } = this;
    const fromMs = cluster.clock.nowMs();
    await cluster.run(stops);
    const tookMs = cluster.clock.nowMs() - fromMs;
    assert.ok(tookMs < STOP_MS_MAX, `the stops took ${tookMs} ms`);
    if (cluster.running(SCHEDULER_ID) === undefined) await cluster.clock.advance(2 * RESTART_MS);
    for (const node of this.servers) {
      const { state, returns } = this.entry(node) ?? {};
      assert.deepEqual([state, returns], ["dead", true], `${nameOf(node)}: ${this.said.join("; ")}`);
    }
  }

  /** The next process of this rank comes. */
  async start(server: number): Promise<void> {
    this.#areNext = true;
    await this.cluster.run(this.cluster.startNode(server));
    this.#areNext = false;
  }

  /** The next processes of all ranks come: pushes go on, and each rank has two copies again. */
  async startAgain(): Promise<void> {
    const { cluster } = this;
    this.#areNext = true;
    await cluster.run(Promise.all([...this.servers, ...this.standbys].map((node) => cluster.startNode(node))));
    await this.goOn();
    while (this.standbys.some((node) => this.entry(node)?.state !== "alive" || this.entry(node)?.isFilling === true)) await this.goOn();
    this.#areNext = false;
  }

  /** No call has failed, and every push counts once. */
  async end(): Promise<void> {
    this.#isEnough = true;
    await this.cluster.run(this.#pushing);
  }

  killScheduler(): void {
    const { cluster } = this;
    if (cluster.running(SCHEDULER_ID) === undefined) return;
    this.#store?.die();
    cluster.kill(SCHEDULER_ID);
    cluster.clock.after(this.random.below(RESTART_MS), () => void cluster.startNode(SCHEDULER_ID));
  }

  entry(node: number): RosterEntry | undefined {
    return this.cluster.scheduler.roster.nodes.find((entry) => entry.node === node);
  }

  #nextStore(): SimStore {
    this.#store = new SimStore(this.#records, (written) => void this.cluster.clock.after(this.random.below(4), written));
    return this.#store;
  }

  /** As where something old has to be removed first. */
  async #slowLogOf(rank: number): Promise<SegmentLog> {
    await new Promise<void>((resolve) => void this.cluster.clock.after(this.random.below(DISK_MS), resolve));
    return this.#logOf(rank);
  }

  #logOf(rank: number): SegmentLog {
    return stopLog({
      mount: this.#disk.mount(this.cluster.clock, 1),
      random: this.random,
      clock: this.cluster.clock,
      log: this.#log(),
      rank,
    });
  }

  #log(): Log {
    const note = (message: string, fields?: unknown): void => {
      if (process.env.SIM_LOG !== undefined) console.log(this.cluster.clock.nowMs().toFixed(1), message, fields);
    };
    const say = (message: string, fields?: unknown): void => {
      note(message, fields);
      this.said.push(message);
    };
    return { debug: () => {}, info: note, warn: say, error: say };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { cluster } = this;
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  }
}

export type Together = TogetherOptions & {
  /** The scheduler dies meanwhile, and is started again. */
  readonly dies?: boolean;
  /** The standbys have come just now, and are being filled. */
  readonly areFilling?: boolean;
};

/** All copies of all ranks are stopped at random times close to each other. */
export async function stopTogether({ dies = false, areFilling = false, ...options }: Together): Promise<void> {
  await using stage = await new TogetherStage(options).open();
  const { cluster, random } = stage;
  const later = async (run: () => void | Promise<void>): Promise<void> => {
    await new Promise<void>((resolve) => void cluster.clock.after(random.below(SPREAD_MS * 8) / 8, resolve));
    await run();
  };
  if (areFilling) {
    for (const node of stage.standbys) cluster.kill(node);
    while (stage.standbys.some((node) => stage.entry(node)?.state === "alive")) await stage.goOn();
    await cluster.run(Promise.all(stage.standbys.map((node) => cluster.startNode(node))));
  }
  const stops = [...stage.servers, ...stage.standbys].map((node) => later(() => stage.stop(node)));
  if (dies) stops.push(later(() => stage.killScheduler()));
  await stage.stopped(Promise.all(stops));
  await stage.startAgain();
  await stage.end();
}

/**
 * The standby is stopped, and another one comes at once; meanwhile the head is stopped. It hands over to the new one,
 * if that has everything by then, or saves, and fills nobody any more. Returns which.
 */
export async function stopWhileReplaced(seed: number): Promise<"handed over" | "saved"> {
  await using stage = await new TogetherStage({ seed, fillBytes: 100_000 }).open();
  const { cluster, random } = stage;
  const [head, standby] = [idOf("server", 0), idOf("standby", 0)];
  const pause = async (msMax: number): Promise<void> =>
    await new Promise<void>((resolve) => void cluster.clock.after(random.below(msMax * 8) / 8, resolve));
  const left = stage.stop(standby);
  const replaced = left.then(async () => {
    await pause(4);
    await cluster.startNode(standby);
  });
  const stopHead = async (): Promise<void> => {
    await pause(40);
    await stage.stop(head);
  };
  await cluster.run(Promise.all([left, stopHead()]));
  const { state, returns, incarnation } = stage.entry(head) ?? {};
  const isAwaited = state === "dead" && returns === true;
  if (isAwaited) await stage.start(head);
  else assert.deepEqual([state, incarnation], ["alive", 2], stage.said.join("; "));
  await cluster.run(replaced);
  await stage.goOn();
  if (!isAwaited) cluster.takenOver(0);
  await stage.end();
  return isAwaited ? "saved" : "handed over";
}

/**
 * Both copies of a rank are stopped while parts move from another server to it. Whether the move is made or taken back,
 * one of the two waits until parts have settled, and saves.
 */
export async function stopCopiesWhileMoving(seed: number): Promise<void> {
  await using stage = await new TogetherStage({ seed, serverCount: 3 }).open();
  const { cluster, random } = stage;
  const [head, standby] = [idOf("server", 1), idOf("standby", 1)];
  const moving = cluster.scheduler.scheduler?.moveTo([0, 1]).catch(() => {}); // it may be taken back
  const stop = async (node: number): Promise<void> => {
    await new Promise<void>((resolve) => void cluster.clock.after(random.below(MOVE_MS), resolve));
    await stage.stop(node);
  };
  await cluster.run(Promise.all([stop(head), stop(standby)]));
  assert.equal(stage.entry(head)?.returns, true, stage.said.join("; "));
  await stage.start(head);
  await stage.goOn();
  await cluster.run(Promise.all([moving, cluster.startNode(standby)]));
  await stage.goOn();
  await stage.end();
}

/**
 * One copy is stopped, and the other one so many events later. Returns whether the stop of the first was over long
 * before: later boundaries show nothing.
 */
export async function stopAtBoundary(first: "head" | "standby", events: number): Promise<boolean> {
  await using stage = await new TogetherStage({ seed: 3 }).open();
  const [head, standby] = [idOf("server", 0), idOf("standby", 0)];
  const [one, other] = first === "head" ? [head, standby] : [standby, head];
  let isOver = false;
  const stopping = stage.stop(one).finally(() => {
    isOver = true;
  });
  let sinceEnd = 0;
  for (let i = 0; i < events && sinceEnd < EVENTS_AFTER; i++) {
    if (isOver) sinceEnd++;
    stage.cluster.clock.step();
    await setImmediate();
  }
  await stage.stopped(Promise.all([stopping, stage.stop(other)]));
  await stage.startAgain();
  await stage.end();
  return sinceEnd === EVENTS_AFTER;
}
