// planned-stops — one server rank with a checkpoint directory, whose processes are stopped and started again, with or
// without a standby: what the simulations of planned stops share.

import { Session } from "../../src/api/session.ts";
import type { Clock } from "../../src/base/clock.ts";
import type { WaitOptions } from "../../src/base/deferred.ts";
import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { PsFunction } from "../../src/contracts/ps-function.ts";
import { SegmentLog } from "../../src/node/durable/segment-log.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { RosterEntry } from "../../src/wire/roster.ts";
import { SETTLING } from "../support/settling.ts";
import { SimStore } from "./replicated-job.ts";
import { type Mount, SimDisk } from "./sim-disk.ts";

export const HEAD: number = idOf("server", 0);
export const STANDBY: number = idOf("standby", 0);
const DEADLINE = { timeoutMs: 120_000 };

export type StopStageOptions = {
  readonly replicas?: number;
  readonly functions?: readonly PsFunction[];
  readonly startTimeoutMs?: number;
};

/** Where the server of this rank leaves its state, or a process after it finds that, on a disk with `/stopped`. */
export function stopLog(options: {
  readonly mount: Mount;
  readonly random: Random;
  readonly clock: Clock;
  readonly log: Log;
  readonly rank: number;
}): SegmentLog {
  const { mount, random, clock, log, rank } = options;
  const { layer } = mount;
  const self = { id: String(random.below(2 ** 30)), host: "sim", pid: 1, startedAt: "" };
  const directory = `/stopped/server-${rank}`;
  return new SegmentLog({ directory, clock, log, layer, self, isGone: () => true, segmentBytes: 4096, mayBeUnfinished: true });
}

export class StopStage implements AsyncDisposable {
  readonly cluster: SimCluster;
  session!: Session;
  /** What nodes have said at warn and error, with the reason. */
  readonly said: string[] = [];
  /** Whether the next process of the rank finds what was left. */
  hasLeft = false;
  readonly #random = new Random(5);
  readonly #disk = new SimDisk(this.#random, "/stopped");
  /** Of the process of the head that was started last. */
  #mount: Mount | undefined;
  #pushed = 0;
  #ended: AbortController | undefined;

  constructor({ replicas = 1, functions = [], startTimeoutMs = 30_000 }: StopStageOptions = {}) {
    const records: StateRecord[] = [];
    this.cluster = new SimCluster({
      seed: 1,
      serverCount: 1,
      workerCount: 1,
      replicas,
      startTimeoutMs,
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs: 500,
      settle: SETTLING,
      log: this.#log(),
      optionsOf: (node) => {
        if (node === SCHEDULER_ID) return { store: new SimStore(records, (written) => written()) };
        if (roleOf(node) === "worker") return {};
        const found = node === HEAD && this.hasLeft ? this.#logOf() : undefined;
        if (found !== undefined) this.hasLeft = false;
        const stops = { logOf: async () => this.#logOf(), found };
        return { stops, functions, fillBytes: 200, digestEntries: 7, signal: this.#ended?.signal } as never;
      },
    });
  }

  async open(): Promise<this> {
    await this.cluster.start();
    this.session = await this.cluster.run(Session.open(this.cluster.worker(0).node, DEADLINE));
    return this;
  }

  /** Pushes to a row, and rejects unless the server then has all pushes, each once. */
  async push(wait: WaitOptions = DEADLINE): Promise<void> {
    const rows = await this.session.embedding("rows", { dim: 4, optimizer: { type: "sum" }, ...wait });
    const pushed = ++this.#pushed;
    await rows.push([1, pushed + 1], new Float32Array(8).fill(1), wait);
    const [sum] = await rows.pull([1], wait);
    if (sum !== pushed) throw new Error(`${pushed} pushes came to ${sum}`);
  }

  /** As SIGTERM; the process has ended when it resolves. */
  async stop(): Promise<void> {
    await this.cluster.office(HEAD).node.leave();
    this.hasLeft = true;
    this.cluster.kill(HEAD);
  }

  async start(): Promise<void> {
    await this.cluster.startNode(HEAD);
  }

  /** Starts the next process of the rank and ends it so soon, as by SIGTERM. Returns whether it was still starting. */
  async startAndStop(afterMs: number): Promise<boolean> {
    const { cluster } = this;
    const ended = new AbortController();
    this.#ended = ended;
    const cancel = cluster.clock.after(afterMs, () => ended.abort());
    try {
      await cluster.startNode(HEAD);
    } catch (thrown) {
      if (!ended.signal.aborted) throw thrown;
      cluster.network.crash(cluster.hostOf(HEAD));
      this.#mount?.die(); // it no longer holds the lock of what it has not gone on with
      this.hasLeft = true;
      return true;
    } finally {
      cancel();
      this.#ended = undefined;
    }
    await this.stop();
    return false;
  }

  /** How many files were left. */
  async savedFiles(): Promise<number> {
    const { layer } = this.#disk.mount(this.cluster.clock, 0);
    const found = layer.list("/stopped/server-0").catch(() => []); // there is no such directory
    return (await this.cluster.run(found)).filter((name) => name !== "lock").length;
  }

  /** Whether a server has said that what it has is lost with it. */
  get isLost(): boolean {
    return this.said.some((line) => /is lost with/.test(line));
  }

  entry(node: number): RosterEntry | undefined {
    return this.cluster.scheduler.roster.nodes.find((entry) => entry.node === node);
  }

  #logOf(): SegmentLog {
    this.#mount = this.#disk.mount(this.cluster.clock, 1);
    return stopLog({
      mount: this.#mount,
      random: this.#random,
      clock: this.cluster.clock,
      log: this.#log(),
      rank: 0,
    });
  }

  #log(): Log {
    const note = (message: string, fields?: { readonly reason?: unknown }): void => {
      if (process.env.SIM_LOG !== undefined) console.log(this.cluster.clock.nowMs().toFixed(1), message, fields);
    };
    const say = (message: string, fields?: { readonly reason?: unknown }): void => {
      note(message, fields);
      this.said.push(typeof fields?.reason === "string" ? `${message}: ${fields.reason}` : message);
    };
    return { debug: () => {}, info: note, warn: say, error: say };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { cluster } = this;
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  }
}
