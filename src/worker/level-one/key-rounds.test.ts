// Goal: whatever the order in which threads push, pull, claim shares, finish them and end, every pull gets the sum of
// its own round, or fails; nothing waits for ever; tasks go by priority, the earlier of two equal ones first.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { keyWordsFor } from "./key-record.ts";
import { KeyRounds, type RoundRules } from "./key-rounds.ts";
import { createModelMemory, type ModelMemory, ModelWords } from "./model-words.ts";
import type { Claim } from "./task-queue.ts";

const FACTS = { isGather: false, hasWeights: false, isExchanged: false };

type Drawn = {
  readonly deviceCount: number;
  readonly keyCount: number;
  readonly shares: number;
  readonly threadsMax: number;
  readonly goesOn: boolean;
  readonly isExchanged: boolean;
};

/** A thread's view, and what it holds in its hands. */
type Thread = { readonly words: ModelWords; readonly rounds: KeyRounds; claims: readonly Claim[] };

/** Threads in one thread: every step is one that a real one could make next. Data are one number for each share. */
class Stage {
  readonly threads: Thread[];
  readonly drawn: Drawn;
  readonly #random: Random;
  /** By ref: what was pushed. */
  readonly #pushed = new Map<number, number>();
  /** By key: results 0 and 1, share by share. */
  readonly #results: number[][][];
  /** By key, then device. */
  readonly #states: { round: number; isPulling: boolean }[][];
  #refs = 0;
  readonly #sums = new Map<string, number>();
  pulls = 0;
  failures = 0;

  constructor(seed: number, drawn: Drawn) {
    this.drawn = drawn;
    this.#random = new Random(seed);
    const { deviceCount, keyCount, shares, threadsMax, goesOn, isExchanged } = drawn;
    const memory: ModelMemory = createModelMemory(deviceCount, keyWordsFor(deviceCount), keyCount + 2);
    const devices = Array.from({ length: deviceCount }, (_, device) => device);
    const rules: RoundRules = { threadsMax, goesOn, devices, oneReduceAtATime: seed % 2 === 0, oneHandOutAtATime: seed % 3 === 0 };
    this.threads = Array.from({ length: deviceCount + 1 }, (_, thread) => {
      const words = new ModelWords(memory, thread);
      return { words, rounds: new KeyRounds(words, rules, () => shares), claims: [] };
    });
    const [owner] = this.threads as [Thread];
    for (const device of devices) owner.words.setHome(device, device + 1);
    for (let key = 0; key < keyCount; key++) owner.rounds.open(key, 1, { ...FACTS, isExchanged });
    this.#results = Array.from({ length: keyCount }, () => [new Array<number>(shares).fill(0), new Array<number>(shares).fill(0)]);
    this.#states = Array.from({ length: keyCount }, () => devices.map(() => ({ round: 0, isPulling: false })));
  }

  isLive(device: number): boolean {
    return this.threads[0]!.words.isLive(device);
  }

  /** A device pushes and pulls, if it waits for nothing. */
  advance(device: number, keyIndex: number): void {
    const state = this.#states[keyIndex]![device]!;
    const { words, rounds } = this.threads[device + 1]!;
    if (state.isPulling) return;
    const value = this.#random.below(1000) + 1;
    const ref = ++this.#refs;
    this.#pushed.set(ref, value);
    const priority = this.#random.below(3);
    try {
      words.locked(() => {
        const round = rounds.checkPush(keyIndex, device);
        rounds.push(keyIndex, device, ref, priority);
        state.round = round;
        this.#sums.set(`${keyIndex} ${round} ${device}`, value);
        rounds.pull(keyIndex, device, this.#random.chance(0.5) ? ref : 0, priority);
        state.isPulling = true;
      });
    } catch (thrown) {
      if (!isWeighbridgeError(thrown) || !["NODE_DEAD", "QUEUE_FULL"].includes(thrown.code)) throw thrown;
    }
  }

  /** A thread begins or ends a share, or hears what has ended. */
  work(thread: number): void {
    const own = this.threads[thread]!;
    if (own.claims.length === 0) {
      own.claims = own.words.locked(() => own.rounds.tasks.claim());
      if (own.claims.length > 0) return;
    } else {
      const { claims } = own;
      own.claims = [];
      for (const claim of claims) this.#runShare(own, claim);
      own.words.locked(() => own.rounds.tasks.finish(claims));
      return;
    }
    if (thread > 0) this.#hear(thread - 1);
    else this.#exchange();
  }

  #runShare({ rounds }: Thread, { keyIndex, device, share, round }: Claim): void {
    if (device >= 0) return;
    const sources = rounds.sourcesOf(keyIndex, round);
    this.#results[keyIndex]![round & 1]![share] = sources.reduce((sum, ref) => sum + (this.#pushed.get(ref) ?? 0), 0);
  }

