// silence-verdicts — Goal: each rule at its edge, event by event: who may be judged, and from when.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { type HearingNow, SilenceVerdicts } from "./silence-verdicts.ts";

const [INTERVAL_MS, TIMEOUT_MS] = [1000, 5000];

/** Nodes that were last heard at these times, and the verdicts on them. */
class Stage {
  readonly verdicts: SilenceVerdicts;
  readonly heardAtMs: number[];
  /** By node: since when its link is closed. */
  readonly closedAtMs = new Map<number, number>();
  readonly dead = new Set<number>();
  registeredAtMs = -Infinity;

  constructor(heardAtMs: readonly number[], rules = { heartbeatIntervalMs: INTERVAL_MS, heartbeatTimeoutMs: TIMEOUT_MS }) {
    this.heardAtMs = [...heardAtMs];
    this.verdicts = new SilenceVerdicts(rules);
  }

  at(nowMs: number): HearingNow {
    const nodes = this.heardAtMs.map((heardAtMs, node) => ({ node, heardAtMs, goneSinceMs: this.closedAtMs.get(node) }));
    return { nowMs, counted: () => nodes.filter(({ node }) => !this.dead.has(node)), registeredAtMs: () => this.registeredAtMs };
  }

  mayJudge(node: number, nowMs: number): boolean {
    return this.verdicts.mayJudge(this.heardAtMs[node] as number, this.at(nowMs));
  }

  notBeforeMs(node: number, nowMs: number): number {
    return this.verdicts.notBeforeMs(this.heardAtMs[node] as number, this.at(nowMs));
  }

  /** Returns whose silence this ends the doubt of. */
  heard(node: number, nowMs: number): string | undefined {
    const doubt = this.verdicts.heard(this.heardAtMs[node] as number, this.at(nowMs));
    this.heardAtMs[node] = nowMs;
    this.closedAtMs.delete(node);
    return doubt?.of;
  }

  doubt(nowMs: number): string | undefined {
    return this.verdicts.doubt(this.at(nowMs))?.of;
  }
}

test("a node that alone is silent is judged, and so is one of two that are all there are", () => {
  assert.equal(new Stage([0, 4000, 4500]).mayJudge(0, 5000), true);
  assert.equal(new Stage([0, 0]).mayJudge(0, 5000), true);
  assert.equal(new Stage([0, 0, 0]).mayJudge(0, 5000), false, "three are enough");
});

test("with all silent nobody is judged before the first sign of life, however late (SilenceVerdicts.S1)", () => {
  const stage = new Stage([0, 600, 900]);
  assert.equal(stage.mayJudge(0, 5000), false);
  assert.deepEqual(stage.verdicts.doubt(stage.at(5000)), { of: "all", silentSinceMs: 900 });
  assert.deepEqual([stage.notBeforeMs(2, 1e9), stage.mayJudge(0, 1e9)], [Infinity, false]);
  assert.equal(stage.heard(1, 2e9), "all");
  assert.equal(stage.doubt(2e9), undefined);
});

test("all are silent when each has missed a heartbeat, and not while one was heard since (SilenceVerdicts.S1)", () => {
  assert.equal(new Stage([0, 0, 3500]).mayJudge(0, 5000), false);
  const heard = new Stage([0, 3499, 3501, 3502]);
  assert.equal(heard.mayJudge(0, 5000), true);
});

test("a head that was heard lately, and has lost its link, is judged at once, though all others are silent (SilenceVerdicts.S2)", () => {
  const stage = new Stage([4000, 3000, 3100, 3200]);
  stage.closedAtMs.set(0, 4950);
  assert.equal(stage.mayJudge(0, 5000), true);
});

test("when most fell silent within one heartbeat nobody is judged for two timeouts more (SilenceVerdicts.S2)", () => {
  const stage = new Stage([0, 700, 4900, 900, 4800]);
  assert.equal(stage.mayJudge(0, 5000), false);
  assert.deepEqual([stage.doubt(5000), stage.notBeforeMs(0, 5000), stage.notBeforeMs(2, 5000)], ["most", 15_000, 15_000]);
  assert.equal(stage.mayJudge(2, 9000), false, "also of the others");
  for (const nowMs of [8000, 12_000, 14_000]) for (const node of [2, 4]) stage.heard(node, nowMs);
  assert.equal(stage.doubt(14_000), "most", "those that were heard all the time end no doubt");
  assert.deepEqual([stage.mayJudge(0, 14_999), stage.mayJudge(0, 15_000), stage.mayJudge(1, 15_000)], [false, true, true]);
});

