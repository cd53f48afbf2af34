// connect — a worker's session in a cluster of processes, or a whole cluster inside this one.

import { randomUUID } from "node:crypto";
import { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import type { PsFunction } from "../functions/ps-function.ts";
import { Postoffice, type PostofficeOptions } from "../kv/postoffice.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import type { Role } from "../wire/node-id.ts";
import { loadConfig } from "./config/config.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { realClock } from "./real-clock.ts";
import { startNode } from "./start.ts";

/** Joins the cluster that options, environment and file describe, as a worker. Throws BAD_CONFIG, and what starting a node throws. */
export async function connect(options: NodeConfigOptions = {}): Promise<Session> {
  const config = loadConfig({ options, env: process.env });
  if (config.role !== "worker") {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `connect() is for workers, and this process is the ${config.role}: launch the script with --worker-only, or set role to worker`,
    );
  }
  const office = await startNode(config);
  try {
    return await Session.open(office);
  } catch (thrown) {
    await office.close();
    throw thrown;
  }
}

export type EmbeddedOptions = {
  /** Defaults to 1. */
  readonly servers?: number;
  /** Defaults to 1. */
  readonly workers?: number;
  /** PS functions of the servers, beside the built-in ones. */
  readonly functions?: readonly PsFunction[];
  /** Memory for parameters, for each server. */
  readonly arenaBytesMax?: number;
};

/** A cluster inside this process, over memory links: for tests and small jobs. One event loop serves all of it. */
export class EmbeddedCluster {
  /** One session for each worker, by rank. */
  readonly sessions: readonly Session[];
  readonly #offices: readonly Postoffice[];

  private constructor(offices: readonly Postoffice[], sessions: readonly Session[]) {
    this.#offices = offices;
    this.sessions = sessions;
  }

  static async start(options: EmbeddedOptions = {}): Promise<EmbeddedCluster> {
    const { servers = 1, workers = 1, functions = [], arenaBytesMax } = options;
    const hub = new MemoryHub();
    const clock = realClock();
    const node = (role: Role, rank: number, rest: Partial<PostofficeOptions> = {}): Promise<Postoffice> =>
      Postoffice.start({
        role,
        ...(role === "scheduler" ? {} : { rank }),
        serverCount: servers,
        workerCount: workers,
        schedulerAddress: "memory://scheduler",
        transport: new MemoryTransport({ clock, hub }),
        clock,
        log: SILENT_LOG,
        jobId: randomUUID(),
        incarnation: Date.now(),
        ...rest,
      });
    const range = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    const offices = await Promise.all([
      node("scheduler", 0),
      ...range(servers).map((rank) => node("server", rank, { listenAddress: `memory://server-${rank}`, functions, arenaBytesMax })),
      ...range(workers).map((rank) => node("worker", rank)),
    ]);
    const sessions = await Promise.all(offices.filter(({ isWorker }) => isWorker).map((office) => Session.open(office)));
    return new EmbeddedCluster(offices, sessions);
  }

  /** The session of the first worker. */
  get session(): Session {
    const [first] = this.sessions;
    if (first === undefined) throw new WeighbridgeError("BAD_ARGUMENT", "this cluster has no worker");
    return first;
  }

  async close(): Promise<void> {
    await Promise.all(this.#offices.map((office) => office.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
