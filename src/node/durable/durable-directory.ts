// durable-directory — where a durable server keeps its log: a directory for each job and rank, below the one that the
// configuration names.

import { join, resolve } from "node:path";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { requireWritableDirectory } from "../checkpoint/checkpoint-directory.ts";
import type { NodeConfig } from "../config/node-config.ts";
import { directoryName } from "../state/state-directory.ts";

/** Undefined: this server is not durable. Throws BAD_CONFIG. */
export function durableDirectory({ durable, job, rank }: Pick<NodeConfig, "durable" | "job" | "rank">): string | undefined {
  if (durable === undefined) return undefined;
  if (rank === undefined) throw new WeighbridgeError("BAD_CONFIG", "a durable server has the log of a rank: give it one with --rank");
  requireDurable(durable);
  return join(jobDirectory(durable, job), `server-${rank}`);
}

/** The directory for what servers of a job leave. */
export function jobDirectory(root: string, job: string | undefined): string {
  return join(resolve(root), ...(job === undefined ? [] : [directoryName(job)]));
}

/** Throws BAD_CONFIG if servers cannot keep their logs there. */
export function requireDurable(directory: string): void {
  try {
    requireWritableDirectory(directory);
  } catch (thrown) {
    const message = `a server cannot keep its log in ${directory}: ${reasonOf((thrown as Error).cause)}; name another directory with --durable`;
    throw new WeighbridgeError("BAD_CONFIG", message, { cause: thrown });
  }
}
