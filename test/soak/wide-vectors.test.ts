// Goal: compiled with the flag that servers set (src/node/engine-flags.ts), and by no other compiler, every kernel
// passes its own tests.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { engineFlags } from "../../src/node/engine-flags.ts";

const KERNELS = join(import.meta.dirname, "../../src/kernel");

for (const name of readdirSync(KERNELS).filter((file) => file.endsWith(".test.ts"))) {
  test(`${name} passes with wide vectors`, () => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const args = ["--no-liftoff", ...engineFlags("server"), "--test-reporter=tap", join(KERNELS, name)];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8", env });
    assert.equal(status, 0, stdout);
    assert.match(stdout, /^# pass [1-9]/m);
  });
}
