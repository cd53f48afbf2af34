// Goal: lists that level 1 folds (worker/level-one/list-rounds.ts) mean what they mean key by key: drawn programs of
// lists, single calls, waits and failures have the same results and the same errors, whether lists can be folded or
// not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { KEY_COUNT, LISTS, ListModel } from "./list-rounds.ts";

const SEEDS = 40;
const PHASES = 12;

/** A folding model and one that cannot fold, which do the same. */
class Program {
  readonly folding: ListModel;
  readonly plain: ListModel;
  readonly #random: Random;
  readonly #seed: number;
  readonly #deviceCount: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = new Random(seed);
    this.#deviceCount = 2 + this.#random.below(3);
    const options = { deviceCount: this.#deviceCount, goesOn: this.#random.chance(0.5) };
    this.folding = new ListModel({ ...options, isFolding: true });
    this.plain = new ListModel({ ...options, isFolding: false });
  }

  async run(): Promise<void> {
    for (let phase = 0; phase < PHASES; phase++) {
      const list = this.#random.below(LISTS.length);
      const rounds = 5 + this.#random.below(8);
      for (let round = 0; round < rounds; round++) await this.#calmRound(list);
      const steps = 1 + this.#random.below(8);
      for (let step = 0; step < steps; step++) await this.#wildStep(list);
      if (phase < PHASES - 1) await this.#settle();
      else if (this.#random.chance(0.5)) this.#both((model) => model.close());
    }
    await this.#end();
    this.#compare("at the end");
  }

  #both(act: (model: ListModel) => void): void {
    act(this.folding);
    act(this.plain);
  }

  async #end(failure?: WeighbridgeError): Promise<void> {
    await this.folding.endBatch(failure);
    await this.plain.endBatch(failure);
  }

  #compare(when: string): void {
    assert.deepEqual(this.folding.state(), this.plain.state(), `seed ${this.#seed}, ${when}`);
  }

  /** Every device pushes and pulls a list, and mostly nothing else happens. */
  async #calmRound(list: number): Promise<void> {
    const waits = this.#random.below(4);
    for (let device = 0; device < this.#deviceCount; device++) {
      const value = this.#random.below(100);
      this.#both((model) => model.pushList(device, list, value));
      this.#both((model) => model.pullList(device, list));
      if (waits === 1) this.#both((model) => model.waitAll(device));
      if (waits === 2) this.#both((model) => model.wait(device, LISTS[list]![3]!));
    }
    this.#both((model) => model.turn());
    await this.#end();
    this.#compare("after a round of a list");
  }

  async #wildStep(list: number): Promise<void> {
    const random = this.#random;
    const device = random.below(this.#deviceCount);
    const key = random.below(KEY_COUNT);
    const value = random.below(100);
    const other = random.chance(0.7) ? list : random.below(LISTS.length);
    const item = random.below(16);
    const isPull = random.chance(0.5);
    const acts: (() => unknown)[] = [
      () => this.#both((model) => model.pushList(device, other, value)),
      () => this.#both((model) => model.pushList(device, other, value)),
      () => this.#both((model) => model.pullList(device, other)),
      () => this.#both((model) => model.pullList(device, other)),
      () => this.#calmRound(list),
      () => this.#both((model) => model.push(device, key, value)),
      () => this.#both((model) => model.pull(device, key)),
      () => this.#both((model) => model.wait(device, key)),
      () => this.#both((model) => model.waitAll(device)),
      () => this.#both((model) => model.resultOf(key)),
      () => this.#both((model) => model.turn()),
      () => this.#both((model) => model.turn()),
      () => this.#end(),
      () => this.#end(random.chance(0.3) ? new WeighbridgeError("DEVICE_FAILED", "the card failed") : undefined),
      () => random.chance(0.05) && this.#both((model) => model.lose(device)),
      () => random.chance(0.05) && this.#both((model) => model.free(device, list, item, isPull)),
    ];
    await acts[random.below(acts.length)]!();
    this.#compare("after a step");
  }

  /** Rounds that are open are completed, and pulled. */
  async #settle(): Promise<void> {
    for (let device = 0; device < this.#deviceCount; device++)
      for (let key = 0; key < KEY_COUNT; key++) {
        this.#both((model) => model.push(device, key, 1));
        this.#both((model) => model.pull(device, key));
      }
    for (let i = 0; i < 4; i++) {
      this.#both((model) => model.turn());
      await this.#end();
    }
    this.#compare("when it has settled");
  }
}

