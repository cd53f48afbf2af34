// tables-session — the process of a group of tables as a node: a worker of the cluster that the environment and the
// file describe. The composition root of the tables face.

import type { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { CheckedGroupConfig } from "../faces/tables/table-config.ts";
import { TableGroup as SessionTableGroup } from "../faces/tables/table-group.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import { connect } from "./connect.ts";
import { statisticsChannel, statisticsFile } from "./tables-statistics.ts";

/**
 * The tables of this process. `init` takes up the role that the environment gives the process: a worker gets its
 * tables; the scheduler and servers serve until everybody has left, and then the process ends: one script is all three
 * roles, and nothing after `init` runs in the other two.
 */
export class TableGroup extends SessionTableGroup {
  readonly #hosted: Promise<unknown>[];
  readonly #files: ((text: string) => Promise<void>)[];

  /** With a host map `init` starts a server in this process, on a thread of its own, and in process 0 the scheduler. */
  constructor() {
    const hosted: Promise<unknown>[] = [];
    const files: ((text: string) => Promise<void>)[] = [];
    const open = async (config: CheckedGroupConfig): Promise<Session> => {
      if (config.hostMap === undefined) return await sessionOfProcess();
      const { session, ended } = await (await import("./tables-hosts.ts")).startHosted(config);
      hosted.push(ended);
      return session;
    };
    super(async (config) => {
      const file = config.statsPath === undefined ? undefined : await statisticsFile(config.statsPath);
      const session = await open(config);
      if (file !== undefined) files.push((text) => file(session.rank, text));
      return session;
    }, statisticsChannel);
    this.#hosted = hosted;
    this.#files = files;
  }

  /** Also writes the statistics where `statsPath` says. Throws BAD_ARGUMENT if they cannot be written. */
  override async shutDown(): Promise<void> {
    try {
      await super.shutDown();
    } finally {
      for (const write of this.#files.splice(0)) await write(this.statisticsText);
    }
    await Promise.all(this.#hosted);
  }
}

async function sessionOfProcess(): Promise<Session> {
  const config = await loadNodeConfig({ options: {}, env: process.env });
  if (config.role === "worker") return await connect();
  if (config.role === "server" && config.threads > 1) {
    const text = `a process that calls init() is one server, not ${config.threads} on threads: launch the script with --worker-only`;
    throw new WeighbridgeError("BAD_CONFIG", text);
  }
  if (config.role === "scheduler") await (await import("./run-scheduler.ts")).runScheduler(config);
  else await (await import("./run-server.ts")).runServer(config, []);
  process.exit();
}