  #exchange(): void {
    const { words, rounds } = this.threads[0]!;
    const keyIndex = words.locked(() => rounds.claimExchange());
    if (keyIndex >= 0) words.locked(() => rounds.exchanged(keyIndex, 0));
  }

  #hear(device: number): void {
    const { words, rounds } = this.threads[device + 1]!;
    const news = words.locked(() => rounds.hear(device));
    if (news === undefined) return;
    const state = this.#states[news.keyIndex]![device]!;
    if (news.kind === "failed") {
      this.failures++;
      state.isPulling = false;
      assert.equal(words.failure(news.failure).code, "NODE_DEAD");
      return;
    }
    if (news.kind === "copy") words.locked(() => rounds.copied(news.keyIndex, device));
    this.#check(news.keyIndex, device);
    state.isPulling = false;
    this.pulls++;
  }

  /** KeyRounds.R3: the result is that of the round that the device pushed, in every share. */
  #check(keyIndex: number, device: number): void {
    const { round } = this.#states[keyIndex]![device]!;
    const sums = this.#results[keyIndex]![round & 1]!;
    const all = Array.from({ length: this.drawn.deviceCount }, (_, other) => this.#sums.get(`${keyIndex} ${round} ${other}`) ?? 0);
    const whole = all.reduce((sum, value) => sum + value, 0);
    const least = this.#sums.get(`${keyIndex} ${round} ${device}`) ?? 0;
    for (const sum of sums) {
      assert.equal(sum, sums[0], "all shares are of one round");
      assert.ok(
        sum >= least && sum <= whole && (!this.#isWhole() || sum === whole),
        `round ${round} of key ${keyIndex}: ${sum} of ${whole}`,
      );
    }
  }

  #isWhole(): boolean {
    return this.threads[0]!.words.liveCount === this.drawn.deviceCount;
  }

  lose(device: number): void {
    const { words, rounds } = this.threads[0]!;
    words.locked(() => {
      const failure = words.keepFailure(new WeighbridgeError("NODE_DEAD", `device ${device}`));
      rounds.lose(device, failure);
      rounds.tasks.abandon(device + 1, failure);
    });
    this.threads[device + 1]!.claims = [];
    for (const states of this.#states) states[device]!.isPulling = false;
  }

  isWaiting(keyIndex: number): boolean {
    return this.#states[keyIndex]!.some(({ isPulling }, device) => isPulling && this.isLive(device));
  }

  advanceAll(keyIndex: number): void {
    for (let device = 0; device < this.drawn.deviceCount; device++) if (this.isLive(device)) this.advance(device, keyIndex);
  }

  get isIdle(): boolean {
    return this.#states.every((states) => states.every(({ isPulling }, device) => !isPulling || !this.isLive(device)));
  }
}

function run(seed: number, loses: boolean): Stage {
  const random = new Random(seed * 7919);
  const deviceCount = 1 + random.below(4);
  const stage = new Stage(seed, {
    ...{ deviceCount, keyCount: 1 + random.below(3), shares: 1 + random.below(4), threadsMax: 1 + random.below(3) },
    ...{ goesOn: random.chance(0.5), isExchanged: random.chance(0.3) },
  });
  const losesAt = loses ? random.below(600) : -1;
  for (let step = 0; step < 600; step++) {
    if (step === losesAt) stage.lose(random.below(deviceCount));
    const device = random.below(deviceCount);
    if (stage.isLive(device) && random.chance(0.4)) stage.advance(device, random.below(stage.drawn.keyCount));
    const thread = random.below(deviceCount + 1);
    if (thread === 0 || stage.isLive(thread - 1)) stage.work(thread);
  }
  // All that can be done is done; then those push whom others wait for.
  for (let turn = 0; turn < 4; turn++) {
    for (let i = 0; i < 200; i++)
      for (let thread = 0; thread <= deviceCount; thread++) if (thread === 0 || stage.isLive(thread - 1)) stage.work(thread);
    for (let key = 0; key < stage.drawn.keyCount; key++) if (stage.isWaiting(key)) stage.advanceAll(key);
  }
  return stage;
}

suite("seeded threads", () => {
  test("every pull gets the sum of its round, for 300 seeds (KeyRounds.R1 to R4)", () => {
    let pulls = 0;
    for (let seed = 1; seed <= 300; seed++) {
      const stage = run(seed, false);
      assert.ok(stage.isIdle && stage.pulls > 0 && stage.failures === 0, `seed ${seed}: ${stage.pulls} pulls, ${stage.failures} failures`);
      pulls += stage.pulls;
    }
    assert.ok(pulls > 10_000);
  });

  test("a device that ends at any step leaves no pull open, for 300 seeds (KeyRounds.R5)", () => {
    let failures = 0;
    for (let seed = 1; seed <= 300; seed++) {
      const stage = run(seed, true);
      assert.ok(stage.isIdle, `seed ${seed}: ${JSON.stringify(stage.drawn)}`);
      failures += stage.failures;
    }
    assert.ok(failures > 50);
  });
});

