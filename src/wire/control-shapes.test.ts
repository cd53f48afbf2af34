// Goal: the bodies of hello, register, roster, barrier, abort and status are what spec/protocol.md says, no less: every field is needed, has its
// type, and what everybody keeps is short.

import assert from "node:assert/strict";
import { test } from "node:test";
import { abortRequestShape, barrierReplyShape, barrierRequestShape, emptyShape, statusReplyShape } from "./control.ts";
import { helloShape } from "./hello.ts";
import type { Check } from "./json-body.ts";
import { registerReplyShape, registerRequestShape } from "./register.ts";
import { rosterShape } from "./roster.ts";

const ENTRY = { node: 8, role: "server", rank: 0, address: "tcp://a:1", incarnation: 1, state: "alive", label: "a:1" };
const ROSTER = { version: 3, nodes: [ENTRY] };
const WAITING = { role: "worker", rank: 1, address: "", label: "b:2" };
const BARRIER = { group: 7, customer: 0, round: 1 };
const REGISTER = { role: "worker", rank: 1, address: "", serverCount: 1, workerCount: 2, label: "b:2", token: "t" };
const RESUME = { job: "j", node: 9, incarnation: 1, roster: ROSTER, passed: [BARRIER] };

const MESSAGES: readonly { name: string; shape: Check<unknown>; body: Record<string, unknown>; optional?: readonly string[] }[] = [
  { name: "a hello", shape: helloShape, body: { job: "j", node: 9, incarnation: 1, expects: 1 } },
  { name: "REGISTER", shape: registerRequestShape, body: { ...REGISTER, resume: RESUME }, optional: ["rank", "resume"] },
  {
    name: "the answer to REGISTER",
    shape: registerReplyShape,
    body: { job: "j", node: 9, incarnation: 1, recovery: true, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 5000, roster: ROSTER },
  },
  { name: "ROSTER", shape: rosterShape, body: ROSTER },
  { name: "BARRIER", shape: barrierRequestShape, body: BARRIER },
  { name: "the answer to BARRIER", shape: barrierReplyShape, body: { round: 1 } },
  { name: "ABORT", shape: abortRequestShape, body: { code: "DEADLINE", message: "too late" } },
  {
    name: "the answer to STATUS",
    shape: statusReplyShape,
    body: {
      job: "j",
      phase: "running",
      serverCount: 1,
      workerCount: 2,
      uptimeMs: 5,
      nodes: [{ ...ENTRY, heartbeatAgeMs: 3, linked: true }],
      waiting: [WAITING],
    },
  },
  { name: "an empty body", shape: emptyShape, body: {} },
];

for (const { name, shape, body, optional = [] } of MESSAGES) {
  test(`${name} is taken with all its fields, and with fields of the future`, () => {
    assert.deepEqual(shape(body, "M"), body);
    assert.deepEqual(shape({ ...body, fromTheFuture: 1 }, "M"), body);
  });

  test(`${name} needs every field, of its own type`, () => {
    for (const field of Object.keys(body)) {
      const { [field]: value, ...rest } = body;
      if (optional.includes(field)) assert.deepEqual(shape(rest, "M"), { ...rest, [field]: undefined });
      else assert.throws(() => shape(rest, "M"), new RegExp(`M.${field} must be .*, but is left out`));
      for (const wrong of [typeof value === "string" ? 7 : "x", -1, 0.5]) {
        assert.throws(() => shape({ ...body, [field]: wrong }, "M"), new RegExp(`M.${field} must be`), `${field} = ${wrong}`);
      }
    }
  });
}

test("names that everybody keeps are short", () => {
  for (const [field, lengthMax] of [
    ["label", 256],
    ["token", 256],
    ["address", 512],
  ] as const) {
    const fits = { ...REGISTER, [field]: "x".repeat(lengthMax) };
    assert.doesNotThrow(() => registerRequestShape(fits, "M"));
    const tooLong = { ...REGISTER, [field]: "x".repeat(lengthMax + 1) };
    assert.throws(() => registerRequestShape(tooLong, "M"), new RegExp(`M.${field} must be a string of at most ${lengthMax} characters`));
  }
  assert.throws(() => rosterShape({ version: 1, nodes: [{ ...ENTRY, label: "x".repeat(257) }] }, "M"), /M.nodes\[0\].label must be/);
});

test("roles and states are those there are", () => {
  assert.throws(
    () => registerRequestShape({ ...REGISTER, role: "boss" }, "M"),
    /M.role must be one of scheduler, server, worker, but is "boss"/,
  );
  assert.throws(
    () => rosterShape({ version: 1, nodes: [{ ...ENTRY, state: "ill" }] }, "M"),
    /M.nodes\[0\].state must be one of alive, dead, left/,
  );
});
