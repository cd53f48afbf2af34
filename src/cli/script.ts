// script — what a user wants a process to run: a TypeScript or JavaScript program for Node, or any other command.

import { existsSync, readFileSync, statSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { WeighbridgeError } from "../base/errors.ts";
import type { Role } from "../node/config/node-config.ts";
import { engineFlags } from "../node/engine-flags.ts";
import { modulePath, type Program } from "../node/launcher/job-plan.ts";

const MODULE_EXTENSIONS: readonly string[] = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];

/** True for a file that Node runs itself. */
export function isModule(script: string): boolean {
  return MODULE_EXTENSIONS.includes(extname(script));
}

/** The absolute path of a script for Node. Throws BAD_CONFIG if there is no such file. */
export function scriptPath(script: string): string {
  const path = resolve(script);
  if (existsSync(path) && statSync(path).isFile()) return path;
  throw new WeighbridgeError("BAD_CONFIG", `there is no script ${script} (looked for ${path}); name a file, relative to where you are`);
}

/**
 * Whether a script's own text gives a KVServer a handle: in workers alone it would never be made, and the built-in
 * servers would sum instead, which nothing else shows but wrong numbers.
 */
export function hasServerHandle(script: string): boolean {
  if (!isModule(script)) return false;
  const text = readFileSync(scriptPath(script), "utf8");
  return /\bnew KVServer\b/.test(text) && /\.setRequestHandle\(/.test(text);
}

/** A process of a job: its role, whether it prints our errors with their stacks, and whether it is started again. */
export type Launched = { readonly role: Role; readonly isVerbose: boolean; readonly isRestarted: boolean };

/**
 * The command line that runs a script as a process of a job. What Node cannot run is run as a command, found as a shell
 * finds it.
 */
export function programOf(launched: Launched, script: string, args: readonly string[]): Program {
  return isModule(script) ? [...launchedNode(launched), scriptPath(script), ...args] : [script, ...args];
}

/** The command line that runs the subcommand of a role as a process of a job. */
export function ownProgram(launched: Launched, ...args: string[]): Program {
  const { role, isVerbose } = launched;
  return [...launchedNode(launched), modulePath(import.meta.url, "./entry"), role, ...(isVerbose ? ["--verbose"] : []), ...args];
}

function launchedNode({ role, isVerbose, isRestarted }: Launched): readonly [string, ...string[]] {
  const path = modulePath(import.meta.url, "../node/launcher/launched");
  const query = [...(isVerbose ? ["verbose"] : []), ...(isRestarted ? ["restart"] : [])].join("&");
  return [process.execPath, ...engineFlags(role), "--import", query === "" ? path : `${pathToFileURL(path).href}?${query}`];
}
