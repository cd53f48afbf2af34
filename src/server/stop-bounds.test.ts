// How the waits of a server that ends relate to each other, and to those of what ends it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SIGNAL_LEAVE_MS, SIGNAL_SAVE_MS } from "../node/end-signal.ts";
import { GRACE_MS } from "../node/launcher/launcher-pipe.ts";
import { LEAVE_MS } from "../scheduler/scaling.ts";
import { LET_GO_MS, PART_MS, SAVE_MS, SCHEDULER_BACK_MS } from "./stop-bounds.ts";

/** HEARTBEAT_TIMEOUT_MS of the configuration. */
const SILENT_MS = 5000;
const CONTAINER_MS = 10_000;

test("a server without state to save has left before a launcher or a container kills it", () => {
  assert.ok(LET_GO_MS <= SIGNAL_LEAVE_MS && SIGNAL_LEAVE_MS < GRACE_MS && GRACE_MS < CONTAINER_MS);
});

test("a server without parts waits longer than a guest may be silent, and less than the scheduler waits for it", () => {
  assert.ok(SILENT_MS < PART_MS && PART_MS < LEAVE_MS);
});

test("a server that saves waits for the scheduler within the time that its signal gives it", () => {
  assert.ok(LET_GO_MS < SCHEDULER_BACK_MS && SCHEDULER_BACK_MS < SAVE_MS && SAVE_MS === SIGNAL_SAVE_MS);
});
