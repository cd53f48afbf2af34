// our-cluster — scheduler, servers and workers of ours, each its own process, driven through cases. One cluster serves
// many cases and rounds.

import type { Role } from "../src/node/config/node-config.ts";
import { engineFlags } from "../src/node/engine-flags.ts";
import { freePort } from "../src/node/launcher/free-port.ts";
import type { BenchCase } from "./cases.ts";
import { Child, type Regime } from "./child.ts";
import { type Figure, type Span, together } from "./meter.ts";
import type { OurNodeProtocol } from "./our-node.ts";

/**
 * Resident memory of the largest process of each role. Servers keep the keys of all cases served so far; workers hold
 * their window's arrays.
 */
export type ClusterMemory = { readonly rssServerMb: number; readonly rssWorkerMb: number };

type OurNode = Child<OurNodeProtocol>;

export type OurClusterOptions = {
  readonly regime: Regime;
  readonly nodesPerRole: number;
  /** Whose protocol the nodes speak: our own when left out. */
  readonly van?: "zmq";
  /** Processes that hold each server rank. */
  readonly replicas?: number;
  /** Where servers keep their logs: they are durable. */
  readonly durable?: string | undefined;
  /** Where servers keep checkpoints. */
  readonly checkpointDir?: string | undefined;
  /** Whether links share memory; left out: they are sockets, as those of the systems that we compare with. */
  readonly sharedMemory?: "on" | "off";
};

const FINALIZE_TIMEOUT_MS = 5_000;
const NODE = new URL("./our-node.ts", import.meta.url);

export class OurCluster implements AsyncDisposable {
  readonly #schedulers: readonly OurNode[];
  readonly #servers: readonly OurNode[];
  readonly #workers: readonly OurNode[];

  private constructor(schedulers: readonly OurNode[], servers: readonly OurNode[], workers: readonly OurNode[]) {
    this.#schedulers = schedulers;
    this.#servers = servers;
    this.#workers = workers;
  }

  static async start(options: OurClusterOptions): Promise<OurCluster> {
    const { regime, nodesPerRole, van, replicas = 1, durable, checkpointDir, sharedMemory = "off" } = options;
    const env = {
      WEIGHBRIDGE_SHARED_MEMORY: sharedMemory,
      WEIGHBRIDGE_REPLICAS: String(replicas),
      ...(durable === undefined ? {} : { WEIGHBRIDGE_DURABLE: durable }),
      ...(checkpointDir === undefined ? {} : { WEIGHBRIDGE_CHECKPOINT_DIR: checkpointDir }),
      ...(van === undefined ? {} : { DMLC_PS_VAN_TYPE: van }),
      DMLC_PS_ROOT_URI: "127.0.0.1",
      DMLC_PS_ROOT_PORT: String(await freePort("127.0.0.1")),
      DMLC_NUM_SERVER: String(nodesPerRole),
      DMLC_NUM_WORKER: String(nodesPerRole),
      WEIGHBRIDGE_LOG_LEVEL: "warn",
    };
    const nodes = (role: Role, count: number): OurNode[] =>
      Array.from(
        { length: count },
        (_, index) =>
          new Child({
            name: `our ${role} ${index}`,
            script: NODE,
            regime,
            env: { ...env, DMLC_ROLE: role, ...(role === "server" ? { WEIGHBRIDGE_RANK: String(index % nodesPerRole) } : {}) },
            nodeArgs: role === "worker" ? [] : engineFlags(role), // a worker is a user's process
          }),
      );
    const cluster = new OurCluster(nodes("scheduler", 1), nodes("server", nodesPerRole * replicas), nodes("worker", nodesPerRole));
    try {
      await Promise.all(cluster.#nodes().map((node) => node.ask("start", null)));
    } catch (error) {
      await cluster.#close();
      throw error;
    }
    return cluster;
  }

  /**
   * Makes `benchCase` the current one and gives its keys their start values; returns how the pushes that filled it
   * went.
   */
  async open(benchCase: BenchCase): Promise<Figure> {
    await Promise.all(this.#workers.map((worker) => worker.ask("open", benchCase)));
    const filling = benchCase.direction === "mix" ? this.#workers : [this.#firstWorker()];
    return together(await Promise.all(filling.map((worker) => worker.ask("fill", null))));
  }

  /** Runs the current case on all workers at once and verifies every value afterwards. Throws when one is wrong. */
  async measure(span: Span): Promise<Figure> {
    const rounds = await Promise.all(this.#workers.map((worker) => worker.ask("run", span)));
    const setCount = rounds[0]!.pushCounts.length; // none of a case whose workers have verified their own
    const pushCounts = Array.from({ length: setCount }, (_, set) => rounds.reduce((sum, round) => sum + round.pushCounts[set]!, 0));
    if (pushCounts.some((count) => count > 0)) await this.verify(pushCounts);
    return together(rounds.map(({ figure }) => figure));
  }

  /** Throws unless every key of the current case holds its start value plus these pushes. */
  async verify(pushCounts: readonly number[] = []): Promise<void> {
    await this.#firstWorker().ask("verifyPushes", { pushCounts });
  }

  async memory(): Promise<ClusterMemory> {
    const largest = async (nodes: readonly OurNode[]): Promise<number> =>
      Math.max(...(await Promise.all(nodes.map((node) => node.ask("memory", null)))).map(({ rssMb }) => rssMb));
    return { rssServerMb: await largest(this.#servers), rssWorkerMb: await largest(this.#workers) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Promise.all(this.#nodes().map((node) => node.ask("finalize", null, FINALIZE_TIMEOUT_MS)));
    } finally {
      await this.#close();
    }
  }

  async #close(): Promise<void> {
    await Promise.all(this.#nodes().map((node) => node.close()));
  }

  #nodes(): readonly OurNode[] {
    return [...this.#schedulers, ...this.#servers, ...this.#workers];
  }

  #firstWorker(): OurNode {
    return this.#workers[0]!;
  }
}
