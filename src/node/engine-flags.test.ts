// Goal: V8 knows the flags, Node's command line can refuse them, no library call sets one, and optimizers that were
// compiled with them equal their reference. All other kernels: test/soak/wide-vectors.test.ts.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { engineFlags } from "./engine-flags.ts";

test("what Node's command line says of a flag stays, however it is spelled (EngineFlags.F1)", () => {
  assert.equal(engineFlags("worker", ["--enable-source-maps"]).length, 2);
  assert.equal(engineFlags("server", ["--enable-source-maps"]).length, 3);
  for (const arg of ["--max-inlined-bytecode-size-cumulative=500", "--max_inlined_bytecode_size=500"])
    assert.equal(engineFlags("server", [arg]).length, 1, arg);
  for (const arg of ["--no-experimental-wasm-revectorize", "--noexperimental_wasm_revectorize", "--experimental-wasm-revectorize"])
    assert.equal(engineFlags("server", [arg]).length, 2, arg);
});

test("V8 has a flag of each name", () => {
  const { stdout } = spawnSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  for (const flag of engineFlags("server")) assert.ok(stdout.includes(`${flag.split("=")[0]} `), flag);
});

test("only commands set flags: no library call does", () => {
  const root = join(import.meta.dirname, "..");
  const setters = globSync("**/*.ts", { cwd: root, exclude: ["**/*.test.ts"] }).filter((path) => {
    const text = readFileSync(join(root, path), "utf8");
    return /\bsetFlagsFromString\b|\bsetEngineFlags\b/.test(text) && path !== join("node", "engine-flags.ts");
  });
  assert.deepEqual(
    setters.filter((path) => !path.startsWith("cli")),
    [],
  );
  assert.ok(setters.length > 0);
});

test("with the flags of a server the optimizers equal their reference bit for bit", () => {
  const file = join(import.meta.dirname, "../kernel/optimizer-kernels.test.ts");
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  // --no-liftoff: the engine's first compiler knows no wide vectors, and would run everything here.
  const { status, stdout } = spawnSync(process.execPath, ["--no-liftoff", ...engineFlags("server"), "--test-reporter=tap", file], {
    encoding: "utf8",
    env,
  });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^# pass [1-9]/m);
});
