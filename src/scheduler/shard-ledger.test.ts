// Goal: every unit of an epoch is lent to one worker at a time and done once, goes back when its worker is gone, and
// epochs that are over cost nothing and stay over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { RunSet } from "../base/run-set.ts";
import type { UnitsRequest } from "../wire/units.ts";
import { unitOf } from "../wire/units.ts";
import type { Assignment, Runs } from "../wire/units-claim.ts";
import { ShardLedger } from "./shard-ledger.ts";

type Shape = { readonly batchCount: number; readonly partCount: number; readonly assignment: Assignment };

const EVEN: Shape = { batchCount: 4, partCount: 2, assignment: "even" };
const FREE: Shape = { batchCount: 4, partCount: 2, assignment: "free" };
const NOTHING = { done: [], held: [], unused: [], want: 0, waitMs: 1, inherited: 0, leaves: false } as const;

function request(shape: Shape, fields: Partial<UnitsRequest> = {}): UnitsRequest {
  return { name: "train", epoch: 0, ...shape, ...NOTHING, ...fields };
}

function ledgerOf(ranks: readonly number[], workerCount = ranks.length): ShardLedger {
  const ledger = new ShardLedger({ workerCount });
  ledger.follow(ranks);
  return ledger;
}

/** A worker as the ledger sees it: it keeps what it was lent, and does all of it with the next ask. */
class Labourer {
  readonly rank: number;
  readonly #ledger: ShardLedger;
  readonly #shape: Shape;
  held: Runs = [];
  isOver = false;
  lost: Runs = [];
  repeatedCount = 0;

  constructor(ledger: ShardLedger, rank: number, shape: Shape) {
    this.#ledger = ledger;
    this.rank = rank;
    this.#shape = shape;
  }

  ask(fields: Partial<UnitsRequest> = {}): number[] {
    const asked = request(this.#shape, { held: this.held, want: 2, ...fields });
    this.lost = this.#ledger.report(this.rank, asked);
    const { isOver, units, repeatedCount } = this.#ledger.lend(this.rank, asked);
    this.isOver = isOver;
    this.repeatedCount = repeatedCount;
    const held = RunSet.of(asked.held);
    held.removeRuns(this.lost);
    held.addRuns(units);
    this.held = [...held.runs];
    return [...RunSet.of(units)].map((ordinal) => unitOf(asked, ordinal)).sort((a, b) => a - b);
  }

  /** Tells that all it held is done, and asks for more. */
  finish(fields: Partial<UnitsRequest> = {}): number[] {
    return this.ask({ done: this.held, held: [], ...fields });
  }
}

test("even: worker r is lent the batches of part r, in their order", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, EVEN), new Labourer(ledger, 1, EVEN)];
  assert.deepEqual(two.ask(), [1, 3]);
  assert.deepEqual(one.ask(), [0, 2]);
  assert.deepEqual(two.finish(), [5, 7]);
  assert.deepEqual(one.finish({ want: 5 }), [4, 6]);
  assert.deepEqual(one.finish(), []);
  assert.equal(one.isOver, false, "worker 1 is at work");
  assert.deepEqual(two.finish(), []);
  assert.equal(two.isOver, true);
  one.finish();
  assert.deepEqual([one.isOver, one.repeatedCount], [true, 0]);
});

test("even: parts that have no worker are dealt to those there are, batch by batch, the same way every time", () => {
  const shape: Shape = { batchCount: 3, partCount: 4, assignment: "even" };
  const ledger = ledgerOf([0, 2, 7], 8);
  const share = (rank: number): number[] => new Labourer(ledger, rank, shape).ask({ want: 99 });
  const [zero, two, seven] = [share(0), share(2), share(7)];
  assert.deepEqual(zero, [0, 3, 4, 8, 9]); // its own 0, 4, 8; 3 of part 3; 9 of part 1
  assert.deepEqual(two, [1, 2, 6, 7, 10]);
  assert.deepEqual(seven, [5, 11]);
  assert.deepEqual(
    [...zero, ...two, ...seven].sort((a, b) => a - b),
    Array.from({ length: 12 }, (_, unit) => unit),
  );
});

