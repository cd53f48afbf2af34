// file-store.test — Goal: records survive on a real disk; a directory has one scheduler, and its lock outlives no
// process. test/simulation/scheduler-state.test.ts has crashes and full disks.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { SILENT_LOG } from "../../base/log.ts";
import type { StateRecord } from "../../scheduler/scheduler-state.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { realClock } from "../real-clock.ts";
import { FileStore } from "./file-store.ts";

const START: StateRecord = { version: 1, kind: "start", job: "mnist/1", term: 4, serverCount: 2, workerCount: 3 };
const highest = (number: number): StateRecord => ({ version: 1, kind: "highest", number });

function directory(): string {
  return join(temporaryDirectory("state"), "mnist@9700");
}

function storeIn(path: string): FileStore {
  return new FileStore({ directory: path, clock: realClock(), log: SILENT_LOG });
}

test("what was appended is there for the next scheduler, and nothing is left when the job has ended", async () => {
  const path = directory();
  const first = storeIn(path);
  assert.deepEqual(await first.open(), []);
  await first.replace([START], { keepsOld: false });
  await first.append([highest(1), highest(2)]);
  await first.append([highest(3)]);
  await first.close();
  const second = storeIn(path);
  assert.deepEqual(await second.open(), [START, highest(1), highest(2), highest(3)]);
  await second.replace([START, highest(3)], { keepsOld: true });
  await second.append([highest(4)]);
  assert.deepEqual(readdirSync(path).sort(), ["lock", "records", "records.aside"]);
  await second.close();
  const third = storeIn(path);
  assert.deepEqual(await third.open(), [START, highest(3), highest(4)]);
  await third.replace([START], { keepsOld: false });
  await third.clear();
  await third.close();
  assert.deepEqual(readdirSync(path), ["records.aside"]);
});

test("a directory that a scheduler uses is refused to another one, by the process that has it", async () => {
  const path = directory();
  const first = storeIn(path);
  await first.open();
  await assert.rejects(storeIn(path).open(), throwsCode("STATE_HELD", new RegExp(`process ${process.pid} on ${hostname()}`)));
  await first.close();
  const second = storeIn(path);
  await second.open();
  await second.close();
});

test("the lock of a process that has ended, or whose number another process has now, is taken over at once", async () => {
  const { pid } = spawnSync("true");
  for (const holder of [
    { pid, startedAt: "1" },
    { pid: process.pid, startedAt: "1" },
  ]) {
    const path = directory();
    mkdirSync(path);
    writeFileSync(join(path, "lock"), JSON.stringify({ id: "another", host: hostname(), ...holder, beat: 3 }));
    const store = storeIn(path);
    await store.open();
    assert.match(readFileSync(join(path, "lock"), "utf8"), new RegExp(`"pid":${process.pid},`));
    await store.close();
    assert.deepEqual(readdirSync(join(path, "..")), []);
  }
});

test("records that cannot be read stop a scheduler with their path, stay where they are, and leave the lock free", async () => {
  const path = directory();
  mkdirSync(path);
  writeFileSync(join(path, "records"), "not a record\n");
  for (let turn = 0; turn < 2; turn++)
    await assert.rejects(storeIn(path).open(), throwsCode("STATE_CORRUPT", /line 1 of .*mnist@9700\/records.*move it away/));
  assert.deepEqual(readdirSync(path), ["records"]);
});
