// cluster — a cluster of single nodes on the command line, as on several machines: each can be killed, stopped and
// started again.

import { setTimeout as sleep } from "node:timers/promises";
import { SILENT_LOG } from "../../src/base/log.ts";
import { fetchStatus } from "../../src/cli/cluster-client.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import type { WaitingEntry } from "../../src/wire/control.ts";
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
    this.flags = ["-s", servers, "-w", workers, "--scheduler-port", port, "--heartbeat-timeout", `${HEARTBEAT_TIMEOUT_MS}ms`, ...flags];
  }

  static async create(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(await freePort("127.0.0.1"), options);
  }

  /** Waits until this many nodes have come to the scheduler and wait there for the others. Returns them. */
  async waitsFor(count: number): Promise<readonly WaitingEntry[]> {
    const clock = realClock();
    const ask = { address: `tcp://127.0.0.1:${this.port}`, timeoutMs: 1000, clock };
    for (let tries = 0; tries < 200; tries++) {
      const status = await fetchStatus({ ...ask, transport: new SocketTransport({ clock, log: SILENT_LOG }) }).catch(() => undefined);
      if (status !== undefined && status.waiting.length >= count) return status.waiting;
      await sleep(100);
    }
    throw new Error(`fewer than ${count} nodes came to the scheduler`);
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