test("free: whoever asks is lent the next lowest, and towards the end few at a time", () => {
  const shape: Shape = { batchCount: 20, partCount: 1, assignment: "free" };
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, shape), new Labourer(ledger, 1, shape)];
  assert.deepEqual(one.ask({ want: 99 }), [0, 1, 2, 3, 4], "a quarter of what is left at most");
  assert.deepEqual(two.ask({ want: 3 }), [5, 6, 7]);
  assert.deepEqual(two.finish({ want: 99 }), [8, 9, 10]);
  assert.deepEqual(two.finish({ want: 99 }), [11, 12, 13]);
  assert.deepEqual(two.finish({ want: 99 }), [14, 15]);
  assert.deepEqual(two.finish({ want: 99 }), [16]);
  assert.deepEqual(two.finish({ want: 99 }), [17]);
  assert.deepEqual(one.ask({ want: 99, waitMs: 0 }), [], "the last ones are not lent ahead");
  assert.deepEqual(two.finish({ want: 99 }), [18]);
});

test("the units of a worker that dies go to those that live, and are counted", () => {
  for (const shape of [EVEN, FREE]) {
    const ledger = ledgerOf([0, 1]);
    const [one, two] = [new Labourer(ledger, 0, shape), new Labourer(ledger, 1, shape)];
    two.ask();
    two.finish(); // two are done, two are held
    ledger.follow([0]);
    const seen: number[] = [];
    while (!one.isOver) seen.push(...one.finish());
    assert.deepEqual(seen.length, 6, `${shape.assignment}: all but the two that worker 1 had done`);
    assert.equal(new Set(seen).size, 6);
    assert.equal(one.repeatedCount, 2, `${shape.assignment}: those that it held`);
  }
});

test("a worker that comes back is lent some again, its own part if the units are even", () => {
  const ledger = ledgerOf([0]);
  const one = new Labourer(ledger, 0, EVEN);
  assert.deepEqual(one.ask({ want: 1 }), [0]);
  assert.deepEqual(one.finish({ want: 2 }), [1, 2], "part 1 has nobody");
  ledger.follow([0, 1]);
  const two = new Labourer(ledger, 1, EVEN);
  assert.deepEqual(two.ask({ want: 9 }), [3, 5, 7]);
  assert.deepEqual(one.finish({ want: 9 }), [4, 6]);
});

test("a worker that was taken for dead keeps what nobody has begun since, and is told what it lost", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, FREE), new Labourer(ledger, 1, FREE)];
  assert.deepEqual(two.ask({ want: 2 }), [0, 1]);
  ledger.follow([0]);
  assert.deepEqual(one.ask({ want: 1 }), [0]);
  assert.equal(one.repeatedCount, 1);
  ledger.follow([0, 1]);
  two.ask({ want: 0 });
  assert.deepEqual(two.lost, [0, 1]);
  assert.deepEqual(two.held, [1, 2], "unit 1 is its own again");
  assert.equal(two.repeatedCount, 1, "which is no repetition");
});

test("what a worker that was taken for dead has done all the same is not lent again", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, FREE), new Labourer(ledger, 1, FREE)];
  two.ask({ want: 2 });
  ledger.follow([0]);
  one.ask({ want: 1 }); // unit 0
  ledger.follow([0, 1]);
  two.finish({ want: 0 });
  const seen: number[] = [];
  one.ask({ want: 0 });
  assert.deepEqual(one.lost, [0, 1], "somebody finished it meanwhile");
  while (!one.isOver) seen.push(...one.finish());
  assert.deepEqual(seen, [2, 3, 4, 5, 6, 7]);
});

test("what is given back unused is lent again and not counted; what is merely held no longer is counted", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, FREE), new Labourer(ledger, 1, FREE)];
  two.ask({ want: 2 });
  two.ask({ held: [], unused: [1, 2], want: 0, leaves: true });
  assert.deepEqual(one.ask({ want: 2 }), [0, 1]);
  assert.equal(one.repeatedCount, 1);
});

