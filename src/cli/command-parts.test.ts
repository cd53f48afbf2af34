// Goal: help fits the terminal it is read on, whatever its width, and loses no word on the way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { loadConfig } from "../node/config/config.ts";
import { addConfigFlags, configFlags, type Flags, type Invocation, newFlag, wrapHelp } from "./command-parts.ts";

const TEXT = `
Every process runs the script, which learns
its role from the environment.

Exit codes:
  0    trained, tested and saved, whether or not it was reached
  130  Ctrl-C

Examples:
  $ weighbridge launch -s 2 -w 2 -- train.ts --epochs 3`;

test("paragraphs and columns are filled to the width, and commands stay whole", () => {
  assert.equal(
    wrapHelp(TEXT, 30),
    `
Every process runs the script,
which learns its role from the
environment.

Exit codes:
  0    trained, tested and
       saved, whether or not
       it was reached
  130  Ctrl-C

Examples:
  $ weighbridge launch -s 2 -w 2 -- train.ts --epochs 3`,
  );
});

test("at every width the words are the same, and only what has no space to break at is longer", () => {
  const words = (text: string): string[] => text.split(/\s+/);
  for (let width = 1; width <= 200; width++) {
    const wrapped = wrapHelp(TEXT, width);
    assert.deepEqual(words(wrapped), words(TEXT), `width ${width}`);
    const tooLong = wrapped.split("\n").filter((line) => line.length > width && !line.includes("$ ") && line.trim().includes(" "));
    assert.deepEqual(
      tooLong.filter((line) => !/^ +\S+ {2,}\S+$/.test(line)),
      [],
      `width ${width}`,
    );
  }
});

test("a range of workers is the count that the start waits for, and the most that there may be", () => {
  assert.deepEqual(configFlags({ workers: "2..8", rank: 1, verbose: true }), { workers: "2", workersMax: "8", rank: 1 });
  assert.deepEqual(configFlags({ workers: "2", workersMax: "5" }), { workers: "2", workersMax: "5" });
  assert.deepEqual(configFlags({ workers: "3" }), { workers: "3" });
  assert.deepEqual(configFlags({ workers: "2..8..9" }), { workers: "2", workersMax: "8..9" }, "which loadConfig refuses");
});

test("shared memory is on, and turned off by a flag", () => {
  for (const [args, expected] of [
    [[], "on"],
    [["--shared-memory"], "on"],
    [["--no-shared-memory"], "off"],
  ] as const) {
    const command = addConfigFlags(new Command(), { isHelpAll: false } as Invocation, { common: [] });
    const flags = configFlags(command.parse(args, { from: "user" }).opts<Flags>());
    assert.equal(
      loadConfig({ commandLine: flags, defaults: { role: "worker", serverCount: 1, workerCount: 1 } }).sharedMemory,
      expected,
      args.join(" "),
    );
  }
});

test("a flag that has another name now is known by the old one, with what a time needs", () => {
  assert.equal(newFlag("--server-count"), "--servers");
  assert.equal(newFlag("--worker-count-max"), "--workers-max");
  assert.equal(newFlag("--heartbeat-timeout-ms"), "--heartbeat-timeout, and takes a time with its unit, such as 5s");
  assert.match(newFlag("--port") ?? "", /--scheduler-port .* --listen-port/);
  assert.equal(newFlag("--nonsense"), undefined);
});