test("claims come by priority, then by sequence, and an urgent task overtakes a large one between two shares", () => {
  for (const isOneLane of [false, true]) {
    const words = new ModelWords(createModelMemory(1, keyWordsFor(1), 8), 0);
    const rules: RoundRules = { threadsMax: 8, goesOn: false, devices: [0], oneReduceAtATime: isOneLane, oneHandOutAtATime: false };
    const rounds = new KeyRounds(words, rules, (keyIndex) => (keyIndex === first ? 3 : 1));
    const first = rounds.open(0, 1, FACTS);
    const others = [1, 2, 3].map((key) => rounds.open(key, 1, FACTS));
    const order: number[] = [];
    const take = (): void => {
      const claims = rounds.tasks.claim();
      order.push(...claims.map(({ keyIndex }) => keyIndex - first));
      rounds.tasks.finish(claims);
    };
    rounds.push(first, 0, 64, 0);
    take();
    for (const [i, keyIndex] of others.entries()) rounds.push(keyIndex, 0, 64, [0, 5, 0][i]!);
    while (rounds.tasks.next() !== undefined) take();
    assert.deepEqual(order, isOneLane ? [0, 0, 0, 2, 1, 3] : [0, 2, 0, 0, 1, 3]);
    assert.deepEqual(rounds.tasks.claim(), []);
  }
});

test("a model has as many keys as there is room for, and says so", () => {
  const memory = createModelMemory(2, keyWordsFor(2), 3);
  const rounds = new KeyRounds(
    new ModelWords(memory, 0),
    { threadsMax: 1, goesOn: false, devices: [0, 1], oneReduceAtATime: false, oneHandOutAtATime: false },
    () => 1,
  );
  for (const key of [0, 1]) rounds.open(key, 1, FACTS);
  assert.throws(() => rounds.open(2, 1, FACTS), throwsCode("QUEUE_FULL", /at most 2 keys/));
});

test("a thread that ends with the lock breaks the model, and nobody waits for it (ModelWords.W2)", () => {
  const memory = createModelMemory(1, keyWordsFor(1), 4);
  const [owner, thread] = [new ModelWords(memory, 0), new ModelWords(memory, 1)];
  assert.equal(owner.threadEnded(1), true);
  thread.locked(() => {
    assert.equal(owner.threadEnded(1), false);
  });
  assert.throws(() => owner.locked(() => 0), throwsCode("CLOSED", /cannot go on/));
  assert.throws(() => thread.locked(() => 0), throwsCode("CLOSED"));
});

test("small tasks are claimed in one go, as many as make a run, and large ones alone (TaskQueue.Q2)", () => {
  const words = new ModelWords(createModelMemory(1, keyWordsFor(1), 128), 0);
  const rules: RoundRules = { threadsMax: 8, goesOn: false, devices: [0], oneReduceAtATime: false, oneHandOutAtATime: false };
  const rounds = new KeyRounds(words, rules, (keyIndex) => (keyIndex === 40 ? 2 : 1));
  const lengths = [...new Array<number>(40).fill(4), 200_000, 60_000, 60_000, 4, 4];
  for (const [key, length] of lengths.entries()) rounds.open(key, length, FACTS);
  for (const key of lengths.keys()) rounds.push(key, 0, 64, 0);
  const runs: number[] = [];
  for (let run = rounds.tasks.claim(); run.length > 0; run = rounds.tasks.claim()) {
    runs.push(run.length);
    rounds.tasks.finish(run);
  }
  assert.deepEqual(runs, [32, 8, 1, 1, 1, 3]);
});

test("a thread that ends within a run fails all of its tasks (TaskQueue.Q3)", () => {
  const memory = createModelMemory(1, keyWordsFor(1), 8);
  const rules: RoundRules = { threadsMax: 8, goesOn: false, devices: [0], oneReduceAtATime: false, oneHandOutAtATime: false };
  const [owner, thread] = [0, 1].map((number) => new KeyRounds(new ModelWords(memory, number), rules, () => 1)) as [KeyRounds, KeyRounds];
  const words = new ModelWords(memory, 0);
  for (const key of [0, 1, 2]) owner.open(key, 1, FACTS);
  for (const key of [0, 1, 2]) owner.push(key, 0, 64, 0);
  for (const key of [0, 1, 2]) owner.pull(key, 0, 64, 0);
  assert.equal(thread.tasks.claim().length, 3);
  const failure = words.keepFailure(new WeighbridgeError("NODE_DEAD", "thread 1"));
  assert.deepEqual(
    owner.tasks.abandon(1, failure).map(({ keyIndex }) => keyIndex),
    [0, 1, 2],
  );
  assert.deepEqual(
    [0, 1, 2].map(() => owner.hear(0)?.kind),
    ["failed", "failed", "failed"],
  );
  assert.deepEqual(owner.tasks.abandon(1, failure), []);
});
