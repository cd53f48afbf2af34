// Goal: a directory where checkpoints cannot be saved is refused when a node starts, with the system's reason.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import { realFiles } from "./file-layer.ts";
import { type DirectoryProbe, requireWritableDirectory } from "./writable-directory.ts";

const root = mkdtempSync(join(tmpdir(), "writable-directory-"));
after(() => rmSync(root, { recursive: true }));

/** A system on which /data is there, and refuses with this code. */
function refusing(code: string): DirectoryProbe {
  return {
    exists: (path) => path === "/data" || path === "/",
    isDirectory: () => true,
    requireWritable: (path) => {
      assert.equal(path, "/data", "what is nearest decides");
      throw Object.assign(new Error(code), { code });
    },
  };
}

test("a read-only file system and a directory without permission are named as such", () => {
  for (const [code, reason] of [
    ["EROFS", "the file system is read-only (EROFS)"],
    ["EACCES", "permission denied (EACCES)"],
  ] as const) {
    for (const path of ["/data", "/data/jobs/7"]) {
      const message = `nothing can be saved in ${path}: ${reason}; name another directory with --checkpoint-dir`;
      assert.throws(() => requireWritableDirectory(path, refusing(code)), { code: "BAD_CONFIG", message });
    }
  }
});

test("a file in the way is named, and a directory that is not there yet is not made", () => {
  writeFileSync(join(root, "file"), "");
  for (const path of [join(root, "file"), join(root, "file", "below")]) {
    assert.throws(() => requireWritableDirectory(path), { code: "BAD_CONFIG", message: /not a directory \(ENOTDIR\)/ });
  }
  requireWritableDirectory(join(root, "new", "below"));
  assert.ok(!existsSync(join(root, "new")));
});

test("servers that cannot save where they are told to do not start", async () => {
  const start = EmbeddedCluster.start({ checkpointDir: join(root, "file", "checkpoints") });
  await assert.rejects(start, { code: "BAD_CONFIG", message: /nothing can be saved in .*checkpoints: / });
});

test("the directory that cannot be made is refused for its own reason, not as one that is missing", async () => {
  await assert.rejects(realFiles.makeDirectory(join(root, "file", "a", "b")), { code: "ENOTDIR" });
  await realFiles.makeDirectory(join(root, "a", "b", "c"));
  await realFiles.makeDirectory(join(root, "a", "b", "c"));
  assert.ok(existsSync(join(root, "a", "b", "c")));
});
