// Goal: highest priority first, first in first out within one, and a read never in front of a write it must see.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { WeighbridgeError } from "../base/errors.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { Answer } from "./answer.ts";
import { Call } from "./call.ts";
import type { FrameBatch } from "./frame-batch.ts";
import { Outbox } from "./outbox.ts";

/** Reads or writes one key. */
class KeyCall extends Call {
  readonly functionId = 1;
  readonly byteCount = 0;
  readonly isIdempotent = false;
  readonly isIntact = true;
  readonly name: string;
  readonly isUpdate: boolean;
  readonly isRead: boolean;
  readonly key: number;

  constructor(name: string, options: { priority: number; key: number; kind: "push" | "pull" | "pushPull" }) {
    super(options.priority);
    this.name = name;
    this.key = options.key;
    this.isUpdate = options.kind !== "pull";
    this.isRead = options.kind !== "push";
  }

  mustFollow(waiting: Call): boolean {
    return waiting instanceof KeyCall && waiting.isUpdate && waiting.key === this.key;
  }

  encode(_header: FrameHeader, _batch: FrameBatch): void {}

  encodeWithdrawn(): void {}

  destination(): undefined {}

  answered(): boolean {
    return true;
  }

  failed(_error: WeighbridgeError): void {}
}

const push = (name: string, priority = 0, key = 1): KeyCall => new KeyCall(name, { priority, key, kind: "push" });
const pull = (name: string, priority = 0, key = 1): KeyCall => new KeyCall(name, { priority, key, kind: "pull" });
const answer = (request: number, priority = 0): Answer => new Answer({ functionId: 1, priority, request, app: 0, customer: 0, command: 0 });

function drained(outbox: Outbox): string {
  return outbox
    .drain()
    .map((frame) => (frame instanceof KeyCall ? frame.name : frame instanceof Answer ? `answer ${frame.label.request}` : "notice"))
    .join(" ");
}

function filled(...frames: readonly (KeyCall | Answer)[]): Outbox {
  const outbox = new Outbox();
  for (const frame of frames) outbox.push(frame);
  return outbox;
}

test("frames of one priority leave in the order they came (Outbox.O1)", () => {
  const frames = Array.from({ length: 100 }, (_, i) => push(`${i}`, 0, i));
  assert.equal(drained(filled(...frames)), frames.map(({ name }) => name).join(" "));
});

test("higher priorities leave first, negative ones last, answers among calls (Outbox.O2)", () => {
  assert.equal(drained(filled(push("a", -3), push("b"), answer(7, 5), push("c", 9), answer(8), push("d", 5))), "c answer 7 d b answer 8 a");
});

test("length counts what is here", () => {
  const outbox = filled(push("a", 1), push("b"), push("c", 2));
  assert.equal(outbox.length, 3);
  outbox.shift();
  assert.equal(outbox.length, 2);
  outbox.drain();
  assert.deepEqual([outbox.length, outbox.shift()], [0, undefined]);
});

test("an urgent read of a key that is being written waits behind that write, other reads do not (Outbox.O3)", () => {
  assert.equal(drained(filled(push("w", 0, 1), pull("other", 9, 2), pull("own", 9, 1))), "other w own");
});

test("a read goes behind the lowest of the writes it must see", () => {
  assert.equal(drained(filled(push("low", -5), push("mid", 0), pull("read", 9), push("late", 7))), "late mid low read");
});

test("a read is not held by a write that came later, nor by one that leaves before it anyway", () => {
  assert.equal(drained(filled(pull("read", 5), push("later", 0))), "read later");
  assert.equal(drained(filled(push("urgent", 9), pull("read", 0))), "urgent read");
});

test("a pushPull is held like a read and holds others like a write", () => {
  const both = new KeyCall("both", { priority: 9, key: 1, kind: "pushPull" });
  assert.equal(drained(filled(push("w"), both, pull("read", 9))), "w both read");
});

test("what was drained and is pushed again leaves in the same order", () => {
  const outbox = filled(push("w"), pull("held", 9), push("x", 3, 2), pull("free", 2, 2));
  const order = ["x", "free", "w", "held"].join(" ");
  for (const frame of outbox.drain()) outbox.push(frame);
  assert.equal(drained(outbox), order);
});

test("for any mix of pushes, pulls and departures, Outbox.O1 to O3 hold", () => {
  const step = fc.record({
    isLeaving: fc.boolean(),
    kind: fc.constantFrom("push", "pull", "pushPull"),
    priority: fc.integer({ min: -2, max: 2 }),
    key: fc.integer({ min: 0, max: 2 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const outbox = new Outbox();
      const left: KeyCall[] = [];
      const cameAt = new Map<KeyCall, number>();
      for (const [i, { isLeaving, ...options }] of steps.entries()) {
        if (isLeaving) {
          const frame = outbox.shift();
          if (frame instanceof KeyCall) left.push(frame);
        } else {
          const call = new KeyCall(`${i}`, options);
          cameAt.set(call, i);
          outbox.push(call);
        }
      }
      left.push(...(outbox.drain() as KeyCall[]));
      assert.equal(left.length, cameAt.size);
      for (const [i, first] of left.entries()) {
        for (const second of left.slice(i + 1)) {
          const isSwapped = (cameAt.get(second) as number) < (cameAt.get(first) as number);
          if (!isSwapped) continue;
          // Outbox.O3
          assert.ok(!(first.isRead && first.mustFollow(second)), `${first.name} overtook the write ${second.name}`);
          if (!first.isRead && !second.isRead) assert.ok(first.priority > second.priority); // Outbox.O1
        }
      }
    }),
    { seed: 1, numRuns: 1000 },
  );
});
