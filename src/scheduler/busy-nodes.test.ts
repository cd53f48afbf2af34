// busy-nodes.test — Goal: a node whose pulse speaks for it computes, and is not dead; a server whose loop is busy for
// too long is replaced; a process that is silent altogether is dead as ever.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RosterStage } from "../testing/roster-stage.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { BusyLoop } from "./busy-loop.ts";

const [SERVER, WORKER, OTHER] = [8, 9, 11];
const LOOP_TIMEOUT_MS = 30_000;

/**
 * Until then the other nodes are heard and the pulse of `node` speaks, every second, and then time is judged. Returns
 * what was decided.
 */
function compute(stage: RosterStage, node: number, untilMs: number, sinceMs = stage.nowMs): string[] {
  const decided: string[] = [];
  while (stage.nowMs < untilMs) {
    stage.nowMs += 1000;
    stage.hearAllBut(node);
    decided.push(...stage.pulse(node, stage.nowMs - sinceMs), ...stage.tick(stage.nowMs));
  }
  return decided;
}

test("a worker whose loop is busy for minutes is never dead while its pulse speaks for it; the log says once that it is busy, and that it turns again", () => {
  const stage = new RosterStage({ loopTimeoutMs: LOOP_TIMEOUT_MS }).formed();
  assert.deepEqual(compute(stage, WORKER, 9000), [`busy ${WORKER} 5000`]);
  const status = stage.roster.status(stage.nowMs).find(({ node }) => node === WORKER);
  assert.equal(status?.loopBusyMs, 9000);
  assert.deepEqual(compute(stage, WORKER, 600_000, 0), []);
  assert.deepEqual(stage.heard(WORKER), [`turns ${WORKER} 600000`]);
  assert.equal(stage.roster.status(stage.nowMs).find(({ node }) => node === WORKER)?.loopBusyMs, undefined);
});

test("a worker whose every step is long is told of once, and again only when a step takes twice as long (BusyLoop.L2)", () => {
  const stage = new RosterStage().formed();
  const told: string[] = [];
  for (const stepMs of [9000, 9000, 9000, 11_000, 9000, 25_000]) {
    told.push(...compute(stage, WORKER, stage.nowMs + stepMs, stage.nowMs));
    told.push(...stage.heard(WORKER));
  }
  const busy = told.filter((text) => text.startsWith("busy"));
  assert.deepEqual(busy, [`busy ${WORKER} 5000`, `busy ${WORKER} 10000`, `busy ${WORKER} 20000`]);
});

test("a worker whose pulse falls silent, too, is dead after the heartbeat timeout: its process was stopped", () => {
  const stage = new RosterStage().formed();
  compute(stage, WORKER, 9000);
  for (const nowMs of [10_000, 11_000, 12_000, 13_000, 13_999]) {
    assert.deepEqual(stage.tick(nowMs), []);
    stage.hearAllBut(WORKER);
  }
  assert.deepEqual(stage.tick(14_000), [`died ${WORKER}`, "publish"]);
});

test("a server whose loop has been busy for loopTimeoutMs is dead, not before, and its pulse does not bring it back; its loop does", () => {
  const stage = new RosterStage({ loopTimeoutMs: LOOP_TIMEOUT_MS }).formed();
  assert.deepEqual(compute(stage, SERVER, 29_000), [`busy ${SERVER} 5000`]);
  assert.deepEqual(compute(stage, SERVER, 30_000, 0), [`died ${SERVER}`, "publish"]);
  assert.deepEqual(compute(stage, SERVER, 40_000, 0), []);
  assert.deepEqual(stage.heard(SERVER), ["turns 8 40000", "publish"]);
  assert.ok(stage.states().includes(`${SERVER} alive 1`));
});

test("a pulse that ends the silence of all nodes judges no server; its beats do one timeout later (SilenceVerdicts.S3)", () => {
  const stage = new RosterStage({ loopTimeoutMs: LOOP_TIMEOUT_MS }).formed();
  assert.deepEqual(stage.tick(5000), ["doubts"]);
  stage.nowMs = 40_000;
  assert.deepEqual(stage.pulse(SERVER, 31_000), ["doubtEnded", `busy ${SERVER} 31000`]);
  assert.equal(stage.dueMs(), 45_000);
  assert.deepEqual(compute(stage, SERVER, 44_000, 9000), []);
  assert.deepEqual(compute(stage, SERVER, 45_000, 9000), [`died ${SERVER}`, "publish"]);
});

