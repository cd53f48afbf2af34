// tables-session — the process of a group of tables as a node: a worker of the cluster that the environment and the
// file describe. The composition root of the tables face.

import type { Session } from "../api/session.ts";
import type { CheckedGroupConfig } from "../faces/tables/table-config.ts";
import { TableGroup as SessionTableGroup } from "../faces/tables/table-group.ts";
import { sessionOfRole } from "./session-of-role.ts";
import { statisticsChannel, statisticsFile } from "./tables-statistics.ts";

const INIT_CALL = { name: "init()", fix: "launch the script with --worker-only" };

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
      if (config.hostMap === undefined) return await sessionOfRole({}, INIT_CALL);
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
