// restartable-cluster — a cluster in this process, over memory links and the real clock, whose nodes can be ended at
// any moment and started again.

import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { checkpointOptions } from "../../src/node/server-root.ts";
import { type OfficeOptions, startOffice } from "../../src/testing/start-office.ts";
import { MemoryHub, MemoryTransport } from "../../src/transport/memory-transport.ts";
import type { Role } from "../../src/wire/node-id.ts";

export type RestartableOptions = { readonly servers: number; readonly workers: number; readonly checkpointDir?: string };

const HEARTBEAT_MS = 100;
const DEAD_AFTER_MS = 600;
const POLL_MS = 5;

export class RestartableCluster {
  readonly sessions: Session[] = [];
  readonly #options: RestartableOptions;
  readonly #hub = new MemoryHub();
  readonly #job = randomUUID();
  readonly #offices = new Map<string, Postoffice>();
  /** By rank, of the incarnation that was started last. */
  readonly #meshAddresses = new Map<number, string>();
  #holders = Date.now();

  private constructor(options: RestartableOptions) {
    this.#options = options;
  }

  static async start(options: RestartableOptions): Promise<RestartableCluster> {
    const cluster = new RestartableCluster(options);
    const ranks = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    const [, , workers] = await Promise.all([
      cluster.#start("scheduler", 0),
      Promise.all(ranks(options.servers).map((rank) => cluster.startServer(rank))),
      Promise.all(ranks(options.workers).map((rank) => cluster.#start("worker", rank))),
    ]);
    cluster.sessions.push(...(await Promise.all(workers.map((office) => Session.open(office.node)))));
    return cluster;
  }

  /** With `restore`, from the newest checkpoint there. */
  async startServer(rank: number, restore?: string): Promise<void> {
    const { checkpointDir } = this.#options;
    await this.#start("server", rank, { listenAddress: `memory://server-${rank}`, ...checkpointOptions({ checkpointDir, restore }) });
  }

  async startWorker(rank: number): Promise<Session> {
    return await Session.open((await this.#start("worker", rank)).node);
  }

  /**
   * Resolves when a worker knows that another one, in the incarnation that this cluster started last, lives and waits
   * to reduce with it.
   */
  async listens(rank: number, { as }: { readonly as: number }): Promise<void> {
    const own = this.#offices.get(`worker ${as}`);
    const meshAddress = this.#meshAddresses.get(rank);
    const isKnown = (): boolean | undefined => own?.roster.nodes.some(({ state, address }) => state === "alive" && address === meshAddress);
    while (isKnown() !== true) await setTimeout(POLL_MS);
  }

  /** As if its process had been killed. */
  async kill(role: Role, rank: number): Promise<void> {
    await this.#offices.get(`${role} ${rank}`)?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#offices.values()].map((office) => office.close()));
  }

  async #start(role: Role, rank: number, rest: Partial<OfficeOptions> = {}): Promise<Postoffice> {
    const clock = realClock();
    const incarnation = ++this.#holders;
    const meshAddress = `memory://worker-${rank}-${incarnation}`;
    if (role === "worker") this.#meshAddresses.set(rank, meshAddress);
    const office = await startOffice({
      role,
      ...(role === "scheduler" ? {} : { rank }),
      ...(role === "worker" ? { meshAddress } : {}),
      serverCount: this.#options.servers,
      workerCount: this.#options.workers,
      schedulerAddress: "memory://scheduler",
      transport: new MemoryTransport({ clock, hub: this.#hub }),
      clock,
      log: SILENT_LOG,
      jobId: this.#job,
      incarnation,
      heartbeatIntervalMs: HEARTBEAT_MS,
      heartbeatTimeoutMs: DEAD_AFTER_MS,
      ...rest,
    });
    this.#offices.set(`${role} ${rank}`, office);
    if (role !== "worker") office.finalize().catch(() => {}); // it stays until it is ended
    return office;
  }
}
