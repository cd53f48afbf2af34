// cluster — a cluster of single nodes on the command line, as on several machines: each can be killed, stopped and started again.

import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running, script } from "./processes.ts";

export type ClusterOptions = { readonly servers: number; readonly workers: number; readonly flags?: readonly (string | number)[] };

/** A node is dead after this long in these tests. */
export const HEARTBEAT_TIMEOUT_MS = 2000;

export class Cluster extends Processes {
  readonly port: number;
  /** What every node of it is told. */
  readonly flags: readonly (string | number)[];

  private constructor(port: number, { servers, workers, flags = [] }: ClusterOptions) {
    super();
    this.port = port;
    this.flags = ["-s", servers, "-w", workers, "--scheduler-port", port, "--heartbeat-timeout-ms", HEARTBEAT_TIMEOUT_MS, ...flags];
  }

  static async create(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(await freePort("127.0.0.1"), options);
  }

  scheduler(): Running {
    return this.weighbridge(["scheduler", ...this.flags]);
  }

  server(rank: number): Running {
    return this.weighbridge(["server", ...this.flags, "--rank", rank]);
  }

  worker(rank: number, scriptName: string, ...args: readonly string[]): Running {
    return this.weighbridge(["worker", ...this.flags, "--rank", rank, script(scriptName), ...args]);
  }
}
