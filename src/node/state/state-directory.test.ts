// state-directory.test — Goal: each job and port has a directory of its own, below the one that was named.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, test } from "node:test";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { stateDirectory } from "./state-directory.ts";

const { XDG_STATE_HOME } = process.env;
afterEach(() => {
  if (XDG_STATE_HOME === undefined) delete process.env.XDG_STATE_HOME;
  else process.env.XDG_STATE_HOME = XDG_STATE_HOME;
});

test("jobs of any name have directories of their own, which lie in the one that was named", () => {
  const stateDir = temporaryDirectory("state");
  const jobs = ["mnist", "Mnist", "..", ".", "a b", "a%20.b", "ü", "u", "\ud800", "x".repeat(128), "é".repeat(128), `${"é".repeat(127)}e`];
  const paths = jobs.map((job) => stateDirectory({ stateDir, schedulerPort: 9700 }, job, SILENT_LOG) ?? "");
  assert.equal(new Set(paths).size, jobs.length);
  for (const path of paths) {
    assert.equal(join(stateDir, basename(path)), path);
    mkdirSync(path);
  }
  assert.equal(paths[0], join(stateDir, "mnist@9700"));
});

test("none keeps no state; a named directory that cannot be written stops the scheduler, the user's own does not", () => {
  const file = join(temporaryDirectory("state"), "file");
  writeFileSync(file, "");
  assert.equal(stateDirectory({ stateDir: "none", schedulerPort: 1 }, "j", SILENT_LOG), undefined);
  assert.throws(
    () => stateDirectory({ stateDir: file, schedulerPort: 1 }, "j", SILENT_LOG),
    throwsCode("BAD_CONFIG", /cannot keep its state in .*file: .*--state-dir/),
  );
  process.env.XDG_STATE_HOME = file;
  const lines: string[] = [];
  assert.equal(stateDirectory({ stateDir: "auto", schedulerPort: 1 }, "j", { ...SILENT_LOG, warn: (line) => lines.push(line) }), undefined);
  assert.match(lines.join(), /learns the job from its nodes/);
});

test("what jobs that died left in the user's directory is removed after a month", () => {
  const root = temporaryDirectory("state");
  process.env.XDG_STATE_HOME = root;
  const [old, recent] = [join(root, "weighbridge", "old@1"), join(root, "weighbridge", "recent@1")];
  const past = new Date(Date.now() - 31 * 24 * 3600 * 1000);
  for (const path of [old, recent]) {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, "records"), "");
    utimesSync(join(path, "records"), past, past);
    utimesSync(path, past, past);
  }
  writeFileSync(join(recent, "lock"), "");
  assert.equal(stateDirectory({ stateDir: "auto", schedulerPort: 9 }, "j", SILENT_LOG), join(root, "weighbridge", "j@9"));
  assert.deepEqual([existsSync(old), existsSync(recent)], [false, true]);
});
