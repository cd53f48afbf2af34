// Goal: where a training will save is known to be writable before it begins; what is not says so at once.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { prepareCheckpointTarget } from "./checkpoint-target.ts";

test("a directory that is not there is made, with its parents; one that is there stays", () => {
  const root = mkdtempSync(join(tmpdir(), "place-"));
  try {
    prepareCheckpointTarget(join(root, "a", "b"));
    assert.ok(existsSync(join(root, "a", "b")));
    prepareCheckpointTarget(join(root, "a", "b"));
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("a place where nothing can be saved is refused at once, with the reason", () => {
  const root = mkdtempSync(join(tmpdir(), "place-"));
  try {
    writeFileSync(join(root, "file"), "");
    assert.throws(() => prepareCheckpointTarget(join(root, "file", "below")), {
      code: "BAD_CONFIG",
      message: /nothing can be saved in .*below: .*\(ENOTDIR\)/,
    });
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("a place that the system does not have is refused, and not tried for ever", {
  skip: existsSync("/proc/self") ? false : "this system has no /proc",
}, () => {
  assert.throws(() => prepareCheckpointTarget("/proc/weighbridge/lenet"), { code: "BAD_CONFIG" });
});