test("even: a worker that leaves the epoch leaves its part to the others, and may come back", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, EVEN), new Labourer(ledger, 1, EVEN)];
  assert.deepEqual(two.ask({ leaves: true }), []);
  assert.deepEqual(one.ask({ want: 3 }), [0, 1, 2]);
  assert.deepEqual(two.ask({ want: 3 }), [3, 5, 7]);
});

test("a second description that differs is refused with the difference, and changes nothing", () => {
  const ledger = ledgerOf([0, 1]);
  new Labourer(ledger, 0, EVEN).ask();
  const other = new Labourer(ledger, 1, { batchCount: 5, partCount: 2, assignment: "free" });
  const message = 'epoch 0 of "train" has 4 batches, not 5 and is assigned "even", not "free", as it was described first';
  assert.throws(() => other.ask(), { code: "SPEC_MISMATCH", message });
  assert.deepEqual(new Labourer(ledger, 1, EVEN).ask(), [1, 3]);
});

test("units that do not exist, or were never lent, cannot be done or held", () => {
  const ledger = ledgerOf([0]);
  const one = new Labourer(ledger, 0, FREE);
  const refused = (fields: Partial<UnitsRequest>, pattern: RegExp): void => {
    assert.throws(
      () => one.ask(fields),
      (error) => isWeighbridgeError(error, "BAD_REQUEST") && pattern.test(error.message),
    );
  };
  refused({ done: [0, 9] }, /worker 0 reports unit 8 of epoch 0 of "train", which has 8/);
  refused({ held: [8, 9] }, /unit 8/);
  refused({ done: [3, 4] }, /worker 0 has done unit 3 of epoch 0 of "train", which was lent to nobody/);
  refused({ done: [0, 2 ** 40] }, /which has 8/);
  refused({ batchCount: 0 }, /at least one batch/);
  refused({ partCount: 65_537 }, /1 to 65536 parts/);
  refused({ batchCount: 2 ** 40 }, /at most/);
  one.ask({ held: [3, 4], want: 0 });
  assert.deepEqual(one.lost, [3, 4]);
  assert.throws(
    () => new Labourer(ledger, 0, { batchCount: 2 ** 30, partCount: 1, assignment: "free" }).ask({ epoch: 1, held: [0, 2 ** 20] }),
    /cannot hold 1048576 units/,
  );
});

test("an epoch that is over stays over, with its count of repetitions, and costs no memory of its units", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new Labourer(ledger, 0, FREE), new Labourer(ledger, 1, FREE)];
  two.ask({ want: 1 });
  ledger.follow([0]);
  while (!one.isOver) one.finish();
  assert.equal(one.repeatedCount, 1);
  ledger.follow([0, 1]);
  const late = new Labourer(ledger, 1, { ...FREE, batchCount: 99 });
  assert.deepEqual(late.ask({ held: [0, 1] }), []);
  assert.deepEqual([late.isOver, late.repeatedCount, late.lost], [true, 1, [0, 1]]);
  assert.deepEqual(new Labourer(ledger, 1, FREE).ask({ epoch: 1 }), [0, 1], "the next epoch begins anew");
});

test("epochs that were left before their end give way; those that are lent do not", () => {
  const ledger = ledgerOf([0]);
  const shape: Shape = { batchCount: 2, partCount: 1, assignment: "free" };
  const ask = (epoch: number, fields: Partial<UnitsRequest> = {}): number[] =>
    new Labourer(ledger, 0, shape).ask({ epoch, want: 1, ...fields });
  for (let epoch = 0; epoch < 64; epoch++) ask(epoch);
  assert.throws(
    () => ask(64),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && /64 epochs that are not over/.test(error.message),
  );
  ask(7, { leaves: true, want: 0 });
  assert.deepEqual(ask(64), [0]);
});

test("units of too many names are refused; names whose epochs are over are among them", () => {
  const ledger = ledgerOf([0]);
  const shape: Shape = { batchCount: 1, partCount: 1, assignment: "free" };
  for (let name = 0; name < 256; name++) {
    const labourer = new Labourer(ledger, 0, shape);
    labourer.ask({ name: `${name}` });
    labourer.finish({ name: `${name}` });
    assert.equal(labourer.isOver, true);
  }
  const ask = (name: string): number[] => new Labourer(ledger, 0, shape).ask({ name, epoch: 1 });
  assert.throws(
    () => ask("one more"),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && /256 names/.test(error.message),
  );
  assert.deepEqual(ask("7"), [0]);
});

