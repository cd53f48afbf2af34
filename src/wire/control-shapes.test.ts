// Goal: the bodies of hello, register, roster, barrier, abort, status, units, gather and rendezvous are what
// spec/protocol.md says, no less: every field is needed, has its type, and what everybody keeps is short.

import assert from "node:assert/strict";
import { test } from "node:test";
import { gatherReplyShape, gatherRequestShape } from "./collective-frame.ts";
import {
  abortRequestShape,
  barrierReplyShape,
  barrierRequestShape,
  emptyShape,
  heartbeatReplyShape,
  heartbeatRequestShape,
  leaveReplyShape,
  leaveRequestShape,
  placementReplyShape,
  prepareReplyShape,
  prepareRequestShape,
  rendezvousReplyShape,
  rendezvousRequestShape,
  statusReplyShape,
} from "./control.ts";
import { helloShape } from "./hello.ts";
import type { Check } from "./json-body.ts";
import { registerReplyShape, registerRequestShape } from "./register.ts";
import { retireReplyShape, retireRequestShape } from "./retire.ts";
import { placementShape, rosterShape } from "./roster.ts";
import { unitsReplyShape, unitsRequestShape } from "./units.ts";
import { UNIT_RUNS_MAX, unitsClaimShape } from "./units-claim.ts";

const ENTRY = {
  node: 8,
  role: "server",
  rank: 0,
  address: "tcp://a:1",
  incarnation: 1,
  state: "alive",
  label: "a:1",
  packageVersion: "0.1.0",
  token: "t",
  sumsIncarnation: 1,
  continues: 1,
  returns: true,
  isFilling: true,
  isRetired: true,
  isPlanned: true,
  hasNoClock: true,
};
const PLACEMENT = { epoch: 4, policy: "ring", servers: [0, 2], moved: [17, 2], move: { from: [0], to: [0, 2], below: 7 } };
const ROSTER = {
  ...{ version: 3, nodes: [ENTRY], guests: [{ node: 2 ** 31, token: "g" }], placement: PLACEMENT, endedGeneration: 2 },
  ...{ handedOver: 1, previous: PLACEMENT },
};
const HELD = { name: "end", generation: 1, values: [{ rank: 0, value: "7" }] };
const GENERATION = { generation: 3, members: [{ node: 9, incarnation: 1 }] };
const WAITING = { role: "worker", rank: 1, address: "", label: "b:2", packageVersion: "0.1.0" };
const BARRIER = { group: 7, customer: 0, round: 1, outlivesDeaths: true };
const COPY = { replicas: 2, host: "host", process: "17", settings: ["arenaBytesMax 8388608"] };
const REGISTER = {
  role: "worker",
  rank: 1,
  address: "",
  serverCount: 1,
  workerCount: 2,
  label: "b:2",
  token: "t",
  packageVersion: "0.1.0",
};
const RESUME = {
  job: "j",
  node: 9,
  incarnation: 1,
  isStored: true,
  roster: ROSTER,
  passed: [BARRIER],
  units: { open: [], over: [] },
  gathered: GENERATION,
  rendezvous: [HELD],
  catalogue: { highest: 7 },
};

const EPOCH = { name: "train", epoch: 0, batchCount: 8, partCount: 2, assignment: "even" };
const UNITS = {
  ...{ ...EPOCH, done: [0, 3], held: [3, 4], unused: [], want: 2, waitMs: 20, inherited: 0, leaves: false },
  ...{ clock: 7, partsMax: 1, retires: true },
};
const GUEST = { node: undefined, kind: undefined, command: undefined, label: "h:7", hereMs: 12, heartbeatAgeMs: 3, linked: true };
const ACCOUNT = { ...EPOCH, done: [0, 3], held: [3, 4], suspect: [], repeatedCount: 1, clock: 7, dues: [6, 3, 4] };

