// old-node — Goal: on a Node that is too old the command uses the one that npm installed, or says in one line what is
// missing.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import test from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { findOldNode } from "./find-old-node.ts";
import { DEADLINE_MS, isAlive, Processes, ROOT, script, until } from "./processes.ts";

const oldNode = findOldNode();
const skip = oldNode === undefined ? "there is no Node before 24 on this machine to try it with" : false;

test("says in one line that Node is too old", { skip }, async () => {
  const folder = temporaryDirectory("old-node");
  cpSync(join(ROOT, "bin"), join(folder, "bin"), { recursive: true });
  await using processes = new Processes();
  const running = processes.run(String(oldNode), [join(folder, "bin/weighbridge.mjs"), "train"], { cwd: folder });
  await running.fails(/^weighbridge needs Node 24 or newer; this is Node [\d.]+ at \/.*\. Run `npm install node@24`.*\n$/);
  assert.equal(running.stdout, "");
});

test("the check says so too, before anything that an old Node does not have", { skip }, async () => {
  await using processes = new Processes();
  const running = processes.run(String(oldNode), [join(ROOT, "scripts/check.mjs")], { cwd: ROOT });
  await running.fails(/^weighbridge: the tests need Node 24 or newer, this is v[\d.]+: run them with npm test, which brings it along\n$/);
});

test("goes on with the Node that npm installed", {
  skip: skip || (existsSync(join(ROOT, "node_modules/.bin/node")) ? false : "npm installed none"),
}, async () => {
  await using processes = new Processes();
  const version = processes.weighbridge(["--version"], { node: String(oldNode) });
  const mistake = processes.weighbridge(["lunch"], { node: String(oldNode) });
  await version.succeeds();
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/);
  assert.equal((await mistake.ends()).code, 2);
});

test("npm pack on a fresh checkout packs with the Node that its set-up has installed just before", { skip }, () => {
  const folder = temporaryDirectory("old-node");
  const { name, version, scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name, version, scripts }));
  for (const part of ["scripts", "installed"]) mkdirSync(join(folder, part));
  symlinkSync(process.execPath, join(folder, "installed/node"));
  writeFileSync(join(folder, "scripts/pack.mjs"), 'console.error("packed by " + process.version)');
  writeFileSync(
    join(folder, "scripts/setup.mjs"),
    `import * as fs from "node:fs"; fs.mkdirSync("node_modules", { recursive: true });
    if (!fs.existsSync("node_modules/.bin")) fs.symlinkSync("../installed", "node_modules/.bin");`,
  );
  const path = [dirname(String(oldNode)), ...(process.env.PATH ?? "").split(delimiter).filter((one) => !one.includes("node_modules"))];
  const env = { ...process.env, NODE_OPTIONS: "", PATH: path.join(delimiter) };
  const packed = spawnSync("npm", ["pack"], { cwd: folder, env, encoding: "utf8", timeout: DEADLINE_MS });
  assert.equal(packed.status, 0, packed.stderr);
  const told = packed.stderr.match(/^packed by v\d+/gm);
  const ours = `packed by ${process.version.split(".", 1)[0]}`;
  assert.deepEqual(told, [ours, ours]); // before and after
});

test("what it handed over to ends when it is killed", {
  skip: skip || (existsSync(join(ROOT, "node_modules/.bin/node")) ? false : "npm installed none"),
}, async () => {
  await using processes = new Processes();
  const launch = ["launch", "-s", 1, "-w", 1, "--all-roles", "--", script("member")];
  const job = processes.weighbridge(launch, { node: String(oldNode) });
  await job.says(/ pid \d+$/, 3);
  const pids = [...job.stdout.matchAll(/ pid (\d+)$/gm)].map(([, pid]) => Number(pid));
  try {
    await job.kill();
    await until(() => !pids.some(isAlive), "every process of the job to end");
    await job.ends(); // its output is whole then
    assert.match(job.stderr, /^weighbridge: the command that started this one is gone, so this ends$/m);
  } finally {
    for (const pid of pids) if (isAlive(pid)) process.kill(pid, "SIGKILL"); // nobody else would, where this fails
  }
});
