// Goal: what a user's function leaves behind does not end its server, and every other rejection ends the process as
// before. In a process of its own: the test runner listens for rejections itself.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const SCRIPT = `
import { SILENT_LOG } from "./src/base/log.ts";
import { psFunction } from "./src/contracts/ps-function.ts";
import { EscapedRejections } from "./src/node/escaped-rejections.ts";
const [one, two] = ["one", "two"].map((name) => {
  const said = (message, { count, reason }) => console.log(name, message, count, reason);
  return new EscapedRejections({ ...SILENT_LOG, error: said });
});
const fn = (name) => psFunction({ name, request: {}, response: {}, handler: () => { void Promise.reject(name); return {}; } });
for (let i = 0; i < 5; i++) one.watch(fn("scale")).handle({}, {});
two.watch(fn("norm")).handle({}, {});
setTimeout(() => {
  console.log(one.counts.get("scale"), two.counts.get("norm"), two.counts.get("scale"));
  if (process.argv.includes("listen")) process.on("unhandledRejection", () => console.log("somebody else listens"));
  if (process.argv.includes("throw")) Promise.reject(new Error("nobody's"));
  setTimeout(() => console.log("lives"), 20);
}, 20);
`;

function run(...args: string[]): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const options = { cwd: `${import.meta.dirname}/../..`, encoding: "utf8", timeout: 60_000 } as const;
  return spawnSync(process.execPath, ["--input-type=module", "--eval", SCRIPT, "--", ...args], options);
}

test("a rejection that escapes a function is logged with its name and counted, seldom when it is often (EscapedRejections.E2)", () => {
  const { status, stdout, stderr } = run();
  assert.equal(status, 0, stderr);
  const what = (name: string) => `something that the function ${name} started and did not await has failed`;
  assert.deepEqual(stdout.split("\n"), [
    ...[1, 2, 4].map((count) => `one ${what("scale")} ${count} scale`),
    `two ${what("norm")} 1 norm`,
    "5 1 undefined",
    "lives",
    "",
  ]);
});

test("any other rejection ends the process, unless somebody else listens (EscapedRejections.E1)", () => {
  const ended = run("throw");
  assert.equal(ended.status, 1);
  assert.match(ended.stderr, /Error: nobody's/);
  assert.doesNotMatch(ended.stdout, /lives/);
  assert.match(run("throw", "listen").stdout, /somebody else listens\nlives/);
});
