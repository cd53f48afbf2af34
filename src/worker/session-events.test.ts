// Goal: rosters become the events that a user of a session expects, in order, and nothing else does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { RosterCopy } from "../cluster/roster-copy.ts";
import { lineLog } from "../testing/memory-cluster.ts";
import { idOf } from "../wire/node-id.ts";
import type { PlacementView, RosterEntry } from "../wire/roster.ts";
import { type SessionEvent, type SessionEventName, SessionEvents } from "./session-events.ts";

const OWN = idOf("worker", 1);
const NAMES: readonly SessionEventName[] = ["serverlost", "serverback", "rejoined", "leaving", "placementchanged"];

class Stage {
  readonly lines: string[] = [];
  readonly told: SessionEvent[] = [];
  readonly events: SessionEvents;
  readonly #roster = new RosterCopy();
  readonly #soon: (() => void)[] = [];
  #version = 0;

  constructor() {
    const membership = {
      node: OWN,
      incarnation: 5,
      onRoster: this.#roster.listen.bind(this.#roster),
      onPlacement: this.#roster.listenPlacement.bind(this.#roster),
    };
    const clock = { soon: (run: () => void) => void this.#soon.push(run) };
    const log = { ...SILENT_LOG, ...lineLog((level, message, fields) => this.lines.push(`${level} ${message} ${String(fields?.reason)}`)) };
    this.events = new SessionEvents({ membership, clock, log });
    for (const name of NAMES) this.events.add(name, (event) => this.told.push(event));
  }

  /** What the next roster, with these entries, makes of events. */
  hears(nodes: readonly RosterEntry[], placement?: PlacementView): readonly SessionEvent[] {
    this.#roster.adopt({ version: ++this.#version, nodes, placement });
    return this.turn();
  }

  turn(): readonly SessionEvent[] {
    for (const run of this.#soon.splice(0)) run();
    return this.told.splice(0);
  }
}

function server(rank: number, incarnation: number, more: Partial<RosterEntry> = {}): RosterEntry {
  return { node: idOf("server", rank), role: "server", rank, address: "", incarnation, state: "alive", label: "", ...more };
}

function worker(incarnation: number, more: Partial<RosterEntry> = {}): RosterEntry {
  return { ...server(1, incarnation, more), node: OWN, role: "worker" };
}

test("servers that are there from the start are no event; one that dies is lost, and back with or without its state", () => {
  const stage = new Stage();
  assert.deepEqual(stage.hears([server(0, 1), server(1, 2), worker(5)]), []);
  assert.deepEqual(stage.hears([server(0, 1), server(1, 2, { state: "dead" })]), [
    { type: "serverlost", server: 1, isPlanned: false, isAwaited: false },
  ]);
  assert.deepEqual(stage.hears([server(0, 1), server(1, 2, { state: "dead" })]), [], "that is known");
  assert.deepEqual(stage.hears([server(0, 1), server(1, 7)]), [{ type: "serverback", server: 1, hasState: false }]);
  assert.deepEqual(stage.hears([server(0, 1), server(1, 7, { state: "dead", returns: true, isPlanned: true })]), [
    { type: "serverlost", server: 1, isPlanned: true, isAwaited: true },
  ]);
  assert.deepEqual(stage.hears([server(0, 1), server(1, 9, { continues: 7 })]), [{ type: "serverback", server: 1, hasState: true }]);
});

test("a server that is lost and back between two rosters, or that a standby takes over, is both, in that order (SessionEvents.E2)", () => {
  const stage = new Stage();
  stage.hears([server(0, 1), server(1, 2)]);
  assert.deepEqual(stage.hears([server(0, 4), server(1, 6, { continues: 2 })]), [
    { type: "serverlost", server: 0, isPlanned: false, isAwaited: false },
    { type: "serverback", server: 0, hasState: false },
    { type: "serverlost", server: 1, isPlanned: false, isAwaited: true },
    { type: "serverback", server: 1, hasState: true },
  ]);
  assert.deepEqual(stage.hears([server(0, 4, { state: "dead" }), server(1, 6, { continues: 2 })]).length, 1);
  assert.deepEqual(
    stage.hears([server(0, 4), server(1, 6)]),
    [{ type: "serverback", server: 0, hasState: true }],
    "it was alive after all",
  );
});

test("one that was dead when this node came is back when it comes; one that leaves in order is not lost (SessionEvents.E3)", () => {
  const stage = new Stage();
  stage.hears([server(0, 1, { state: "dead" }), server(1, 2), server(2, 3)]);
  assert.deepEqual(stage.hears([server(0, 4), server(1, 2, { isRetired: true }), server(2, 3, { state: "left" })]), [
    { type: "serverback", server: 0, hasState: false },
  ]);
  assert.deepEqual(stage.hears([server(0, 4), server(3, 5)]), []);
  assert.deepEqual(stage.hears([server(0, 4), server(2, 9), server(3, 5)]), [], "a new one of that rank was not lost");
});

test("a newer placement is an event, the first one is not", () => {
  const stage = new Stage();
  const placement = (epoch: number, servers: readonly number[]): PlacementView => ({ epoch, policy: "ring", servers: [...servers] });
  assert.deepEqual(stage.hears([], placement(1, [0, 1])), []);
  assert.deepEqual(stage.hears([], placement(1, [0, 1])), []);
  assert.deepEqual(stage.hears([], placement(2, [2, 0, 1])), [{ type: "placementchanged", epoch: 2, servers: [0, 1, 2] }]);
});

test("this worker is asked to leave once, by its own incarnation; a listener for that waits until then", () => {
  const stage = new Stage();
  assert.deepEqual(stage.hears([worker(4, { isRetired: true })]), [], "that was the process before");
  assert.deepEqual([stage.events.isLeaving, stage.events.awaitsLeaving], [false, true]);
  assert.deepEqual(stage.hears([worker(5, { isRetired: true })]), [{ type: "leaving" }]);
  assert.deepEqual([stage.events.isLeaving, stage.events.awaitsLeaving], [true, false]);
  assert.deepEqual(stage.hears([worker(5, { isRetired: true })]), []);
});

test("listeners for other events wait for no leave", () => {
  const membership = { node: OWN, incarnation: 5, onRoster: () => () => {}, onPlacement: () => () => {} };
  const events = new SessionEvents({ membership, clock: { soon: () => {} }, log: SILENT_LOG });
  for (const name of NAMES) if (name !== "leaving") events.add(name, () => {});
  assert.equal(events.awaitsLeaving, false);
});

test("listeners are called after the roster is adopted, and one that throws is logged (SessionEvents.E1)", () => {
  const stage = new Stage();
  const error = new WeighbridgeError("NOT_JOINED", "others have gone on", { retryable: true });
  let isCalled = false;
  stage.events.add("rejoined", () => {
    isCalled = true;
    throw new Error("no such gauge");
  });
  stage.events.rejoined(7, error);
  assert.equal(isCalled, false);
  assert.deepEqual(stage.turn(), [{ type: "rejoined", clock: 7, error }]);
  assert.equal(isCalled, true);
  assert.match(
    stage.lines.join("\n"),
    /^error a listener of the event "rejoined" has failed no such gauge, at .*session-events\.test\.ts:\d+:\d+$/,
  );
});
