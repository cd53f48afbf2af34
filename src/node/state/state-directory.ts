// state-directory — where the state of a scheduler lies: a directory for each job and port, below the one that the
// configuration names, or below the user's own.

import { readdirSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { requireWritableDirectory } from "../checkpoint/checkpoint-directory.ts";
import type { NodeConfig } from "../config/node-config.ts";
import { userDirectory } from "./user-directory.ts";

/** Of a directory: what is left of 255 bytes beside the port and a checksum. */
const NAME_CHARS_MAX = 200;
/** What a job that died left behind is removed after this long, where nobody has chosen the directory. */
const LEFTOVER_MS = 30 * 24 * 3600 * 1000;

/**
 * Undefined: the scheduler keeps no state. Throws BAD_CONFIG if a directory that somebody has named cannot be written;
 * that the user's own cannot is logged.
 */
export function stateDirectory(
  { stateDir, schedulerPort }: Pick<NodeConfig, "stateDir" | "schedulerPort">,
  job: string,
  log: Log,
): string | undefined {
  if (stateDir === "none") return undefined;
  const root = stateDir === "auto" ? userDirectory() : resolve(stateDir);
  try {
    requireWritableDirectory(root);
  } catch (thrown) {
    const { cause } = thrown as Error;
    const message = `a scheduler cannot keep its state in ${root}: ${reasonOf(cause)}; name another directory with --state-dir, or none`;
    if (stateDir !== "auto") throw new WeighbridgeError("BAD_CONFIG", message, { cause: thrown });
    log.warn(`${message}; one that is started again learns the job from its nodes`);
    return undefined;
  }
  if (stateDir === "auto") removeLeftovers(root, Date.now() - LEFTOVER_MS);
  return join(root, `${directoryName(job)}@${schedulerPort}`);
}

/** A job's name as that of a directory; no two jobs have one. */
export function directoryName(job: string): string {
  const name = job.replace(/[^A-Za-z0-9_-]/gu, (char) => `%${char.codePointAt(0)?.toString(16)}.`);
  return name.length <= NAME_CHARS_MAX ? name : `${name.slice(0, NAME_CHARS_MAX)}%${crc32(name).toString(16)}`;
}

/** Removes the directories of jobs that nobody has touched since. A scheduler that runs touches its lock. */
function removeLeftovers(root: string, beforeMs: number): void {
  try {
    for (const name of readdirSync(root)) {
      const directory = join(root, name);
      const files = readdirSync(directory).map((file) => join(directory, file));
      if ([directory, ...files].every((path) => statSync(path).mtimeMs < beforeMs)) rmSync(directory, { recursive: true });
    }
  } catch {
    // There is none yet, or somebody else removes them.
  }
}
