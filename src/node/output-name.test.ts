// Goal: nodes have one form of name in the output of commands.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf } from "../wire/node-id.ts";
import { asOutputName, outputAddress, outputName, outputNameOf, processText } from "./output-name.ts";

test("a node is its role and its rank, the scheduler its role", () => {
  assert.deepEqual(
    [outputName("scheduler", 0), outputName("server", 3), outputName("server", "0-3"), outputNameOf(idOf("standby", 1))],
    ["scheduler", "server/3", "server/0-3", "standby/1"],
  );
  assert.deepEqual(["worker 12", "the scheduler", "server 0-3"].map(asOutputName), ["worker/12", "the scheduler", "server/0-3"]);
});

test("a label with a process id is that process, and where it runs unless that is here", () => {
  assert.deepEqual(
    ["a:12", "b.example:12", "12", "my node", "", "b:x:9"].map((label) => processText(label, "a")),
    ["pid 12", "pid 12 on b.example", "pid 12", "my node", "", "pid 9 on b:x"],
  );
  assert.deepEqual(["tcp://127.0.0.1:1", "unix:///a.sock"].map(outputAddress), ["127.0.0.1:1", "unix:///a.sock"]);
});