test("after a restart nothing is lent before everybody was heard; then what they have done and hold is as it was", () => {
  for (const shape of [EVEN, FREE]) {
    const ledger = ledgerOf([0, 1]);
    ledger.unsettle();
    const account = { name: "train", epoch: 0, ...shape, suspect: [], repeatedCount: 3 };
    ledger.recall(0, { open: [{ ...account, done: [0, 2], held: [2, 3] }], over: [] });
    const [one, two] = [new Labourer(ledger, 0, shape), new Labourer(ledger, 1, shape)];
    one.held = [2, 3];
    assert.deepEqual(one.ask({ want: 9 }), []);
    ledger.recall(1, { open: [{ ...account, done: [4, 5], held: [5, 6] }], over: [] });
    ledger.settle();
    two.held = [5, 6];
    const seen = [...two.ask({ want: 9 }), ...one.ask({ want: 9 })];
    while (!one.isOver) seen.push(...two.finish(), ...one.finish());
    assert.equal(new Set(seen).size, 3, "nothing that was claimed is lent again");
    assert.equal(one.repeatedCount, 3, "and nothing else is counted: nobody is missing");
  }
});

test("after a restart what a missing worker may have begun is lent again and counted, as is what it was known to have begun", () => {
  const account = { name: "train", epoch: 0, ...FREE, suspect: [], repeatedCount: 0 };
  const missing = ledgerOf([0], 2);
  missing.unsettle();
  missing.recall(0, { open: [{ ...account, done: [0, 2, 4, 5], held: [] }], over: [] });
  missing.settle();
  const one = new Labourer(missing, 0, FREE);
  assert.deepEqual(one.ask({ want: 1 }), [2]);
  while (!one.isOver) one.finish();
  assert.equal(one.repeatedCount, 2, "units 2 and 3");

  const known = ledgerOf([0]);
  known.unsettle();
  known.recall(0, { open: [{ ...account, done: [0, 2], held: [], suspect: [5, 6] }], over: [] });
  known.settle();
  const other = new Labourer(known, 0, FREE);
  while (!other.isOver) other.finish();
  assert.equal(other.repeatedCount, 1, "unit 5");
});

test("after a restart an epoch that somebody knows to be over is over", () => {
  const ledger = ledgerOf([0, 1]);
  ledger.unsettle();
  const account = { name: "train", epoch: 3, ...FREE, suspect: [], repeatedCount: 0, done: [], held: [] };
  ledger.recall(0, { open: [account], over: [] });
  ledger.recall(1, { open: [], over: [{ name: "train", epochs: [0, 4] }] });
  ledger.settle();
  const one = new Labourer(ledger, 0, FREE);
  assert.deepEqual(one.ask({ epoch: 3 }), []);
  assert.equal(one.isOver, true);
});

test("those who live are told what the dead had done, once", () => {
  const ledger = ledgerOf([0, 1]);
  const two = new Labourer(ledger, 1, FREE);
  two.ask({ want: 2 });
  two.finish({ want: 1 });
  ledger.follow([0]);
  const asked = request(FREE, { want: 1 });
  ledger.report(0, asked);
  const { inherited } = ledger.lend(0, { ...asked, want: 0 });
  assert.deepEqual(
    [inherited?.done, inherited?.suspect],
    [
      [0, 2],
      [2, 3],
    ],
  );
  assert.equal(ledger.lend(0, { ...asked, want: 0, inherited: inherited?.version ?? 0 }).inherited, undefined);
});

