// Goal: what a user's function leaves behind does not end its server, and every other failure ends the process as
// before. In a process of its own: the test runner listens for failures itself.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const SCRIPT = `
import { SILENT_LOG } from "./src/base/log.ts";
import { AssertionError } from "./src/base/assert.ts";
import { psFunction } from "./src/contracts/ps-function.ts";
import { clockOutsideCalls, EscapedFailures, transportOutsideCalls } from "./src/node/escaped-failures.ts";
import { realClock } from "./src/node/real-clock.ts";
const [one, two] = ["one", "two"].map((name) => {
  const said = (message, { count, reason }) => console.log(name, message, count, reason);
  return new EscapedFailures({ ...SILENT_LOG, error: said });
});
const fn = (name) => psFunction({ name, request: {}, response: {}, handler: () => { void Promise.reject(name); return {}; } });
for (let i = 0; i < 5; i++) one.watch(fn("scale")).handle({}, {});
two.watch(fn("norm")).handle({}, {});
const later = (thrown) => psFunction({ name: "later", request: {}, response: {}, handler: () => {
  setTimeout(() => { throw thrown; }, 1);
  return {};
} });
if (process.argv.includes("timer")) two.watch(later(new Error("from a timer"))).handle({}, {});
const clock = clockOutsideCalls(realClock());
const fault = () => { throw new Error("a fault of the engine"); };
const ways = { soon: () => clock.soon(fault), afterInput: () => clock.afterInput(fault), after: () => clock.after(1, fault) };
const transport = transportOutsideCalls({ connect: () => new Promise((done) => setTimeout(() => done(fault()), 1)) });
ways.connect = () => void transport.connect("", () => {}, {});
const engine = (way) => psFunction({ name: "engine", request: {}, response: {}, handler: () => (ways[way](), {}) });
for (const way of Object.keys(ways)) if (process.argv.includes(way)) two.watch(engine(way)).handle({}, {});
if (process.argv.includes("bug")) two.watch(later(new AssertionError("a bug of ours"))).handle({}, {});
setTimeout(() => {
  console.log(one.counts.get("scale"), two.counts.get("norm"), two.counts.get("scale"));
  if (process.argv.includes("listen")) process.on("unhandledRejection", () => console.log("somebody else listens"));
  if (process.argv.includes("outside")) throw new Error("nobody's timer");
  if (process.argv.includes("throw")) Promise.reject(new Error("nobody's"));
  setTimeout(() => console.log("lives"), 20);
}, 20);
`;

function run(...args: string[]): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const options = { cwd: `${import.meta.dirname}/../..`, encoding: "utf8", timeout: 60_000 } as const;
  return spawnSync(process.execPath, ["--input-type=module", "--eval", SCRIPT, "--", ...args], options);
}

test("a rejection that escapes a function is logged with its name and counted, seldom when it is often (EscapedFailures.E2)", () => {
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

test("any other rejection ends the process, unless somebody else listens (EscapedFailures.E1)", () => {
  const ended = run("throw");
  assert.equal(ended.status, 1);
  assert.match(ended.stderr, /Error: nobody's/);
  assert.doesNotMatch(ended.stdout, /lives/);
  assert.match(run("throw", "listen").stdout, /somebody else listens\nlives/);
});

test("a throw out of a timer that a function started is logged with its name, and the process lives", () => {
  const { status, stdout, stderr } = run("timer");
  assert.equal(status, 0, stderr);
  assert.match(stdout, /two something that the function later started and did not await has failed 1 from a timer\n/);
  assert.match(stdout, /\nlives\n$/);
});

test("any other exception ends the process as usual: one of no function, and a failed assertion of ours (EscapedFailures.E1)", () => {
  for (const [what, message] of [
    ["outside", /Error: nobody's timer/],
    ["bug", /AssertionError: a bug of ours/],
  ] as const) {
    const { status, stdout, stderr } = run(what);
    assert.equal(status, 1, stdout);
    assert.match(stderr, message);
    assert.doesNotMatch(stdout, /lives/);
  }
});

test("what the server starts while a function runs belongs to no function: a failure of it ends the process (EscapedFailures.E1)", () => {
  for (const way of ["soon", "afterInput", "after", "connect"]) {
    const { status, stdout, stderr } = run(way);
    assert.equal(status, 1, `${way}: ${stdout}`);
    assert.match(stderr, /Error: a fault of the engine/);
    assert.doesNotMatch(stdout, /the function engine started|lives/);
  }
});
