// Goal: workers that wait for each other leave together with everybody's value, nobody waits for the dead, and what was
// held stays held.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RendezvousName } from "../wire/control.ts";
import { NAMES_MAX, Rendezvous, type RendezvousState } from "./rendezvous.ts";

const END = { name: "end", generation: 0 };

/** All in their first incarnation. */
class EpochRendezvous {
  readonly rendezvous = new Rendezvous();

  constructor(...live: number[]) {
    this.follow(live);
  }

  follow(live: readonly number[]): readonly RendezvousName[] {
    return this.rendezvous.follow(live.map((rank) => ({ rank, incarnation: 1 })));
  }

  come(rank: number, name: RendezvousName, value: string): readonly RendezvousName[] {
    return this.rendezvous.come({ rank, incarnation: 1 }, name, value);
  }

  stateOf(name: RendezvousName): RendezvousState {
    return this.rendezvous.stateOf(name);
  }
}

function meetingOf(...live: number[]): EpochRendezvous {
  return new EpochRendezvous(...live);
}

test("is held when every live worker has come, with everybody's value by rank (Rendezvous.R1)", () => {
  const rendezvous = meetingOf(0, 1, 2);
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: false, missing: [0, 1, 2] });
  assert.deepEqual(rendezvous.come(2, END, "c"), []);
  assert.deepEqual(rendezvous.come(0, END, "a"), []);
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: false, missing: [1] });
  assert.deepEqual(rendezvous.come(1, END, "b"), [END]);
  const values = ["a", "b", "c"].map((value, rank) => ({ rank, value }));
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: true, values });
});

test("nobody waits for the dead; what a worker came with before it died counts (Rendezvous.R1)", () => {
  const rendezvous = meetingOf(0, 1, 2);
  rendezvous.come(0, END, "a");
  rendezvous.come(1, END, "b");
  assert.deepEqual(rendezvous.follow([0, 2]), []);
  assert.deepEqual(rendezvous.follow([0]), [END]);
  const state = rendezvous.stateOf(END);
  assert.deepEqual(state.isHeld && state.values.map(({ rank }) => rank), [0, 1]);
});

test("is not held by nobody: when all are dead, the next one to come holds it alone (Rendezvous.R1)", () => {
  const rendezvous = meetingOf(0, 1);
  assert.deepEqual(rendezvous.follow([]), []);
  assert.equal(rendezvous.stateOf(END).isHeld, false);
  rendezvous.follow([1]);
  assert.deepEqual(rendezvous.come(1, END, "b"), [END]);
});

test("a worker that was restarted has to come itself: what its earlier incarnation said does not count for it (Rendezvous.R1)", () => {
  const rendezvous = new Rendezvous();
  rendezvous.follow([0, 1].map((rank) => ({ rank, incarnation: 1 })));
  rendezvous.come({ rank: 0, incarnation: 1 }, END, "a");
  const restarted = { rank: 0, incarnation: 2 };
  rendezvous.follow([restarted, { rank: 1, incarnation: 1 }]);
  assert.deepEqual(rendezvous.come({ rank: 1, incarnation: 1 }, END, "b"), []);
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: false, missing: [0] });
  assert.deepEqual(rendezvous.come(restarted, END, "new"), [END]);
});

test("stays held, with the same values, whoever comes, dies or returns later (Rendezvous.R2)", () => {
  const rendezvous = meetingOf(0);
  rendezvous.come(0, END, "a");
  const held = rendezvous.stateOf(END);
  rendezvous.follow([0, 1]);
  assert.deepEqual(rendezvous.come(1, END, "late"), []);
  assert.deepEqual(rendezvous.come(0, END, "again"), []);
  rendezvous.follow([]);
  assert.deepEqual(rendezvous.stateOf(END), held);
});

