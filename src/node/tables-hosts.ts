// tables-hosts — the processes of a host map, as Petuum has them: every process is a worker and, on a thread of its
// own, a server; the first one is the scheduler as well.

import type { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { CheckedGroupConfig, CheckedTableHost } from "../faces/tables/table-config.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { connect } from "./connect.ts";
import { modulePath } from "./launcher/job-plan.ts";
import { runServerThreads } from "./launcher/server-threads.ts";
import { startRole } from "./start-role.ts";

const SERVER = modulePath(import.meta.url, "./tables-server");

/** The worker's session, and when what was started beside it has ended. Throws what starting a node throws. */
export async function startHosted(config: CheckedGroupConfig): Promise<{ readonly session: Session; readonly ended: Promise<unknown> }> {
  const { hostMap = [], clientId = 0, snapshotDir = config.resumeDir } = config;
  const [first, own] = [hostMap[0], hostMap[clientId]] as [CheckedTableHost, CheckedTableHost];
  const common: NodeConfigOptions = {
    ...{ schedulerHost: first.host, schedulerPort: first.port, serverCount: hostMap.length, workerCount: hostMap.length },
    logLevel: "warn",
  };
  const load = async (options: NodeConfigOptions): ReturnType<typeof loadNodeConfig> =>
    await loadNodeConfig({ options: { ...common, ...options }, env: {} });
  const ended: Promise<unknown>[] = [];
  if (clientId === 0) {
    const scheduler = startRole(await load({ role: "scheduler" }));
    ended.push(scheduler.then((node) => node.finalize()));
  }
  const listenPort = clientId === 0 ? own.port + 1 : own.port; // the scheduler has the first
  const files = snapshotDir === undefined ? {} : { checkpointDir: snapshotDir };
  const server = runServerThreads(await load({ role: "server", rank: clientId, host: own.host, listenPort, ...files }), {
    path: SERVER,
    args: [],
  });
  ended.push(server.then(requireEnd));
  const all = Promise.all(ended);
  all.catch(() => {}); // told below, or by shutDown
  const session = connect({ ...common, role: "worker", rank: clientId });
  return { session: await Promise.race([session, all.then(() => session)]), ended: all };
}

function requireEnd(code: number): void {
  if (code !== 0) throw new WeighbridgeError("NODE_DEAD", `the server of this process ended with exit code ${code}`);
}