test("half of them, or those that fell silent at different times, are not most (SilenceVerdicts.S2)", () => {
  assert.equal(new Stage([0, 0, 4800, 4900]).mayJudge(0, 5000), true);
  assert.equal(new Stage([0, 1600, 3200, 4900]).mayJudge(0, 5000), true);
});

test("after the first sign of life one timeout passes, and a closed link in it is silence too (SilenceVerdicts.S3, SilenceVerdicts.S4)", () => {
  for (const silent of [
    [0, 0, 0],
    [0, 0, 0, 7900],
  ]) {
    const stage = new Stage(silent);
    stage.mayJudge(0, 5000);
    assert.equal(stage.heard(1, 8000), silent.length === 3 ? "all" : "most");
    stage.closedAtMs.set(1, 8100);
    assert.deepEqual([stage.verdicts.isPaused(stage.at(8150)), stage.notBeforeMs(1, 8150)], [true, 13_000]);
    stage.heard(2, 12_900);
    if (silent.length === 4) stage.heard(3, 12_900);
    assert.deepEqual([stage.mayJudge(0, 12_999), stage.mayJudge(0, 13_000)], [false, true], "it was spared already");
  }
});

test("a cut that is over before anybody is due gives nodes one timeout to come back, and a short silence does not (SilenceVerdicts.S3)", () => {
  for (const [cutMs, isLong] of [
    [2500, true],
    [2499, false],
  ] as const) {
    const stage = new Stage([0, 0, 0]);
    for (const node of [0, 1, 2]) stage.heard(node, 2000);
    assert.equal(stage.heard(1, 2000 + cutMs), undefined);
    assert.equal(stage.notBeforeMs(0, 5000), isLong ? 2000 + cutMs + TIMEOUT_MS : -Infinity);
  }
  const few = new Stage([0, 0]);
  few.heard(0, 100);
  few.heard(1, 4900);
  assert.equal(few.mayJudge(0, 5100), true);
});

test("a tick that is late by a heartbeat gives everybody one timeout, and one that is a little late gives nothing (SilenceVerdicts.S3)", () => {
  const stage = new Stage([0, 4000]);
  stage.verdicts.tick(999, stage.at(5000));
  assert.equal(stage.notBeforeMs(0, 5000), -Infinity);
  stage.verdicts.tick(1000, stage.at(6000));
  assert.deepEqual([stage.mayJudge(0, 10_999), stage.mayJudge(1, 10_999), stage.mayJudge(0, 11_000)], [false, false, true]);
  const rare = new Stage([0, 0], { heartbeatIntervalMs: 4000, heartbeatTimeoutMs: 5000 });
  rare.verdicts.tick(1250, rare.at(5000));
  assert.equal(rare.notBeforeMs(0, 5000), 10_000, "a quarter of the timeout, if heartbeats are rare");
});

test("a late tick makes a doubt about most last longer, and one about all no shorter (SilenceVerdicts.S3)", () => {
  const most = new Stage([0, 0, 4900]);
  most.mayJudge(0, 5000);
  most.verdicts.tick(4000, most.at(14_000));
  assert.equal(most.notBeforeMs(0, 14_000), 19_000);
  const all = new Stage([0, 0, 0]);
  all.mayJudge(0, 5000);
  all.verdicts.tick(9000, all.at(14_000));
  assert.deepEqual([all.doubt(14_000), all.notBeforeMs(0, 14_000)], ["all", Infinity]);
});

test("a scheduler that is held up again and again judges in the end whoever stays silent, and nobody else (SilenceVerdicts.S5)", () => {
  const stage = new Stage([0, 0, 0]);
  let diedAtMs = Infinity;
  for (let nowMs = 2000; nowMs < 40_000; nowMs += 2000) {
    for (const node of [1, 2]) stage.heard(node, nowMs - 10);
    stage.verdicts.tick(1500, stage.at(nowMs));
    assert.equal(stage.verdicts.isPaused(stage.at(nowMs)), true);
    if (nowMs >= 5000 && stage.mayJudge(0, nowMs)) diedAtMs = Math.min(diedAtMs, nowMs);
    assert.ok(stage.notBeforeMs(1, nowMs) > nowMs, "one that was heard since is spared by each");
  }
  assert.ok(diedAtMs >= 2000 + TIMEOUT_MS && diedAtMs <= 3 * TIMEOUT_MS, `${diedAtMs}`);
});

