// Goal: the engine knows the flag, whoever started Node can refuse it, and optimizers that were compiled with it equal their reference. All
// other kernels: test/soak/wide-vectors.test.ts.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { wideVectorFlags } from "./wide-vectors.ts";

test("what the command line says of wide vectors stays, however it is spelled", () => {
  assert.equal(wideVectorFlags(["--enable-source-maps"]).length, 1);
  assert.deepEqual(wideVectorFlags(["--no-experimental-wasm-revectorize"]), []);
  assert.deepEqual(wideVectorFlags(["--noexperimental_wasm_revectorize"]), []);
  assert.deepEqual(wideVectorFlags(["--experimental-wasm-revectorize"]), []);
});

test("the engine has a flag of that name", () => {
  const { stdout } = spawnSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  for (const flag of wideVectorFlags([])) assert.ok(stdout.includes(`${flag} `), flag);
});

test("with wide vectors the optimizers equal their reference bit for bit", () => {
  const file = join(import.meta.dirname, "../kernel/optimizer-kernels.test.ts");
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  // --no-liftoff: the engine's first compiler knows no wide vectors, and would run everything here.
  const { status, stdout } = spawnSync(process.execPath, ["--no-liftoff", ...wideVectorFlags([]), "--test-reporter=tap", file], {
    encoding: "utf8",
    env,
  });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^# pass [1-9]/m);
});
