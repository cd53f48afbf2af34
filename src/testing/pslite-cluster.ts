// pslite-cluster — a whole cluster of ours that speaks ps-lite's protocol, in one process over memory links and a
// simulated clock. For tests of src/pslite; a test may connect raw peers to it.

import { WeighbridgeError } from "../base/errors.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import { PsliteGateway, type PsliteGatewayOptions } from "../pslite/gateway.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import type { Address, Link, Transport } from "../transport/transport.ts";
import type { Role } from "../wire/node-id.ts";
import { lineLog, tappedTransport } from "./memory-cluster.ts";
import { SimClock } from "./sim-clock.ts";
import { type OfficeOptions, startOffice } from "./start-office.ts";

export const PSLITE_SCHEDULER: Address = "tcp://127.0.0.1:9600";
const ARENA_BYTES = 64 * 1024 * 1024;
const RUN_MS_MAX = 600_000;
const FIRST_PORT = 9601;

export type PsliteClusterOptions = Partial<Omit<PsliteGatewayOptions, "role" | "transport" | "clock" | "log">> &
  Partial<Pick<OfficeOptions, "startTimeoutMs" | "startBarrier">>;

export class PsliteCluster {
  readonly clock: SimClock = new SimClock();
  readonly hub: MemoryHub = new MemoryHub();
  /** What nodes said about themselves, with the fields. */
  readonly logLines: string[] = [];
  /** Every connection that a node dialed, by the node's name. */
  readonly links: Map<string, Link[]> = new Map();
  /** By the nodes' names. */
  readonly gateways: Map<string, PsliteGateway> = new Map();
  readonly options: PsliteClusterOptions;
  readonly #offices = new Map<string, Postoffice>();
  readonly #dead = new Set<string>();
  #ports = FIRST_PORT;
  #startCount = 0;

  constructor(options: PsliteClusterOptions = {}) {
    this.options = options;
  }

  static async start(options: PsliteClusterOptions = {}): Promise<PsliteCluster> {
    const cluster = new PsliteCluster(options);
    const { serverCount = 1, workerCount = 1 } = options;
    const many = (role: Role, count: number): Promise<Postoffice>[] =>
      Array.from({ length: count }, (_, rank) => cluster.startNode(role, `${role}-${rank}`));
    await cluster.run(
      Promise.all([cluster.startNode("scheduler", "scheduler"), ...many("server", serverCount), ...many("worker", workerCount)]),
    );
    return cluster;
  }

  async startNode(role: Role, name: string, options: PsliteClusterOptions & { readonly rank?: number } = {}): Promise<Postoffice> {
    const { startTimeoutMs, startBarrier, rank, ...rest } = { ...this.options, ...options };
    const { serverCount = 1, workerCount = 1, heartbeatIntervalMs = 1000, heartbeatTimeoutMs = 5000 } = rest;
    const incarnation = ++this.#startCount;
    const common = { serverCount, workerCount, heartbeatIntervalMs, heartbeatTimeoutMs, schedulerAddress: PSLITE_SCHEDULER, incarnation };
    const log = lineLog((level, message, fields = {}) => this.logLines.push(`${name} ${level} ${message} ${JSON.stringify(fields)}`));
    const timeout = startTimeoutMs === undefined ? {} : { startTimeoutMs };
    const transport = this.transport(name);
    const gateway = new PsliteGateway({ ...rest, ...common, ...timeout, role, transport, clock: this.clock, log });
    this.gateways.set(name, gateway);
    const office = await startOffice({
      ...common,
      role,
      rank,
      label: name,
      listenAddress: role === "scheduler" ? PSLITE_SCHEDULER : "tcp://127.0.0.1:0",
      transport,
      gateway,
      clock: this.clock,
      log,
      arenaBytesMax: ARENA_BYTES,
      ...timeout,
      ...(startBarrier === undefined ? {} : { startBarrier }),
    });
    this.#offices.set(name, office);
    return office;
  }

  office(name: string): Postoffice {
    const office = this.#offices.get(name);
    if (office === undefined) throw new Error(`${name} was not started`);
    return office;
  }

  /** Ends a node as a crash would: its connections break, and it says nothing more. */
  kill(name: string): void {
    const office = this.office(name);
    this.#offices.delete(name);
    this.#dead.add(name);
    for (const link of this.links.get(name) ?? []) link.destroy();
    office.close().catch(() => {}); // what it sends from now on reaches no node
  }

  async run<T>(promise: Promise<T>): Promise<T> {
    return await this.clock.runUntil(promise, { untilMs: this.clock.nowMs() + RUN_MS_MAX, maxEvents: 10_000_000 });
  }

  async finalize(): Promise<void> {
    await this.run(Promise.all([...this.#offices.values()].map((office) => office.finalize())));
  }

  /** "tcp://host:port" over memory links; port 0 takes the next one. */
  transport(name: string): Transport {
    const links: Link[] = [];
    this.links.set(name, links);
    const inner = tappedTransport(new MemoryTransport({ clock: this.clock, hub: this.hub }), (link) => {
      if (this.#dead.has(name)) throw new WeighbridgeError("NO_ROUTE", `${name} is dead`, { retryable: true });
      links.push(link);
    });
    return {
      listen: async (address, accept) => {
        const bound = address.endsWith(":0") ? address.replace(/0$/, String(this.#ports++)) : address;
        const listener = await inner.listen(memoryOf(bound), accept);
        return { address: bound, close: () => listener.close() };
      },
      connect: (address, open, options) => inner.connect(memoryOf(address), open, options),
    };
  }
}

function memoryOf(address: Address): Address {
  return address.replace("tcp://", "memory://");
}
