// memory-cluster — a whole cluster in one process over memory links and a simulated clock, without latency or losses:
// every run is the same. For tests of what nodes send to each other; SimCluster simulates a network.

import type { Log, LogFields } from "../base/log.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import type { Link, LinkReader, Transport } from "../transport/transport.ts";
import { idOf, type Role } from "../wire/node-id.ts";
import { SimClock } from "./sim-clock.ts";
import { type OfficeOptions, startOffice } from "./start-office.ts";

export type MemoryClusterOptions = Partial<Omit<OfficeOptions, "role" | "rank" | "transport" | "clock" | "log">>;

const ARENA_BYTES = 256 * 1024 * 1024;
const SCHEDULER_ADDRESS = "memory://scheduler";
/** A wait that takes longer than this in simulated time is a hang. */
const RUN_MS_MAX = 600_000;

export class MemoryCluster {
  readonly clock: SimClock = new SimClock();
  readonly hub: MemoryHub = new MemoryHub();
  readonly serverCount: number;
  readonly workerCount: number;
  /** What nodes said about themselves: "error a callback failed". */
  readonly logLines: string[] = [];
  /** Links that a node dialed or accepted, in order, by its id. */
  readonly links: Map<number, Link[]> = new Map();
  readonly #options: MemoryClusterOptions;
  readonly #offices = new Map<number, Postoffice>();

  constructor(options: MemoryClusterOptions = {}) {
    this.#options = options;
    this.serverCount = options.serverCount ?? 1;
    this.workerCount = options.workerCount ?? 1;
  }

  /** A cluster whose nodes are all there. */
  static async start(options: MemoryClusterOptions = {}): Promise<MemoryCluster> {
    const cluster = new MemoryCluster(options);
    const ranks = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    await cluster.run(
      Promise.all([
        cluster.startNode("scheduler", 0),
        ...ranks(cluster.serverCount).map((rank) => cluster.startNode("server", rank)),
        ...ranks(cluster.workerCount).map((rank) => cluster.startNode("worker", rank)),
      ]),
    );
    return cluster;
  }

  async startNode(role: Role, rank: number, options: MemoryClusterOptions = {}): Promise<Postoffice> {
    const node = idOf(role, rank);
    const office = await startOffice({
      serverCount: this.serverCount,
      workerCount: this.workerCount,
      schedulerAddress: SCHEDULER_ADDRESS,
      ...(role === "server" ? { listenAddress: `memory://server-${rank}`, arenaBytesMax: ARENA_BYTES } : {}),
      ...(role === "worker" ? { meshAddress: `memory://worker-${rank}` } : {}),
      ...(role === "scheduler" ? {} : { rank }),
      role,
      label: `${role} ${rank}`,
      clock: this.clock,
      log: lineLog((level, message) => this.logLines.push(`${level} ${message}`)),
      transport: this.#transport(node),
      ...this.#options,
      ...options,
    });
    this.#offices.set(node, office);
    return office;
  }

  get scheduler(): Postoffice {
    return this.#office("scheduler", 0);
  }

  server(rank = 0): Postoffice {
    return this.#office("server", rank);
  }

  worker(rank = 0): Postoffice {
    return this.#office("worker", rank);
  }

  /** Lets events happen until the promise settles. Fails instead of hanging. */
  async run<T>(promise: Promise<T>): Promise<T> {
    return await this.clock.runUntil(promise, { untilMs: this.clock.nowMs() + RUN_MS_MAX, maxEvents: 10_000_000 });
  }

  /** Lets events happen until server 0 has read so many more frames. */
  settleFrames(frameCount: number): void {
    const { metrics } = this.server();
    const until = metrics.framesReceived + frameCount;
    while (metrics.framesReceived < until && this.clock.step());
  }

  async finalize(): Promise<void> {
    await this.run(Promise.all([...this.#offices.values()].map((office) => office.finalize())));
  }

  #office(role: Role, rank: number): Postoffice {
    const office = this.#offices.get(idOf(role, rank));
    if (office === undefined) throw new Error(`${role} ${rank} was not started`);
    return office;
  }

  #transport(node: number): Transport {
    const links: Link[] = [];
    this.links.set(node, links);
    return tappedTransport(new MemoryTransport({ clock: this.clock, hub: this.hub }), (link) => links.push(link));
  }
}

/** Shows the links of a node to the test; what `opened` throws refuses a link. */
export function tappedTransport(inner: Transport, opened: (link: Link) => void): Transport {
  const tapped =
    (readerFor: (link: Link) => LinkReader) =>
    (link: Link): LinkReader => {
      opened(link);
      return readerFor(link);
    };
  return {
    listen: (address, accept) => inner.listen(address, tapped(accept)),
    connect: (address, open, options) => inner.connect(address, tapped(open), options),
  };
}

/** Shows every line to the test. */
export function lineLog(take: (level: keyof Log, message: string, fields: LogFields | undefined) => void): Log {
  const line =
    (level: keyof Log) =>
    (message: string, fields?: LogFields): void =>
      take(level, message, fields);
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}
