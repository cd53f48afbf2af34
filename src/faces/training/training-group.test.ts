// Goal: workers that come together go on from the one that is furthest: its values, its epoch, its clock
// (TrainingGroup.W2, TrainingGroup.W4). No step that somebody has ended is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { MemoryCollective, MemoryCollectives } from "../../testing/memory-collective.ts";
import type { ReducedRoute } from "./reduced-route.ts";
import { type GroupCollective, TrainingGroup } from "./training-group.ts";

/** One worker of three: its group, one route, its clock. */
class Member {
  readonly group: TrainingGroup;
  readonly values: Float32Array;
  readonly slots: Float32Array;
  readonly updater: { step: number; readonly slots: Float32Array };
  readonly routes: readonly ReducedRoute[];
  clocks: number;

  constructor(shared: MemoryCollectives, rank: number, { step, value, clocks }: { step: number; value: number; clocks: number }) {
    const memory = new MemoryCollective(shared, rank);
    const collective = {
      get members() {
        return memory.members;
      },
      newcomers: [],
      exchange: async (parts: readonly Uint8Array[]) => await memory.exchange(parts),
      broadcast: async (floats: Float32Array, from: number) => {
        const parts = await memory.exchange(memory.members.map(() => new Uint8Array(floats.slice().buffer)));
        floats.set(new Float32Array(parts[memory.members.indexOf(from)]!.slice().buffer));
      },
    } as unknown as GroupCollective;
    this.group = new TrainingGroup(collective, () => ({}));
    this.values = Float32Array.of(value);
    this.slots = Float32Array.of(10 * value);
    this.updater = { step, slots: this.slots };
    this.routes = [{ parameter: { values: this.values }, updater: this.updater } as unknown as ReducedRoute];
    this.clocks = clocks;
  }

  advanceTo(clock: number): number {
    this.clocks = Math.max(this.clocks, clock);
    return this.clocks;
  }

  async join(): Promise<void> {
    await this.group.compare(this.routes, this);
    await this.group.join(this.routes);
  }

  get state(): readonly number[] {
    return [this.updater.step, this.values[0]!, this.slots[0]!, this.clocks];
  }
}

test("a step that one member has ended is everybody's, whatever their ranks", async () => {
  const shared = new MemoryCollectives([0, 1, 2]);
  const first = { step: 0, value: 1, clocks: 0 };
  const [zero, one, two] = [0, 1, 2].map((rank) => new Member(shared, rank, first)) as [Member, Member, Member];
  await Promise.all([zero, one, two].map((member) => member.join()));
  // Worker 1 dies within the reduce: worker 2 has the sum, worker 0 does not.
  two.updater.step = 1;
  two.values[0] = 7;
  two.slots[0] = 70;
  two.advanceTo(1);
  shared.reform([0, 2]);
  await Promise.all([zero, two].map((member) => member.join()));
  assert.deepEqual(zero.state, [1, 7, 70, 1]);
  assert.deepEqual(two.state, zero.state);
});

test("a newcomer has the veterans' values, epoch and clock, also where it has made more steps of something else", async () => {
  const shared = new MemoryCollectives([0, 2]);
  const [zero, two] = [0, 2].map((rank) => new Member(shared, rank, { step: 4, value: 3, clocks: 9 })) as [Member, Member];
  await Promise.all([zero, two].map((member) => member.join()));
  zero.group.epoch = 5;
  two.group.epoch = 5;
  shared.reform([0, 1, 2]);
  const newcomer = new Member(shared, 1, { step: 50, value: -1, clocks: 2 });
  await Promise.all([zero, newcomer, two].map((member) => member.join()));
  assert.deepEqual(newcomer.state, [4, 3, 30, 9]);
  assert.deepEqual([newcomer.group.foundEpoch(), newcomer.group.foundEpoch()], [5, undefined]);
  assert.equal(zero.group.foundEpoch(), undefined);
});

test("clocks go up to the highest, also when it is a newcomer's", async () => {
  const shared = new MemoryCollectives([0, 1]);
  const members = [3, 8].map((clocks, rank) => new Member(shared, rank, { step: 0, value: rank, clocks }));
  await Promise.all(members.map((member) => member.join()));
  assert.deepEqual(
    members.map(({ clocks }) => clocks),
    [8, 8],
  );
});

test("step counts above 2^24 are everybody's to the last one", async () => {
  const shared = new MemoryCollectives([0, 1]);
  const step = 2 ** 24 + 1;
  const [zero, one] = [step - 2, step].map((count, rank) => new Member(shared, rank, { step: count, value: rank, clocks: 0 })) as [
    Member,
    Member,
  ];
  await Promise.all([zero, one].map((member) => member.join()));
  assert.deepEqual([zero.updater.step, one.updater.step], [step, step]);
});

test("members that reduce different numbers of parameters are told so", async () => {
  const shared = new MemoryCollectives([0, 1]);
  const [zero, one] = [0, 1].map((rank) => new Member(shared, rank, { step: 0, value: 0, clocks: 0 })) as [Member, Member];
  const outcomes = await Promise.allSettled([
    zero.group.compare([...zero.routes, ...zero.routes], zero),
    one.group.compare(one.routes, one),
  ]);
  for (const [rank, outcome] of outcomes.entries()) {
    assert.ok(outcome.status === "rejected" && isWeighbridgeError(outcome.reason, "SPEC_MISMATCH"));
    assert.match(outcome.reason.message, new RegExp(`worker ${1 - rank} .*reduces ${rank === 0 ? "1, not 2" : "2, not 1"} parameters`));
  }
});

test("a step has the samples of the earliest round that somebody has a share of; the others take part without theirs (TrainingGroup.W5)", async () => {
  const shared = new MemoryCollectives([0, 1, 2]);
  const members = [0, 1, 2].map((rank) => new Member(shared, rank, { step: 0, value: 1, clocks: 7 }));
  const agree = async (...rounds: readonly (number | undefined)[]): Promise<readonly string[]> => {
    const outcomes = members.map(({ group }, i) =>
      group.agree({ round: rounds[i], isOver: rounds[i] === undefined, hasNext: true, isStopping: false }),
    );
    return (await Promise.all(outcomes)).map(({ isStep, isDue, isOver, allHaveNext, mustRegroup }) =>
      Object.entries({ isStep, isDue, isOver, allHaveNext, mustRegroup })
        .flatMap(([name, is]) => (is ? [name] : []))
        .join(" "),
    );
  };
  assert.deepEqual(await agree(3, 3, 5), ["isStep isDue", "isStep isDue", "isStep"]);
  assert.deepEqual(await agree(4, undefined, 5), ["isStep isDue", "isStep", "isStep"]);
  assert.deepEqual(await agree(5, 5, 5), ["isStep isDue allHaveNext", "isStep isDue allHaveNext", "isStep isDue allHaveNext"]);
  assert.deepEqual(await agree(undefined, undefined, undefined), ["isOver", "isOver", "isOver"]);
});

test("one member that stops the training stops it at all of them (Trainer.T6)", async () => {
  const shared = new MemoryCollectives([0, 1, 2]);
  const groups = [0, 1, 2].map((rank) => new Member(shared, rank, { step: 0, value: 1, clocks: 7 }).group);
  const votes = await Promise.all(
    groups.map(async (group, i) => await group.agree({ round: 4, isOver: false, hasNext: true, isStopping: i === 1 })),
  );
  assert.deepEqual(
    votes.map(({ mustStop }) => mustStop),
    [true, true, true],
  );
});
