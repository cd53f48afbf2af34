// replicated-job — what the simulations of replicated servers share: two ranks, each with a head and a standby, two
// workers with sessions, and a scheduler that is killed and started again with what it had written down.

import { Session } from "../../src/api/session.ts";
import type { Log } from "../../src/base/log.ts";
import type { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import type { StateStore } from "../../src/scheduler/state-store.ts";
import type { ServerNodeOptions } from "../../src/server/server-node.ts";
import type { PlugInModule } from "../../src/store/plug-ins.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { WorkerNodeOptions } from "../../src/worker/worker-node.ts";
import { SETTLING } from "../support/settling.ts";

export const SERVERS = 2;
export const WORKERS = 2;
export const DEADLINE = { timeoutMs: 120_000 } as const;

/** A disk that outlives schedulers. */
export class SimStore implements StateStore {
  onLost: StateStore["onLost"] = () => {};
  readonly isHeld: boolean = true;
  readonly standbys: readonly string[] = [];
  readonly location: string = "a simulated disk";
  readonly #records: StateRecord[];
  readonly #later: (written: () => void) => void;
  #isDead = false;
  /** Called when records are to be written, before they are. */
  onWrite: () => void = () => {};

  constructor(records: StateRecord[], later: (written: () => void) => void) {
    this.#records = records;
    this.#later = later;
  }

  async open(): Promise<readonly StateRecord[]> {
    return structuredClone(this.#records);
  }

  async append(records: readonly StateRecord[]): Promise<void> {
    await this.#write(() => this.#records.push(...structuredClone(records)));
  }

  async replace(records: readonly StateRecord[]): Promise<void> {
    await this.#write(() => this.#records.splice(0, this.#records.length, ...structuredClone(records)));
  }

  async clear(): Promise<void> {}

  async close(): Promise<void> {}

  /** Its process is gone, and so is what it has not written. */
  die(): void {
    this.#isDead = true;
  }

  async #write(write: () => void): Promise<void> {
    this.onWrite();
    await new Promise<void>((written) => this.#later(written));
    if (this.#isDead) await new Promise<never>(() => {});
    write();
  }
}

export type ReplicatedJobOptions = {
  readonly seed: number;
  /** Of what happens to the job. */
  readonly random: Random;
  readonly network: NonNullable<SimClusterOptions["network"]>;
  /** Of servers and workers. */
  readonly options: { readonly digestEntries: number; readonly fillBytes?: number; readonly plugIns?: readonly PlugInModule[] } & Partial<
    Pick<ServerNodeOptions, "compression"> & Pick<WorkerNodeOptions, "sessions">
  >;
  readonly log?: Log;
  /** After which a silent node is dead; 500 by default. */
  readonly heartbeatTimeoutMs?: number;
};

export class ReplicatedJob {
  readonly cluster: SimCluster;
  readonly #random: Random;
  /** What schedulers have written down. */
  readonly #records: StateRecord[] = [];
  #store: SimStore | undefined;

  constructor({ seed, random, network, options, log, heartbeatTimeoutMs = 500 }: ReplicatedJobOptions) {
    this.#random = random;
    this.cluster = new SimCluster({
      seed,
      serverCount: SERVERS,
      workerCount: WORKERS,
      replicas: 2,
      network,
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs,
      settle: SETTLING,
      ...(log === undefined ? {} : { log }),
      optionsOf: (node) => (node === SCHEDULER_ID ? { store: this.#nextStore() } : options),
    });
  }

  /**
   * Starts all nodes, with application 0 of kv, and opens a session of each worker. Nothing may happen to them before.
   */
  async start(): Promise<readonly Session[]> {
    const { cluster } = this;
    await cluster.start();
    for (let rank = 0; rank < SERVERS; rank++)
      for (const role of ["server", "standby"] as const) new KVServer(cluster.office(idOf(role, rank)), 0);
    return await cluster.run(Promise.all(workerRanks().map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  }

  /** The store of the scheduler that runs, or ran last. */
  get store(): SimStore | undefined {
    return this.#store;
  }

  /** That of the scheduler that starts next. */
  #nextStore(): SimStore {
    this.#store = new SimStore(this.#records, (written) => void this.cluster.clock.after(this.#random.below(5), written));
    return this.#store;
  }

  /** As SIGKILL does, if it runs; what was not written by then is lost. It is started again within so many ms. */
  killScheduler(withinMs: number): void {
    const { cluster } = this;
    if (cluster.running(SCHEDULER_ID) === undefined) return;
    this.#store?.die();
    cluster.kill(SCHEDULER_ID);
    cluster.clock.after(this.#random.below(withinMs), () => void cluster.startNode(SCHEDULER_ID));
  }

  /** The workers are done: scheduler and workers end. */
  async end(): Promise<void> {
    const { cluster } = this;
    cluster.network.heal();
    cluster.network.breakChance = 0;
    const nodes = [SCHEDULER_ID, ...workerRanks().map((rank) => idOf("worker", rank))];
    await cluster.run(Promise.all(nodes.map((node) => cluster.running(node)?.close())));
  }
}

function workerRanks(): readonly number[] {
  return Array.from({ length: WORKERS }, (_, rank) => rank);
}

export function noise(length: number, seed: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233));
}
