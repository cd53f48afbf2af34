// Goal: the engine knows the limits that are set, and keeps those that whoever started Node chose.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { inliningFlags } from "./inlining.ts";

test("limits of the command line stay, however they are spelled", () => {
  assert.equal(inliningFlags(["--enable-source-maps"]).length, 2);
  assert.deepEqual(inliningFlags(["--max-inlined-bytecode-size-cumulative=500"]), []);
  assert.deepEqual(inliningFlags(["--max_inlined_bytecode_size=500"]), []);
});

test("the engine has a flag of each name", () => {
  const { stdout } = spawnSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  for (const flag of inliningFlags([])) assert.ok(stdout.includes(`${flag.split("=")[0]} `), flag);
});