test("when all links are closed the doubt ends two timeouts after the last one was (SilenceVerdicts.S6)", () => {
  const stage = new Stage([0, 0, 0]);
  for (const node of [0, 1]) stage.closedAtMs.set(node, 3000);
  stage.mayJudge(0, 5000);
  assert.equal(stage.notBeforeMs(0, 20_000), Infinity, "one has a link");
  stage.closedAtMs.set(2, 20_000);
  assert.deepEqual([stage.notBeforeMs(0, 20_000), stage.mayJudge(0, 29_999), stage.mayJudge(0, 30_000)], [30_000, false, true]);
  stage.heardAtMs[0] = 30_001; // it connects after all
  stage.closedAtMs.delete(0);
  assert.equal(stage.doubt(30_001), undefined, "what is over is over");
});

test("links that are all closed when the silence is noticed are doubted as well (SilenceVerdicts.S6)", () => {
  const stage = new Stage([0, 0, 0]);
  for (const node of [0, 1, 2]) stage.closedAtMs.set(node, 3000);
  assert.deepEqual([stage.mayJudge(0, 5000), stage.doubt(5000), stage.notBeforeMs(0, 5000)], [false, "all", 15_000]);
});

test("a node that registers ends a doubt about all, and while it waits none begins (SilenceVerdicts.S7)", () => {
  const stage = new Stage([0, 0, 0]);
  stage.mayJudge(0, 5000);
  stage.registeredAtMs = 60_000;
  assert.equal(stage.verdicts.registered(stage.at(60_000))?.of, "all");
  assert.deepEqual([stage.mayJudge(0, 64_999), stage.mayJudge(0, 65_000)], [false, true]);
  const before = new Stage([0, 0, 0]);
  before.registeredAtMs = 100; // it waited already, and may be cut off as the others are
  assert.equal(before.mayJudge(0, 5000), false);
  const most = new Stage([0, 0, 4900]);
  most.mayJudge(0, 5000);
  assert.equal(most.verdicts.registered(most.at(6000)), undefined, "that somebody is reached was known");
});

test("without heartbeats nothing is doubted (SilenceVerdicts.S8)", () => {
  const stage = new Stage([0, 0, 0], { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  stage.verdicts.tick(1e6, stage.at(1e6));
  assert.equal(stage.mayJudge(0, 1e6), true);
});

test("for 500 seeds of nodes that die while three live, nobody alive is judged while the scheduler is cut off, and all the dead are in the end", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = new Random(seed);
    const count = 3 + random.below(6);
    const stage = new Stage(Array.from({ length: count }, () => random.below(INTERVAL_MS)));
    const cutAtMs = 3000 + random.below(10_000);
    const healAtMs = cutAtMs + random.below(15_000);
    const diesAtMs = stage.heardAtMs.map((_, node) => (node >= 3 && random.chance(0.5) ? random.below(20_000) : Infinity));
    const returnsMs = stage.heardAtMs.map(() => random.below(INTERVAL_MS));
    const beats = stage.heardAtMs.map((ms) => ms);
    for (let nowMs = 0; nowMs < 80_000; nowMs += 100) {
      for (let node = 0; node < count; node++) {
        const isCut = nowMs >= cutAtMs && nowMs < healAtMs + (returnsMs[node] as number);
        if (nowMs % INTERVAL_MS === Math.floor((beats[node] as number) / 100) * 100 && nowMs < (diesAtMs[node] as number) && !isCut)
          stage.heard(node, nowMs);
      }
      for (let node = 0; node < count; node++) {
        if (stage.dead.has(node) || nowMs - (stage.heardAtMs[node] as number) < TIMEOUT_MS || !stage.mayJudge(node, nowMs)) continue;
        assert.ok(nowMs >= (diesAtMs[node] as number), `seed ${seed}: node ${node} lives at ${nowMs}, cut at ${cutAtMs} to ${healAtMs}`);
        stage.dead.add(node);
      }
    }
    for (let node = 0; node < count; node++) assert.equal(stage.dead.has(node), diesAtMs[node] !== Infinity, `seed ${seed}: node ${node}`);
  }
});