test("a worker that comes again before it is held counts once, with its newer value (Rendezvous.R3)", () => {
  const rendezvous = meetingOf(0, 1);
  rendezvous.come(0, END, "old");
  assert.deepEqual(rendezvous.come(0, END, "new"), []);
  rendezvous.come(1, END, "b");
  const state = rendezvous.stateOf(END);
  assert.deepEqual(state.isHeld && state.values[0], { rank: 0, value: "new" });
});

test("the last two generations of a name are kept; an older one is answered as held, without values (Rendezvous.R4)", () => {
  const rendezvous = meetingOf(0);
  for (let generation = 0; generation < 4; generation++) rendezvous.come(0, { name: "end", generation }, `${generation}`);
  const valuesOf = (generation: number): readonly string[] => {
    const state = rendezvous.stateOf({ name: "end", generation });
    return state.isHeld ? state.values.map(({ value }) => value) : ["not held"];
  };
  assert.deepEqual([0, 1, 2, 3, 4].map(valuesOf), [[], [], ["2"], ["3"], ["not held"]]);
  assert.deepEqual(rendezvous.come(0, { name: "end", generation: 1 }, "late"), []);
  assert.deepEqual(valuesOf(1), []);
});

test("names, and generations that gather, are bounded (Rendezvous.R4)", () => {
  const rendezvous = meetingOf(0, 1);
  for (let i = 0; i < 4; i++) rendezvous.come(0, { name: "end", generation: i }, "");
  assert.throws(() => rendezvous.come(0, { name: "end", generation: 4 }, ""), { code: "QUEUE_FULL", retryable: true });
  for (let i = 1; i < NAMES_MAX; i++) rendezvous.come(0, { name: `n${i}`, generation: 0 }, "");
  assert.throws(() => rendezvous.come(0, { name: "one more", generation: 0 }, ""), { code: "QUEUE_FULL" });
  rendezvous.come(1, { name: "n7", generation: 0 }, ""); // held: nobody waits at it
  rendezvous.come(0, { name: "one more", generation: 0 }, "");
  assert.equal(rendezvous.stateOf({ name: "n7", generation: 0 }).isHeld, false, "a name that is forgotten begins anew");
});

test("after a restart of the scheduler, what a worker left is held for those who have not heard it (Rendezvous.R5)", () => {
  const values = [
    { rank: 0, value: "a" },
    { rank: 1, value: "b" },
  ];
  const rendezvous = meetingOf(0, 1);
  rendezvous.come(1, END, "b");
  assert.deepEqual(rendezvous.rendezvous.recall(END, values), [END]);
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: true, values });
  assert.deepEqual(rendezvous.rendezvous.recall(END, []), []);
  assert.deepEqual(rendezvous.stateOf(END), { isHeld: true, values });
});

test("whatever the order of comings, deaths and returns: held once all who live have come, never before, with one result for all", () => {
  const act = fc.record({ kind: fc.constantFrom("come", "die", "return"), rank: fc.nat({ max: 3 }), generation: fc.nat({ max: 1 }) });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
      const live = new Set([0, 1, 2, 3]);
      const rendezvous = meetingOf(...live);
      const came = [new Set<number>(), new Set<number>()];
      const results: (string | undefined)[] = [undefined, undefined];
      for (const { kind, rank, generation } of acts) {
        if (kind === "come" && !live.has(rank)) continue;
        if (kind === "come") {
          came[generation]!.add(rank);
          rendezvous.come(rank, { name: "end", generation }, `${rank}`);
        } else {
          live[kind === "die" ? "delete" : "add"](rank);
          rendezvous.follow([...live].sort((a, b) => a - b));
        }
        for (const number of [0, 1]) {
          const state = rendezvous.stateOf({ name: "end", generation: number });
          const mayBe = came[number]!.size > 0 && [...live].every((one) => came[number]!.has(one));
          if (results[number] === undefined) assert.equal(state.isHeld, mayBe);
          else assert.equal(JSON.stringify(state), results[number]);
          if (state.isHeld) results[number] ??= JSON.stringify(state);
        }
      }
    }),
  );
});
