// Goal: what stands on standard error is not broken inside words, and scripts read whole lines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { noticeText } from "./notices.ts";
import { widthOf } from "./text-width.ts";

const LONG =
  "weighbridge: SCHEDULER_UNREACHABLE: no scheduler answers at 127.0.0.1:9700 (connection refused); name the job: weighbridge://HOST:PORT";
const WITH_COMMAND =
  "weighbridge: waiting for 2 workers; start each with: weighbridge worker -s 1 -w 2 --scheduler-host 127.0.0.1 --scheduler-port 9700 script.ts";

test("a terminal gets a notice in lines that fit, and whole words", () => {
  for (const columns of [40, 80, 120]) {
    const lines = noticeText(LONG, columns).split("\n");
    for (const line of lines) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`);
    assert.equal(lines.map((line) => line.trim()).join(" "), LONG);
  }
});

test("elsewhere a notice is one line", () => {
  for (const text of [LONG, WITH_COMMAND]) assert.equal(noticeText(text, Infinity), text);
});

test("a command that a notice ends with can be copied", () => {
  const [, command = ""] = /: (weighbridge worker .*)/.exec(WITH_COMMAND) ?? [];
  assert.equal(noticeText(WITH_COMMAND, 80), `weighbridge: waiting for 2 workers; start each with:\n  ${command}`);
});
