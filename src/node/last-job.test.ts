// Goal: commands find the job that was last started from a directory, and take no other job for it.

import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import {
  forgetLastJob,
  isSameJob,
  type LastJob,
  readLastJob,
  recordScheduler,
  SCHEDULER_CHANNEL,
  schedulerProcess,
  writeLastJob,
} from "./last-job.ts";

const LAST: LastJob = { job: "ctr/run-1", term: 3, addresses: ["tcp://127.0.0.1:9700"] };

test("what was written is read, and nothing else is left in the directory", () => {
  const directory = temporaryDirectory("last-job");
  assert.equal(readLastJob(directory), undefined);
  writeLastJob(LAST, directory);
  writeLastJob({ ...LAST, term: 4 }, directory);
  assert.deepEqual(readLastJob(directory), { ...LAST, term: 4 });
  assert.deepEqual(readdirSync(join(directory, ".weighbridge")), ["job.json"]);
});

test("a job removes its own record, and that of no other job at the same address (LastJob.L2)", () => {
  const directory = temporaryDirectory("last-job");
  const host = hostname();
  const others = [
    LAST,
    { ...LAST, process: { host, pid: process.ppid } },
    { ...LAST, process: { host: `not-${host}`, pid: process.pid } },
    { ...LAST, process: { host, pid: process.ppid, launcher: process.ppid } },
  ];
  for (const other of others) {
    writeLastJob(other, directory);
    forgetLastJob(directory);
    assert.deepEqual(readLastJob(directory), other);
  }
  for (const own of [{ pid: process.pid }, { pid: process.ppid, launcher: process.pid }]) {
    writeLastJob({ ...LAST, process: { host, ...own } }, directory);
    forgetLastJob(directory);
    assert.equal(readLastJob(directory), undefined);
  }
});

test("a file that is no record, and a directory that cannot be written, are as none (LastJob.L3)", () => {
  const directory = temporaryDirectory("last-job");
  mkdirSync(join(directory, ".weighbridge"));
  for (const text of [
    '{"job":"a/b","term":2,"addresses":["a"],"process":{"host":"h","pid":-1}}',
    "",
    "{}",
    "null",
    '{"job":1,"term":2,"addresses":["a"]}',
    '{"job":"a/b","term":2,"addresses":[]}',
  ]) {
    writeFileSync(join(directory, ".weighbridge/job.json"), text);
    assert.equal(readLastJob(directory), undefined, text);
  }
  const file = join(directory, "file");
  writeFileSync(file, "");
  writeLastJob(LAST, file);
  forgetLastJob(file);
});

test("while a job forms only the same start of its scheduler is the same job (LastJob.L1)", () => {
  assert.ok(isSameJob(LAST, { phase: "running", term: 5 }));
  assert.ok(isSameJob(LAST, { phase: "forming", term: 3 }));
  assert.ok(!isSameJob(LAST, { phase: "forming", term: 5 }));
});

test("a scheduler of this process is recorded, also when its job gets another id", () => {
  const directory = temporaryDirectory("last-job");
  process.env.XDG_STATE_HOME = temporaryDirectory("last-job-user");
  recordScheduler({ launcher: 7, directory });
  channel(SCHEDULER_CHANNEL).publish(LAST);
  const own = { host: hostname(), pid: process.pid, launcher: 7 };
  assert.deepEqual(readLastJob(directory), { ...LAST, process: own });
  recordScheduler({ directory });
  channel(SCHEDULER_CHANNEL).publish({ ...LAST, job: "ctr/run-0" });
  assert.deepEqual(readLastJob(directory), { ...LAST, job: "ctr/run-0", process: own }, "the first call counts");
  const elsewhere = temporaryDirectory("last-job");
  assert.deepEqual(schedulerProcess(LAST.term, elsewhere), own);
  assert.equal(schedulerProcess(LAST.term + 1, elsewhere), undefined, "another scheduler at that address (LastJob.L4)");
});
