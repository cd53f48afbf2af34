// state-lock.test — Goal: nothing is left of a lock that was released, and a lock that cannot be used tells what to do.
// Who gets one: file-store.test.ts.

import assert from "node:assert/strict";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { type FileLayer, realFiles } from "../checkpoint/file-layer.ts";
import { StateLock } from "./state-lock.ts";

const SERVER = { holder: "server", fix: "stop that one first", diskFix: "start the server again when that is mended" };

test("a lock that is released while a beat is being written beats no more: a timer would keep its process alive", async () => {
  const directory = temporaryDirectory("lock");
  let disk = Promise.resolve();
  const layer: FileLayer = {
    ...realFiles,
    create: async (path) => {
      const file = await realFiles.create(path);
      return { ...file, write: (bytes, position) => disk.then(() => file.write(bytes, position)) };
    },
  };
  const clock = new SimClock();
  const lock = new StateLock({ directory, layer, clock });
  await lock.acquire();
  assert.equal(clock.pendingCount, 1);
  const { promise, resolve } = Promise.withResolvers<void>();
  disk = promise;
  await clock.advance(1000);
  assert.equal(clock.pendingCount, 0, "a beat is being written");
  const released = lock.release();
  resolve();
  await released;
  for (let turn = 0; turn < 5; turn++) await setImmediate();
  assert.equal(clock.pendingCount, 0);
  assert.deepEqual(readdirSync(directory), []);
});

test("a lock whose file was removed is not held by another one: its directory cannot be used", async () => {
  const directory = temporaryDirectory("lock");
  const lock = new StateLock({ directory, layer: realFiles, clock: new SimClock(), words: SERVER });
  await lock.acquire();
  await lock.check();
  rmSync(directory, { recursive: true });
  await assert.rejects(lock.check(), throwsCode("STATE_IO", /its lock was removed; start the server again/));
  await lock.release();
});

test("a full disk where the lock of a dead process is taken over: the holder's own words, and no file is left", async () => {
  const directory = temporaryDirectory("lock");
  writeFileSync(join(directory, "lock"), JSON.stringify({ id: "another", host: hostname(), pid: 1, startedAt: "", beat: 3 }));
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  const layer: FileLayer = {
    ...realFiles,
    create: async (path) => ({ ...(await realFiles.create(path)), write: () => Promise.reject(full) }),
  };
  const lock = new StateLock({ directory, layer, clock: new SimClock(), words: SERVER, isGone: () => true });
  await assert.rejects(lock.acquire(), throwsCode("STATE_IO", /the disk is full.*; start the server again/));
  assert.deepEqual(readdirSync(directory), ["lock"]);
});
