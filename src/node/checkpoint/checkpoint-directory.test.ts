// Goal: a checkpoint appears whole or not at all, wherever its writer fails or dies, and the ones before it stay as
// they were.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FaultyFiles, systemError } from "../../../test/support/checkpoint-files.ts";
import { sampleManifest, saveSample, temporaryFolder, writeSampleShard } from "../../../test/support/checkpoint-stage.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import { CheckpointDirectory, type DirectoryProbe, requireWritableDirectory, stepName, stepOf } from "./checkpoint-directory.ts";
import { realFiles } from "./file-layer.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

async function requireWhole(path: string): Promise<void> {
  assert.deepEqual((await verifyCheckpoint(path)).problems, []);
}

test("a writer that dies at any moment leaves the checkpoint before usable, and the next one clears up after it", async () => {
  using folder = temporaryFolder();
  const { path: previous } = await saveSample({ root: folder.path, step: 1 });
  let completed = 0;
  for (let callsLeft = 0; completed === 0; callsLeft++) {
    let left = callsLeft;
    const dying = new FaultyFiles(() => {
      if (left-- <= 0) throw systemError("EDEAD");
      return undefined;
    });
    const result = await saveSample({ root: folder.path, step: 2, layer: dying.layer }).catch((error: unknown) => error);
    await requireWhole(previous);
    const directory = new CheckpointDirectory({ root: folder.path });
    const stored = await directory.list();
    if (stored.length === 1) assert.ok(isWeighbridgeError(result, "CHECKPOINT_IO"), `after ${callsLeft} calls: ${String(result)}`);
    else {
      await requireWhole(stored[1]?.path ?? "");
      if (!(result instanceof Error) && (result as { warning?: string }).warning === undefined) completed = callsLeft;
      rmSync(stored[1]?.path ?? "", { recursive: true });
    }
    await directory.removeLeftovers();
    assert.deepEqual(
      readdirSync(folder.path).filter((name) => name !== "latest"),
      ["step-000001"],
    );
  }
  assert.ok(completed > 30, `a save of two servers makes more than ${completed} calls`);
});

test("everything is on the disk before it gets its name", async () => {
  using folder = temporaryFolder();
  const files = new FaultyFiles();
  await saveSample({ root: folder.path, step: 3, serverCount: 1, layer: files.layer });
  const steps = files.calls
    .filter((call) => /^(sync|syncDirectory|rename|close) /.test(call))
    .map((call) => call.replace(/\.pending-[0-9a-f]+/, ".pending"));
  assert.deepEqual(
    steps.filter((call) => !call.startsWith("close")),
    [
      "sync server-000-000.safetensors.tmp",
      "rename server-000-000.safetensors",
      "sync manifest.json.tmp",
      "rename manifest.json",
      "syncDirectory step-000003.pending",
      "rename step-000003",
      `syncDirectory ${folder.path.split("/").at(-1)}`,
      "sync latest.tmp",
      "rename latest",
      `syncDirectory ${folder.path.split("/").at(-1)}`,
    ],
  );
});

test("a disk that is full at any moment is an error that says so, and takes nothing with it", async () => {
  using folder = temporaryFolder();
  const { path: previous } = await saveSample({ root: folder.path, step: 1 });
  let failures = 0;
  for (let room = 0; ; room += 97) {
    let left = room;
    const full = new FaultyFiles(({ verb }) => {
      if (verb !== "write") return undefined;
      if (left <= 0) throw systemError("ENOSPC");
      const taken = Math.min(left, 61); // Also a file system that takes less than it is given.
      left -= taken;
      return taken;
    });
    const result = await saveSample({ root: folder.path, step: 2, layer: full.layer }).catch((error: unknown) => error);
    await requireWhole(previous);
    assert.equal(full.openCount, 0);
    if (!(result instanceof Error)) break;
    failures++;
    assert.ok(isWeighbridgeError(result, "CHECKPOINT_IO") && result.retryable, String(result));
    assert.match(result.message, /^cannot write .*(server-00[01]-000\.safetensors|manifest\.json)\.tmp: the disk is full \(ENOSPC\)$/);
    assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000001"]);
  }
  assert.ok(failures > 50);
  assert.equal(readFileSync(join(folder.path, "latest"), "utf8"), "step-000002\n");
});

test("a sync that fails is a save that fails", async () => {
  using folder = temporaryFolder();
  for (const victim of ["server-001-000.safetensors.tmp", "manifest.json.tmp"]) {
    const files = new FaultyFiles(({ verb, path }) => {
      if (verb === "sync" && path.endsWith(victim)) throw systemError("EIO");
      return undefined;
    });
    await assert.rejects(
      saveSample({ root: folder.path, step: 1, layer: files.layer }),
      throwsCode("CHECKPOINT_IO", new RegExp(`${victim}: the disk failed \\(EIO\\)`)),
    );
    assert.deepEqual(readdirSync(folder.path), []);
  }
});

test("a checkpoint is complete even if latest cannot be written, which is said", async () => {
  using folder = temporaryFolder();
  const files = new FaultyFiles(({ verb, path }) => {
    if (verb === "create" && path.endsWith("latest.tmp")) throw systemError("ENOSPC");
    return undefined;
  });
  const { path, warning } = await saveSample({ root: folder.path, step: 1, layer: files.layer });
  assert.match(warning ?? "", /is complete, but latest could not be written: .*the disk is full/);
  await requireWhole(path);
});

