// Goal: MindSpore's lines, to the letter.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, type Role } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import { registrationLines } from "./registration-lines.ts";

function entry(role: Role, rank: number): RosterEntry {
  const address = role === "server" ? `tcp://127.0.0.1:4${rank}` : "";
  return { node: idOf(role, rank), role, rank, address, incarnation: 1, state: "alive", label: `${role}-label` };
}

test("says who has which rank, servers first", () => {
  assert.deepEqual(registrationLines([entry("worker", 1), entry("server", 0), entry("worker", 0)]), [
    "The server node id:server-label,node ip: 127.0.0.1,node port:40 assign rank id:0",
    "The worker node id:worker-label assign rank id:0",
    "The worker node id:worker-label assign rank id:1",
    "Start the scheduler node is successful!",
  ]);
});

test("a server on a unix socket is told by its address", () => {
  const [line] = registrationLines([{ ...entry("server", 0), address: "unix:///tmp/1.sock" }]);
  assert.match(String(line), /node ip: unix:\/\/\/tmp\/1\.sock,node port:- assign rank id:0$/);
});
