// Goal: `weighbridge status` shows who the guests are, and not hundreds of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { GuestStatus } from "../wire/control.ts";
import { guestsText } from "./guests-text.ts";

const GUEST: GuestStatus = { node: 2 ** 31 + 7, label: "laptop:4711", hereMs: 61_000, heartbeatAgeMs: 120, linked: true };

test("nothing without guests", () => {
  assert.equal(guestsText(), "");
  assert.equal(guestsText([]), "");
});

test("each guest with where it runs, since when, and when it was heard", () => {
  const early: GuestStatus = { node: 2 ** 31 + 8, label: "", heartbeatAgeMs: 4000, linked: false };
  assert.deepEqual(guestsText([GUEST, early]).split("\n"), [
    "",
    "",
    "2 guests",
    "guest             process                              here for   heartbeat  link",
    "guest 2147483655  pid 4711 on laptop                  1 min 1 s  120 ms ago  yes",
    "guest 2147483656  -                   longer than the scheduler   4.0 s ago  no",
  ]);
});

test("a tool is one of them, by what it does", () => {
  const tool: GuestStatus = {
    kind: "tool",
    command: "checkpoint save",
    label: "laptop:4712",
    hereMs: 2000,
    heartbeatAgeMs: 40,
    linked: true,
  };
  assert.deepEqual(guestsText([GUEST, tool]).split("\n").slice(2), [
    "2 guests",
    "guest                  process              here for   heartbeat  link",
    "guest 2147483655       pid 4711 on laptop  1 min 1 s  120 ms ago  yes",
    "tool: checkpoint save  pid 4712 on laptop      2.0 s   40 ms ago  yes",
  ]);
});

test("of hundreds the first twenty, and how many more there are", () => {
  const lines = guestsText(Array.from({ length: 300 }, (_, i) => ({ ...GUEST, node: 2 ** 31 + i }))).split("\n");
  assert.equal(lines[2], "300 guests");
  assert.equal(lines.length, 4 + 20 + 1);
  assert.equal(lines.at(-1), "… and 280 more");
});