test("for 300 seeds of workers that come, go, die and forget, every unit is done, and none twice but those that are counted", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const workerCount = 1 + random.below(4);
    const shape: Shape = {
      batchCount: 1 + random.below(9),
      partCount: 1 + random.below(4),
      assignment: (["even", "free", "rounds"] as const)[random.below(3)]!,
    };
    const ledger = ledgerOf(Array.from({ length: workerCount }, (_, rank) => rank));
    const present = new Set(Array.from({ length: workerCount }, (_, rank) => rank));
    const labourers = Array.from({ length: workerCount }, (_, rank) => new Labourer(ledger, rank, shape));
    const begun = new Map<number, number>();
    let deathCount = 0;
    for (let turn = 0; turn < 5000 && !labourers.some(({ isOver }) => isOver); turn++) {
      const rank = random.below(workerCount);
      if (random.chance(0.05) && present.size > 1 && present.has(rank)) {
        deathCount++;
        present.delete(rank);
        labourers[rank] = new Labourer(ledger, rank, shape); // it forgets
      } else if (random.chance(0.1)) present.add(rank);
      ledger.follow([...present].sort((a, b) => a - b));
      if (!present.has(rank)) continue;
      const labourer = labourers[rank] as Labourer;
      const units = random.chance(0.7) ? labourer.finish({ want: 1 + random.below(4) }) : labourer.ask({ want: random.below(3) });
      for (const unit of units) begun.set(unit, (begun.get(unit) ?? 0) + 1);
    }
    const over = labourers.find(({ isOver }) => isOver);
    assert.ok(over !== undefined, `seed ${seed}: the epoch ends`);
    assert.equal(begun.size, shape.batchCount * shape.partCount, `seed ${seed}: every unit`);
    const again = [...begun.values()].reduce((sum, count) => sum + count - 1, 0);
    assert.equal(again, over.repeatedCount, `seed ${seed}: exactly those are counted that were lent again`);
    if (deathCount === 0) assert.equal(again, 0, `seed ${seed}`);
  }
});

const ROUNDS: Shape = { batchCount: 5, partCount: 12, assignment: "rounds" };

/** What a worker is lent, as "0-6@3": units 0 to 6, the first of them at clock 3. */
class RoundWorker {
  readonly #ledger: ShardLedger;
  readonly #rank: number;
  #held: Runs = [];
  #clock: number;

  constructor(ledger: ShardLedger, rank: number, clock = 0) {
    this.#ledger = ledger;
    this.#rank = rank;
    this.#clock = clock;
  }

  /** All it held is done. */
  next(fields: Partial<UnitsRequest> = {}): string {
    const asked = request(ROUNDS, { done: this.#held, want: 1, clock: this.#clock, ...fields });
    this.#ledger.report(this.#rank, asked);
    const { units, clock = NaN, isOver, awaited = [] } = this.#ledger.lend(this.#rank, asked);
    this.#held = units;
    this.#clock = units.length > 0 ? clock + units.length / 2 : Math.max(this.#clock, clock || 0);
    if (awaited.length > 0) return `awaits ${awaited.join(" ")}`;
    return isOver ? "over" : units.length === 0 ? `idle@${clock}` : `${units.join("-")}@${clock}`;
  }
}

test("rounds: every batch is dealt to those who are there, all at one clock, once those of the start have come", () => {
  const ledger = ledgerOf([0, 1, 2], 2);
  const [one, two, three] = [new RoundWorker(ledger, 0, 7), new RoundWorker(ledger, 1, 6), new RoundWorker(ledger, 2, 3)];
  assert.equal(one.next(), "awaits 1 2");
  assert.equal(two.next(), "6-12@7", "the third is a newcomer: nobody waits for it");
  assert.equal(one.next(), "0-6@7");
  assert.equal(one.next(), "12-18@8");
  assert.equal(three.next(), "32-36@9", "it has a share of the first batch that is dealt when it is there");
  assert.equal(two.next(), "18-24@8");
  assert.equal(two.next(), "28-32@9");
  assert.equal(one.next(), "24-28@9");
  assert.equal(three.next({ leaves: true, done: [32, 36] }), "idle@NaN");
  assert.equal(one.next(), "36-42@10");
  assert.equal(one.next(), "48-54@11");
  assert.equal(one.next(), "idle@12", "its clock stands behind all rounds");
  assert.equal(two.next(), "42-48@10");
  assert.equal(two.next(), "54-60@11");
  assert.equal(two.next(), "over");
  assert.equal(one.next(), "over");
});

test("rounds: what a worker left behind is dealt next, at clocks of its own; nobody else's clock goes back", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new RoundWorker(ledger, 0), new RoundWorker(ledger, 1)];
  one.next();
  two.next({ want: 2 }); // 6-12@0 and 18-24@1
  ledger.follow([0]);
  assert.equal(one.next(), "0-6@0", "it was dealt before");
  assert.equal(one.next(), "12-18@1");
  assert.equal(one.next(), "6-12@2");
  ledger.follow([0, 1]);
  const again = new RoundWorker(ledger, 1);
  assert.equal(again.next(), "21-24@3", "and so does the next incarnation");
  assert.equal(one.next(), "18-21@3");
  assert.equal(one.next(), "24-30@4");
  assert.equal(again.next(), "30-36@4");
});

