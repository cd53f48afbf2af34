// tables-session — the process of a group of tables as a node: a worker of the cluster that the environment and the
// file describe. The composition root of the tables face.

import { Session } from "../api/session.ts";
import { badArgument, showValue } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import type { CheckedGroupConfig } from "../faces/tables/table-config.ts";
import { TableGroup as SessionTableGroup } from "../faces/tables/table-group.ts";
import { sessionOfRole } from "./session-of-role.ts";
import { statisticsChannel, statisticsFile } from "./tables-statistics.ts";

const INIT_CALL = { name: "init()", fix: "launch the script without --all-roles" };

/** How a table group is made. */
export type TableGroupOptions = {
  /**
   * What this process is in its cluster: that of an EmbeddedCluster, for instance. `shutDown` closes it. Left out:
   * `init` joins the cluster.
   */
  readonly session?: Session | undefined;
};

/**
 * The tables of this process. `init` takes up the role that the environment gives the process: a worker gets its
 * tables; the scheduler and servers serve until all nodes have left, and then the process ends: one script is all three
 * roles, and nothing after `init` runs in the other two.
 */
export class TableGroup extends SessionTableGroup {
  readonly #hosted: Promise<unknown>[];
  readonly #files: ((text: string) => Promise<void>)[];

  /**
   * With a host map `init` starts a server in this process, on a thread of its own, and in process 0 the scheduler.
   * Throws BAD_ARGUMENT.
   */
  constructor(options: TableGroupOptions = {}) {
    checkOptions(options, ["session"], "the options of a table group");
    const { session: given } = options;
    if (given !== undefined && !(given instanceof Session))
      throw badArgument(`session must be what connect() gives, or the session of an EmbeddedCluster, got ${showValue(given)}`);
    const hosted: Promise<unknown>[] = [];
    const files: ((text: string) => Promise<void>)[] = [];
    const open = async (config: CheckedGroupConfig): Promise<Session> => {
      if (config.hostMap === undefined) return given ?? (await sessionOfRole({}, INIT_CALL));
      if (given !== undefined) throw badArgument("a hostMap is for processes that init() starts, and this group has a session already");
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
