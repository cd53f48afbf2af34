// session-of-role — takes up the role that the environment gives the process: the composition root of the faces whose
// scripts have all three roles.

import type { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { connect } from "./connect.ts";

/** The call that takes up the role of its process, and what a server of several threads is to do instead. */
type RoleCall = { readonly name: string; readonly fix: string };

/**
 * The session of a process that is a worker by options, environment and file. The scheduler and servers serve until all
 * nodes have left, and then the process exits: one script has all three roles. Throws what `connect` throws; as the
 * scheduler or a server, also the error that ended the job.
 */
export async function sessionOfRole(options: NodeConfigOptions, call: RoleCall): Promise<Session> {
  const config = await loadNodeConfig({ options, env: process.env });
  if (config.role === "worker") return await connect(options);
  if (config.role === "server" && config.threads > 1) {
    const text = `a process that calls ${call.name} is one server, not ${config.threads} on threads: ${call.fix}`;
    throw new WeighbridgeError("BAD_CONFIG", text);
  }
  // Loaded on demand: a worker needs neither.
  if (config.role === "scheduler") await (await import("./run-scheduler.ts")).runScheduler(config);
  else await (await import("./run-server.ts")).runServer(config, []);
  process.exit();
}