const MESSAGES: readonly { name: string; shape: Check<unknown>; body: Record<string, unknown>; optional?: readonly string[] }[] = [
  {
    name: "a hello",
    shape: helloShape,
    body: {
      job: "j",
      kind: "worker",
      node: 9,
      incarnation: 1,
      expects: 1,
      packageVersion: "0.1.0",
      capabilities: ["runs"],
      token: "t",
      knows: 3,
      sharedMemory: { host: "h", offer: { path: "/proc/1/fd/3", byteCount: 4096, nonce: "n" }, proof: "p" },
    },
    optional: ["packageVersion", "capabilities", "token", "knows", "sharedMemory"],
  },
  {
    name: "REGISTER",
    shape: registerRequestShape,
    body: { ...REGISTER, resume: RESUME, failure: { code: "PORT_IN_USE", message: "taken" }, copy: COPY, returns: true, hasNoClock: true },
    optional: ["rank", "packageVersion", "resume", "failure", "copy", "returns", "hasNoClock"],
  },
  {
    name: "the answer to REGISTER",
    shape: registerReplyShape,
    body: {
      ...{ job: "j", node: 9, incarnation: 1, recovery: true, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 5000, roster: ROSTER },
      counts: { serverCount: 2, workerCount: 3 },
      serves: true,
      pulse: { loopTimeoutMs: 30_000, address: "tcp://a:2", token: "p" },
    },
    optional: ["counts", "serves", "pulse"],
  },
  { name: "ROSTER", shape: rosterShape, body: ROSTER, optional: ["guests", "placement", "handedOver", "previous", "endedGeneration"] },
  { name: "a placement", shape: placementShape, body: PLACEMENT, optional: ["moved", "move"] },
  { name: "the answer to PLACEMENT", shape: placementReplyShape, body: { placement: PLACEMENT }, optional: ["placement"] },
  {
    name: "PREPARE",
    shape: prepareRequestShape,
    body: { epoch: 2, holdMs: 30_000, servers: [0, 2], placement: PLACEMENT, roster: 4, awaits: "arrival" },
    optional: ["servers", "placement", "roster", "awaits"],
  },
  {
    name: "the answer to PREPARE",
    shape: prepareReplyShape,
    body: { leaving: [1, 4096], roomBytes: 2 ** 30 },
    optional: ["leaving", "roomBytes"],
  },
  { name: "RETIRE", shape: retireRequestShape, body: { placement: PLACEMENT } },
  { name: "the answer to RETIRE", shape: retireReplyShape, body: { openCount: 2 } },
  {
    name: "HEARTBEAT",
    shape: heartbeatRequestShape,
    body: { holdsSums: true, standbyLost: 1, standbyFilled: 2, heldMs: 12_000, silent: [8, 9], sharing: [9], loopBusyMs: 9000 },
    optional: ["holdsSums", "standbyLost", "standbyFilled", "heldMs", "silent", "sharing", "loopBusyMs"],
  },
  {
    name: "the answer to HEARTBEAT",
    shape: heartbeatReplyShape,
    body: { busy: [8], wasDead: true },
    optional: ["busy", "wasDead"],
  },
  { name: "BARRIER", shape: barrierRequestShape, body: BARRIER, optional: ["outlivesDeaths"] },
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
      replicas: 2,
      epoch: 1,
      uptimeMs: 5,
      packageVersion: "0.1.0",
      term: 3,
      standbys: ["tcp://s:2"],
      nodes: [{ ...ENTRY, heartbeatAgeMs: 3, linked: true, promotedAgoMs: 5, loopBusyMs: 9000, heldMs: 7, sharing: [9] }],
      waiting: [WAITING],
      leaving: [1, 8],
      silence: { of: "all", forMs: 7000 },
      serves: true,
      guests: [
        { ...GUEST, node: 2 ** 31 },
        { ...GUEST, kind: "tool", command: "scale" },
      ],
    },
    optional: ["replicas", "epoch", "packageVersion", "term", "standbys", "leaving", "silence", "serves", "guests"],
  },
  { name: "UNITS", shape: unitsRequestShape, body: UNITS, optional: ["clock", "partsMax", "retires"] },
  {
    name: "the answer to UNITS",
    shape: unitsReplyShape,
    body: {
      isOver: false,
      units: [4, 6],
      lost: [],
      repeatedCount: 0,
      inherited: { version: 1, done: [0, 1], suspect: [] },
      awaited: [2],
      clock: 7,
    },
    optional: ["inherited", "awaited", "clock"],
  },
  { name: "what is known of units", shape: unitsClaimShape, body: { open: [ACCOUNT], over: [{ name: "train", epochs: [0, 2] }] } },
  { name: "GATHER", shape: gatherRequestShape, body: { step: "enter", address: "tcp://c:3", generation: 2 } },
  { name: "RENDEZVOUS", shape: rendezvousRequestShape, body: { name: "end", generation: 1, value: "7", waitMs: 5 } },
  {
    name: "the answer to RENDEZVOUS",
    shape: rendezvousReplyShape,
    body: { values: HELD.values, missing: [1] },
    optional: ["values", "missing"],
  },
  { name: "the answer to GATHER", shape: gatherReplyShape, body: { ...GENERATION, roster: ROSTER } },
  {
    name: "LEAVE",
    shape: leaveRequestShape,
    body: { failure: { code: "CHECKPOINT_TORN", message: "too short" }, returns: true, unlessNeeded: true, unclosed: 1 },
    optional: ["failure", "returns", "unlessNeeded", "unclosed"],
  },
  { name: "the answer to LEAVE", shape: leaveReplyShape, body: { isNeeded: true }, optional: ["isNeeded"] },
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

test("runs are pairs that rise, and not too many", () => {
  for (const wrong of [[1], [1, 1], [2, 1], [0, 2, 2, 3], [0, 1, 5], Array.from({ length: 2 * UNIT_RUNS_MAX + 2 }, (_, i) => i)]) {
    assert.throws(() => unitsRequestShape({ ...UNITS, done: wrong }, "M"), { code: "BAD_REQUEST", message: /^M.done must be runs/ });
  }
  assert.doesNotThrow(() => unitsRequestShape({ ...UNITS, done: [0, 2, 3, 4] }, "M"));
  assert.throws(() => unitsRequestShape({ ...UNITS, assignment: "fair" }, "M"), /M.assignment must be one of even, free/);
});

test("roles and states are those there are", () => {
  assert.throws(
    () => registerRequestShape({ ...REGISTER, role: "boss" }, "M"),
    /M.role must be one of scheduler, server, worker, standby, guest, but is "boss"/,
  );
  assert.throws(
    () => rosterShape({ version: 1, nodes: [{ ...ENTRY, state: "ill" }] }, "M"),
    /M.nodes\[0\].state must be one of alive, dead, left/,
  );
});