test("the beats of a pulse that waited while the scheduler was stopped judge no server whose loop turns again", () => {
  const woken = { lateMs: 35_000 };
  for (const isReadFirst of [true, false]) {
    // Too few nodes for a doubt.
    const stage = new RosterStage({ loopTimeoutMs: LOOP_TIMEOUT_MS, serverCount: 1, workerCount: 1 });
    for (const name of ["s0", "w0"]) stage.register(name, { serverCount: 1, workerCount: 1 });
    if (!isReadFirst) assert.deepEqual(stage.tick(40_000, woken), []);
    stage.nowMs = 40_000;
    assert.deepEqual(stage.pulse(SERVER, 31_000), [`busy ${SERVER} 31000`]);
    assert.deepEqual(stage.tick(40_000, woken), []);
    assert.deepEqual(stage.heard(SERVER), [`turns ${SERVER} 31000`]);
    stage.heard(WORKER);
    assert.deepEqual(stage.tick(40_001), []);
  }
});

test("a loopTimeoutMs of 0 lets the loop of a server be busy for as long as it likes", () => {
  const stage = new RosterStage({ loopTimeoutMs: 0 }).formed();
  assert.deepEqual(compute(stage, SERVER, 600_000), [`busy ${SERVER} 5000`]);
});

test("a server whose loop is busy for too long hands its rank to its standby, and is fenced from then on", () => {
  const stage = new RosterStage({ loopTimeoutMs: LOOP_TIMEOUT_MS, replicas: 2, serverCount: 1, workerCount: 1 });
  for (const name of ["s0", "s1", "w0"]) stage.register(name, { serverCount: 1, workerCount: 1 });
  const standby = stage.roster.view().nodes.find(({ role }) => role === "standby")?.node as number;
  for (let nowMs = 1000; nowMs < LOOP_TIMEOUT_MS; nowMs += 1000) {
    stage.tick(nowMs);
    for (const node of [WORKER, standby]) stage.heard(node);
    stage.pulse(SERVER, nowMs);
  }
  stage.nowMs = LOOP_TIMEOUT_MS;
  stage.pulse(SERVER, LOOP_TIMEOUT_MS);
  assert.equal(stage.dueMs(), LOOP_TIMEOUT_MS, "time is judged at once");
  assert.deepEqual(stage.tick(LOOP_TIMEOUT_MS), [`died ${SERVER}`, "promoted", "publish"]);
  assert.ok(stage.states().includes(`${SERVER} alive 2`));
  assert.throws(() => stage.pulse(SERVER, LOOP_TIMEOUT_MS), throwsCode("FENCED"));
});

test("the pulse of another incarnation speaks for nobody", () => {
  const stage = new RosterStage().formed();
  assert.throws(() => stage.pulse(WORKER, 1000, 2), throwsCode("NO_ROUTE"));
});

test("who asks for silent nodes learns which of them are busy, as long as their pulses speak", () => {
  const stage = new RosterStage().formed();
  compute(stage, WORKER, 3000);
  assert.deepEqual(stage.roster.answerOf(SERVER, { silent: [SERVER, WORKER, OTHER] }, 3000), { busy: [WORKER] });
  assert.deepEqual(stage.roster.answerOf(SERVER, { silent: [WORKER] }, 8000), { busy: [] });
  stage.heard(WORKER);
  assert.deepEqual(stage.roster.answerOf(SERVER, { silent: [WORKER] }, 3000), { busy: [] });
});

test("a node that was declared dead and lives is told so once", () => {
  const stage = new RosterStage().formed();
  for (const nowMs of [4000, 5000]) {
    stage.tick(nowMs);
    stage.hearAllBut(WORKER);
  }
  assert.deepEqual(stage.roster.answerOf(WORKER, {}, 5000), {});
  stage.heard(WORKER);
  const news = (): object => stage.roster.answerOf(WORKER, {}, 5000);
  assert.deepEqual([news(), news()], [{ wasDead: true }, {}]);
});

test("a loop has not been busy for longer than since it was heard last, however late its pulse comes (BusyLoop.L1)", () => {
  const loop = new BusyLoop(0);
  loop.turned(9000);
  assert.deepEqual(loop.busy(9000, 9100, 5000), { busyMs: 100, isLong: false });
  assert.equal(loop.busyMs(9100), 100);
});

test("a guest whose loop is busy is not forgotten while its pulse speaks for it, and is when that falls silent", () => {
  const stage = new RosterStage().formed();
  stage.hearAllBut();
  const [admitted = ""] = stage.register("g0", { role: "guest", serverCount: 0, workerCount: 0 });
  const guest = Number(/^admit g0 as (\d+)\//.exec(admitted)?.[1]);
  compute(stage, guest, 60_000);
  assert.ok(stage.roster.guests.has(guest));
  stage.beatTo(66_000, guest);
  stage.tick(66_000);
  assert.ok(!stage.roster.guests.has(guest));
});