test(`drawn programs of lists and single calls have the same results and errors whether lists are folded, for ${SEEDS} seeds`, async () => {
  let preparedRuns = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const program = new Program(seed);
    await program.run();
    assert.equal(program.plain.preparedRuns, 0);
    preparedRuns += program.folding.preparedRuns;
  }
  assert.ok(preparedRuns > SEEDS * PHASES, `${preparedRuns} rounds were folded`);
});

test("a list that comes again is one thing to do from its sixth round on, and what was prepared is given back", async () => {
  const model = new ListModel({ deviceCount: 2, isFolding: true, goesOn: false });
  for (let round = 1; round <= 9; round++) {
    for (const device of [0, 1]) model.pushList(device, 0, round);
    for (const device of [0, 1]) model.pullList(device, 0);
    model.turn();
    await model.endBatch();
    assert.equal(model.preparedRuns, Math.max(0, round - 5), `round ${round}`);
  }
  assert.equal(model.preparedCount, 2);
  model.push(0, 5, 1);
  assert.equal(model.preparedCount, 0);
  assert.ok(!model.log.some((line) => line.includes("_")), "no call failed");
});

test("a device that ends while the round of a folded list is open, or runs, is told as it is key by key", async () => {
  for (const goesOn of [false, true])
    for (const isRunning of [false, true]) {
      const models = [true, false].map((isFolding) => new ListModel({ deviceCount: 3, isFolding, goesOn }));
      for (const model of models) {
        for (let round = 1; round <= 9; round++) {
          const last = round === 9 && !isRunning ? 1 : 3;
          for (let device = 0; device < last; device++) model.pushList(device, 0, round);
          for (let device = 0; device < last; device++) model.pullList(device, 0);
          model.turn();
          if (round < 9) await model.endBatch();
        }
        model.waitAll(0);
        model.lose(1);
        model.turn();
        await model.endBatch();
        for (const device of [0, 2]) model.pushList(device, 0, 10);
        for (const device of [0, 2]) model.pullList(device, 0);
        model.turn();
        await model.endBatch();
      }
      assert.ok(models[0]!.preparedRuns > 0);
      assert.deepEqual(models[0]!.state(), models[1]!.state(), `goes on: ${goesOn}, runs: ${isRunning}`);
    }
});

test("a list that is unfolded every few rounds is folded ever more seldom, and as before once it is left alone (ListRounds.F3)", async () => {
  const model = new ListModel({ deviceCount: 2, isFolding: true, goesOn: false });
  const rounds = async (count: number): Promise<void> => {
    for (let round = 0; round < count; round++) {
      for (const device of [0, 1]) model.pushList(device, 0, round);
      for (const device of [0, 1]) model.pullList(device, 0);
      model.turn();
      await model.endBatch();
    }
  };
  for (let step = 0; step < 100; step++) {
    await rounds(5);
    model.resultOf(7);
  }
  assert.ok(model.preparations <= 16, `${model.preparations} preparations, in 100 steps of which each could have had two`);
  await rounds(800);
  const before = model.preparedRuns;
  await rounds(10);
  assert.equal(model.preparedRuns, before + 10);
  model.resultOf(7);
  await rounds(8);
  assert.ok(model.preparedRuns > before + 10, "it was folded for long enough to be folded soon again");
});