test("rounds: shares have at most as many parts as a worker has room for; the rest is a round of its own", () => {
  const ledger = ledgerOf([0, 1]);
  const [one, two] = [new RoundWorker(ledger, 0), new RoundWorker(ledger, 1)];
  one.next({ partsMax: 4 });
  assert.equal(two.next(), "6-12@0");
  assert.equal(one.next(), "0-4@0");
  assert.equal(one.next(), "4-5@1");
  assert.equal(two.next(), "5-6@1");
  assert.equal(two.next(), "18-24@2");
});

test("rounds: an epoch begins when all who took part in one before have come, and not with a newcomer", () => {
  const ledger = ledgerOf([0, 1, 2], 1);
  const workers = [0, 1].map((rank) => new RoundWorker(ledger, rank));
  for (const worker of workers) worker.next({ epoch: 0 });
  const [one, two] = workers.map((_, rank) => new RoundWorker(ledger, rank)) as [RoundWorker, RoundWorker];
  assert.equal(one.next({ epoch: 1 }), "awaits 1");
  ledger.died(1);
  assert.equal(one.next({ epoch: 1 }), "0-12@0");
  assert.equal(two.next({ epoch: 1 }), "18-24@1");
});

test("rounds: a restarted scheduler goes on behind the clocks that the workers tell", () => {
  const ledger = ledgerOf([0, 1]);
  ledger.unsettle();
  const account = { name: "train", epoch: 0, ...ROUNDS, suspect: [], repeatedCount: 0 };
  ledger.recall(0, { open: [{ ...account, done: [0, 6], held: [12, 18], clock: 9 }], over: [] });
  ledger.recall(1, { open: [{ ...account, done: [6, 12], held: [], clock: 8 }], over: [] });
  ledger.settle();
  const two = new RoundWorker(ledger, 1, 8);
  assert.equal(two.next(), "21-24@9", "units 18 to 24 are nobody's");
  assert.equal(two.next(), "30-36@10");
});

test("rounds: a restarted scheduler deals the rest of the rounds that were begun, at their clocks and as they were cut (RoundDeal.D4)", () => {
  const ledger = ledgerOf([0, 1, 2]);
  ledger.unsettle();
  const account = { name: "train", epoch: 0, ...ROUNDS, suspect: [], repeatedCount: 0 };
  // Worker 0 was lent its shares of batches 0, 1 and 2; worker 1 of the first, worker 2 of the first two.
  ledger.recall(0, {
    open: [{ ...account, done: [0, 4], held: [12, 16, 24, 28], clock: 10, dues: [7, 0, 4, 8, 12, 16, 9, 24, 28] }],
    over: [],
  });
  ledger.recall(1, { open: [{ ...account, done: [4, 8], held: [], clock: 8, dues: [7, 4, 8] }], over: [] });
  ledger.recall(2, { open: [{ ...account, done: [8, 12], held: [20, 24], clock: 9, dues: [7, 8, 12, 8, 20, 24] }], over: [] });
  ledger.settle();
  const [two, three] = [new RoundWorker(ledger, 1, 8), new RoundWorker(ledger, 2, 9)];
  assert.equal(two.next(), "16-20@8");
  assert.equal(two.next(), "28-32@9");
  assert.equal(two.next(), "40-44@10", "the next batch is one round, too");
  assert.equal(three.next({ done: [20, 24] }), "32-36@9");
  assert.equal(three.next(), "44-48@10");
});

