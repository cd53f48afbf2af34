// Goal: where a training will save is known to be writable before it begins; what is not says so at once.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { prepareCheckpointPlace } from "./checkpoint-place.ts";

test("a directory that is not there is made, with its parents; one that is there stays", () => {
  const root = mkdtempSync(join(tmpdir(), "place-"));
  try {
    prepareCheckpointPlace(join(root, "a", "b"));
    assert.ok(existsSync(join(root, "a", "b")));
    prepareCheckpointPlace(join(root, "a", "b"));
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("a place where nothing can be saved is refused at once, with the reason", () => {
  const root = mkdtempSync(join(tmpdir(), "place-"));
  try {
    writeFileSync(join(root, "file"), "");
    assert.throws(() => prepareCheckpointPlace(join(root, "file", "below")), {
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
  assert.throws(() => prepareCheckpointPlace("/proc/weighbridge/lenet"), { code: "BAD_CONFIG" });
});
