// sim-cluster — a whole cluster in one process and in simulated time, from a seed: scheduler, servers and workers as
// Postoffices over a SimNetwork. A test kills nodes and starts them again, cuts and breaks links, and makes them lossy.
// The same seed gives the same run.

import { assert } from "../base/assert.ts";
import { checkOptions } from "../base/known-options.ts";
import type { Log } from "../base/log.ts";
import { Random } from "../base/random.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import type { FaultOptions } from "../peer/faults.ts";
import { idOf, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { WorkerNode } from "../worker/worker-node.ts";
import { sessionServices } from "./session-services.ts";
import { SimClock, type SimClockOptions } from "./sim-clock.ts";
import { SimNetwork, type SimNetworkOptions } from "./sim-network.ts";
import { type OfficeOptions, startOffice } from "./start-office.ts";

/** What a simulated cluster consists of, and what goes wrong in it. */
export type SimClusterOptions = {
  /** One seed, one run. */
  readonly seed: number;
  /** How many servers it has. */
  readonly serverCount: number;
  /** How many workers it has. */
  readonly workerCount: number;
  /** By how many processes each server rank is held: 2 adds a standby for each. Defaults to 1. */
  readonly replicas?: number | undefined;
  /** How parts are dealt out to the servers. Left out, the seed decides: odd ones have a ring, even ones ranges. */
  readonly placement?: "ring" | "range" | undefined;
  /** Frames lost, doubled and swapped on every channel; its seed is the cluster's. */
  readonly faults?: Omit<FaultOptions, "seed"> | undefined;
  /** How its network behaves. */
  readonly network?: Omit<SimNetworkOptions, "clock" | "seed"> | undefined;
  /** As of the configuration. */
  readonly heartbeatIntervalMs?: number | undefined;
  /** As of the configuration. */
  readonly heartbeatTimeoutMs?: number | undefined;
  /** As of the configuration. */
  readonly startTimeoutMs?: number | undefined;
  /** As of the configuration. */
  readonly resendTimeoutMs?: number | undefined;
  /** As of the configuration. */
  readonly linkTimeoutMs?: number | undefined;
  /** @internal */
  readonly log?: Log;
  /** @internal What a node is started with beside all that, each time it is started. */
  readonly optionsOf?: (node: number) => Partial<OfficeOptions>;
  /** See SimClock: how to wait for promises between events. */
  readonly settle?: SimClockOptions["settle"] | undefined;
};

const CLUSTER_OPTIONS: readonly (keyof SimClusterOptions)[] = [
  ...(["seed", "serverCount", "workerCount", "replicas", "placement", "faults", "network", "log", "optionsOf", "settle"] as const),
  ...(["heartbeatIntervalMs", "heartbeatTimeoutMs", "startTimeoutMs", "resendTimeoutMs", "linkTimeoutMs"] as const),
];
const ARENA_BYTES = 64 * 1024 * 1024;
const SCHEDULER_ADDRESS = "sim://scheduler:1";
/** A run that takes longer than this in simulated time hangs. */
const RUN_MS_MAX = 600_000;

/** A whole job in simulated time: a scheduler, servers and workers on a simulated network. */
export class SimCluster {
  /** Its time. */
  readonly clock: SimClock;
  /** Its network. */
  readonly network: SimNetwork;
  /** What its delays are drawn from. */
  readonly random: Random;
  readonly #options: SimClusterOptions;
  readonly #offices = new Map<number, Postoffice>();
  /** Of nodes that do not run where they ran first. */
  readonly #hosts = new Map<number, string>();
  #holders = 0;

  constructor(options: SimClusterOptions) {
    checkOptions(options, CLUSTER_OPTIONS, "the options of a SimCluster");
    this.#options = options;
    this.clock = new SimClock(options.settle === undefined ? {} : { settle: options.settle });
    this.random = new Random(options.seed);
    this.network = new SimNetwork({ clock: this.clock, seed: options.seed, ...options.network });
  }

  /** Starts every node and waits until the cluster is complete. */
  async start(): Promise<void> {
    await this.run(Promise.all(this.nodes().map((node) => this.startNode(node))));
  }

  /** The ids of all nodes, scheduler first. */
  nodes(): number[] {
    const { serverCount, workerCount, replicas = 1 } = this.#options;
    const ids = (role: Role, count: number): number[] => Array.from({ length: count }, (_, rank) => idOf(role, rank));
    const standbys = ids("standby", serverCount * (replicas - 1));
    return [SCHEDULER_ID, ...ids("server", serverCount), ...standbys, ...ids("worker", workerCount)];
  }

  /** The host on which a node runs. */
  hostOf(node: number): string {
    return this.#hosts.get(node) ?? this.#firstHostOf(node);
  }

  #firstHostOf(node: number): string {
    return node === SCHEDULER_ID ? "scheduler" : nameOf(node).replace(" ", "-");
  }

  /** The node's Postoffice; fails for one that was killed. */
  office(node: number): Postoffice {
    const office = this.#offices.get(node);
    assert(office !== undefined, `${nameOf(node)} is not running`);
    return office;
  }

  /** The node's Postoffice, if it runs. */
  running(node: number): Postoffice | undefined {
    return this.#offices.get(node);
  }

  /** The server of this rank. */
  server(rank: number): Postoffice {
    return this.office(idOf("server", rank));
  }

  /** The worker of this rank. */
  worker(rank: number): Postoffice {
    return this.office(idOf("worker", rank));
  }

  /** The scheduler. */
  get scheduler(): Postoffice {
    return this.office(SCHEDULER_ID);
  }

  /** A standby has taken over: its process is that of the server from now on. */
  takenOver(rank: number): void {
    const [head, standby] = [idOf("server", rank), idOf("standby", rank)];
    const [office, host] = [this.office(standby), this.hostOf(standby)];
    this.#offices.delete(standby);
    this.#offices.set(head, office);
    this.#hosts.set(head, host);
  }

  /**
   * Starts a node that is not running, with its old rank, maybe on another host. The promise is the caller's to run.
   */
  async startNode(node: number, otherHost?: string): Promise<Postoffice> {
    if (otherHost !== undefined) this.#hosts.set(node, otherHost);
    const { seed, serverCount, workerCount, faults, resendTimeoutMs, heartbeatIntervalMs, heartbeatTimeoutMs, startTimeoutMs, log } =
      this.#options;
    const { linkTimeoutMs } = this.#options;
    const host = this.hostOf(node);
    const office = await startOffice({
      role: roleOf(node),
      rank: rankOf(node),
      serverCount,
      workerCount,
      schedulerAddress: SCHEDULER_ADDRESS,
      ...(roleOf(node) === "server" || roleOf(node) === "standby" ? { listenAddress: `sim://${host}:0` } : {}),
      ...(roleOf(node) === "worker" ? { meshAddress: `sim://${host}:0` } : {}),
      label: host,
      transport: this.network.host(host),
      clock: this.clock,
      ...(log === undefined ? {} : { log }),
      heartbeatIntervalMs: heartbeatIntervalMs ?? 200,
      heartbeatTimeoutMs: heartbeatTimeoutMs ?? 2000,
      startTimeoutMs: startTimeoutMs ?? 30_000,
      resendTimeoutMs: resendTimeoutMs ?? (faults === undefined ? 0 : 100),
      linkTimeoutMs,
      faults: faults === undefined ? undefined : { ...faults, seed },
      arenaBytesMax: ARENA_BYTES,
      touchesAhead: false, // A server of a simulation has a few rows, and is gone in a moment.
      replicas: this.#options.replicas,
      jobId: `sim-${seed}`,
      placement: this.#options.placement ?? (seed % 2 === 1 ? "ring" : "range"),
      incarnation: ++this.#holders,
      ...this.#options.optionsOf?.(node),
    });
    this.#offices.set(node, office);
    return office;
  }

  /** @internal A guest on a host of this name, started. The promise is the caller's to run. */
  async startGuest(host: string): Promise<WorkerNode> {
    const { startTimeoutMs, linkTimeoutMs, log } = this.#options;
    const guest = new WorkerNode({
      isGuest: true,
      serverCount: 0,
      workerCount: 0,
      schedulerAddress: SCHEDULER_ADDRESS,
      label: host,
      transport: this.network.host(host),
      clock: this.clock,
      startTimeoutMs: startTimeoutMs ?? 30_000,
      linkTimeoutMs,
      sessions: sessionServices,
      ...(log === undefined ? {} : { log }),
    });
    await guest.start();
    return guest;
  }

  /** Kills a node as SIGKILL would: its links end abruptly, and nothing of it runs on. */
  kill(node: number): void {
    const office = this.office(node);
    this.#offices.delete(node);
    this.network.crash(this.hostOf(node));
    office.close().catch(() => {}); // what it sends reaches no node; this only ends its timers
  }

  /** Lets time pass until the promise settles. Fails instead of hanging. */
  async run<T>(promise: Promise<T>): Promise<T> {
    return await this.clock.runUntil(promise, { untilMs: this.clock.nowMs() + RUN_MS_MAX, maxEvents: 2_000_000 });
  }

  /** All nodes leave together. */
  async finalize(): Promise<void> {
    await this.run(Promise.all([...this.#offices.values()].map((office) => office.finalize())));
  }
}