test("rounds: where somebody is gone, has passed a round, or tells what was never dealt so, the rest of it is a round of its own", () => {
  const account = { name: "train", epoch: 0, ...ROUNDS, suspect: [], repeatedCount: 0 };
  const restart = (ranks: readonly number[], dues: readonly number[], clock = 3): RoundWorker => {
    const ledger = ledgerOf(ranks, 2);
    ledger.unsettle();
    ledger.recall(0, { open: [{ ...account, done: [], held: [0, 6], clock: 4, dues }], over: [] });
    ledger.recall(1, { open: [{ ...account, done: [], held: [], clock }], over: [] });
    for (const rank of ranks.slice(2)) ledger.recall(rank, { open: [{ ...account, done: [], held: [], clock }], over: [] });
    ledger.settle();
    return new RoundWorker(ledger, 1, clock);
  };
  assert.equal(restart([0, 1], [3, 0, 6]).next(), "6-12@3");
  assert.equal(restart([0, 1, 2], [3, 0, 6]).next(), "8-10@4", "the third has come since, or one has died");
  assert.equal(restart([0, 1], [3, 0, 6], 4).next(), "9-12@4", "its clock is past");
  for (const dues of [[], [3, 0], [3, 0, 9], [3, 6, 12], [3, 0, 600], [3, 6, 0], [3, 0, 18]])
    assert.equal(restart([0, 1], dues).next(), "9-12@4", dues.join());
});

test("rounds: a worker that is about to leave gets what it was dealt, and no share of later rounds", () => {
  const ledger = ledgerOf([0, 1, 2], 3);
  const [one, two, three] = [new RoundWorker(ledger, 0), new RoundWorker(ledger, 1), new RoundWorker(ledger, 2)];
  assert.equal(three.next(), "awaits 0 1");
  assert.equal(one.next(), "awaits 1");
  assert.equal(two.next(), "4-8@0", "all three have a share");
  assert.equal(three.next({ retires: true }), "8-12@0");
  assert.equal(one.next(), "0-4@0");
  assert.equal(one.next(), "12-18@1", "two share the next batch");
  assert.equal(three.next({ retires: true }), "idle@2");
  assert.equal(two.next(), "18-24@1");
});

test("a late ask of a worker that is gone gets nothing, keeps nothing, and what it has done counts", () => {
  const ledger = ledgerOf([0, 1]);
  const late = request(EVEN, { want: 2 });
  ledger.report(1, late);
  const { units } = ledger.lend(1, late);
  assert.equal(units.length, 2, "one run");
  ledger.follow([0]);
  const word = request(EVEN, { done: [units[0]!, units[0]! + 1], held: [units[0]! + 1, units[1]!], want: 2 });
  assert.deepEqual(ledger.report(1, word), word.held);
  assert.deepEqual(ledger.lend(1, word).units, []);
  const survivor = new Labourer(ledger, 0, EVEN);
  const done = new Set<number>();
  for (let i = 0; i < 20 && !survivor.isOver; i++) for (const unit of survivor.ask({ want: 8 })) done.add(unit);
  assert.equal(done.size, EVEN.batchCount * EVEN.partCount - 1);
});

test("who waits is told of those that live, have units of their own, and never asked; of nobody else", () => {
  const ledger = ledgerOf([0, 1, 2]);
  const shape = { batchCount: 1, partCount: 3, assignment: "even" } as const;
  const awaited = (rank: number, fields: Partial<UnitsRequest> = {}): readonly number[] | undefined => {
    const asked = request(shape, { want: 2, ...fields });
    ledger.report(rank, asked);
    return ledger.lend(rank, asked).awaited;
  };
  assert.equal(awaited(0), undefined, "it is lent a unit");
  assert.deepEqual(awaited(0, { held: [0, 1] }), [1, 2]);
  assert.equal(awaited(0, { held: [0, 1], waitMs: 0 }), undefined, "it asks ahead, and waits for nobody");
  assert.equal(awaited(1), undefined);
  assert.deepEqual(awaited(0, { held: [0, 1] }), [2]);
  ledger.follow([0, 1]);
  assert.equal(awaited(0, { held: [0, 1] }), undefined, "who is dead is not waited for: its unit is lent");
});
