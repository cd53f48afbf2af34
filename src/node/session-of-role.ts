// session-of-role — takes up the role that the environment gives the process: the composition root of the faces whose
// scripts have all three roles.

import type { Session } from "../api/session.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { connectWorker } from "./connect.ts";

/** The call that takes up the role of its process, and what a server of several threads is to do instead. */
type RoleCall = { readonly name: string; readonly fix: string };

/**
 * The session of a process that is a worker by options, environment and file. The scheduler and servers serve until all
 * nodes have left, and then the process exits: one script has all three roles. If they cannot start, or the job fails,
 * they print the error in a line and exit with 1. Throws what `connect` throws.
 */
export async function sessionOfRole(options: NodeConfigOptions, call: RoleCall): Promise<Session> {
  const config = await loadNodeConfig({ options, env: process.env });
  if (config.role === "worker") return await connectWorker({ ...options, role: "worker" });
  if (config.role === "server" && config.threads > 1) {
    const text = `a process that calls ${call.name} is one server, not ${config.threads} on threads: ${call.fix}`;
    throw new WeighbridgeError("BAD_CONFIG", text);
  }
  try {
    // Loaded on demand: a worker needs neither.
    if (config.role === "scheduler") await (await import("./run-scheduler.ts")).runScheduler(config);
    else await (await import("./run-server.ts")).runServer(config, []);
  } catch (thrown) {
    if (!isWeighbridgeError(thrown)) throw thrown; // a bug has a stack
    process.stderr.write(`weighbridge: ${thrown.code}: ${thrown.message.replaceAll(/\s*\n\s*/g, " ")}\n`);
    process.exit(1);
  }
  process.exit();
}