test("a commit looks whether every server's files are there", async () => {
  using folder = temporaryFolder();
  const options = { root: folder.path, step: 5, serverCount: 1 };
  const directory = new CheckpointDirectory(options);
  const pending = await directory.begin(5);
  const server = await writeSampleShard(options, pending.path, 0);
  const manifest = sampleManifest(options, [server]);
  const shard = join(pending.path, "server-000-000.safetensors");
  const bytes = readFileSync(shard);
  rmSync(shard);
  await assert.rejects(
    directory.commit(pending, manifest),
    throwsCode("CHECKPOINT_MISSING", /server 0 wrote it; do all servers see the same directory/),
  );
  writeFileSync(shard, bytes.subarray(1));
  await assert.rejects(directory.commit(pending, manifest), throwsCode("CHECKPOINT_TORN", /has \d+ bytes; server 0 wrote \d+/));
  writeFileSync(shard, bytes);
  await assert.rejects(
    directory.commit(pending, { ...manifest, step: 6 }),
    throwsCode("BAD_ARGUMENT", /step 6 for the checkpoint of step 5/),
  );
  assert.deepEqual(await directory.list(), []);
  await requireWhole((await directory.commit(pending, manifest)).path);
});

test("a step must be newer than all there are", async () => {
  using folder = temporaryFolder();
  await saveSample({ root: folder.path, step: 5 });
  const directory = new CheckpointDirectory({ root: folder.path });
  for (const step of [4, 5]) await assert.rejects(directory.begin(step), throwsCode("BAD_ARGUMENT", /step-000005 exists already/));
});

test("the newest are kept, at least one", async () => {
  using folder = temporaryFolder();
  const directory = new CheckpointDirectory({ root: folder.path });
  for (const step of [1, 2, 3, 1_000_000]) await saveSample({ root: folder.path, step });
  const removed = await directory.keep(2);
  assert.deepEqual(
    removed.map(({ step }) => step),
    [1, 2],
  );
  assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000003", "step-1000000"]);
  assert.deepEqual(await directory.keep(2), []);
  await directory.keep(0);
  assert.deepEqual(
    (await directory.list()).map(({ step }) => step),
    [1_000_000],
  );
});

test("leftovers are removed, and nothing else", async () => {
  using folder = temporaryFolder();
  for (const name of ["step-000009.pending-0123abcd", "step-000001.removed-0123abcd", "step-000002", "step-2", "notes"])
    mkdirSync(join(folder.path, name));
  writeFileSync(join(folder.path, "latest.tmp"), "step-0000");
  const directory = new CheckpointDirectory({ root: folder.path });
  assert.deepEqual([...(await directory.removeLeftovers())].sort(), [
    "latest.tmp",
    "step-000001.removed-0123abcd",
    "step-000009.pending-0123abcd",
  ]);
  assert.deepEqual(readdirSync(folder.path).sort(), ["notes", "step-000002", "step-2"]);
});

test("latest names the newest; one that says nonsense is an error", async () => {
  using folder = temporaryFolder();
  const directory = new CheckpointDirectory({ root: folder.path });
  assert.equal(await directory.latest(), undefined);
  await saveSample({ root: folder.path, step: 5 });
  assert.equal(await directory.latest(), "step-000005");
  writeFileSync(join(folder.path, "latest"), "step-00000");
  await assert.rejects(directory.latest(), throwsCode("CHECKPOINT_TORN", /latest holds "step-00000"/));
  assert.match((await directory.latestProblem()) ?? "", /^CHECKPOINT_TORN: .*latest holds "step-00000"/);
  writeFileSync(join(folder.path, "latest"), "step-000004\n");
  assert.match((await directory.latestProblem()) ?? "", /^CHECKPOINT_MISSING: .*latest names step-000004, which does not exist/);
  await saveSample({ root: folder.path, step: 6 });
  assert.equal(await directory.latestProblem(), undefined);
});

test("a root that is a file, or may not be written, is an error that names it", async () => {
  using folder = temporaryFolder();
  const root = join(folder.path, "file");
  writeFileSync(root, "");
  await assert.rejects(new CheckpointDirectory({ root }).begin(1), throwsCode("CHECKPOINT_IO", /cannot read .*file: .*not a directory/i));
});

test("a step's name is padded, grows beyond, and has one spelling", () => {
  assert.deepEqual([0, 123, 1_234_567].map(stepName), ["step-000000", "step-000123", "step-1234567"]);
  assert.deepEqual(["step-000123", "step-1234567", "step-0000123", "step-12", "step-000123.pending-0"].map(stepOf), [
    123,
    1_234_567,
    undefined,
    undefined,
    undefined,
  ]);
});

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
  // Servers of one process make it at the same time.
  for (const name of ["d", "e", "f", "g"])
    await Promise.all(Array.from({ length: 8 }, () => realFiles.makeDirectory(join(root, name, "b", "c"))));
  assert.ok(existsSync(join(root, "a", "b", "c")));
});
