// Goal: requests that never end cost a bounded memory, per worker and together, and none of it stays when their worker
// or its link is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { StubCaller } from "../testing/stub-caller.ts";
import { StubLink } from "../testing/stub-link.ts";
import type { Channel } from "./channel.ts";
import { LINK_GRACE_MS, PartialRequests } from "./partial-requests.ts";

const MIB = 2 ** 20;
const isFull = (error: unknown): boolean => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable;

function stage() {
  const clock = new SimClock();
  const dropped: string[] = [];
  const unfinished = new PartialRequests<string>({ clock, dropped: (request) => dropped.push(request) });
  const worker = (rank: number, incarnation = 1): StubCaller => new StubCaller(clock, { id: 9 + 2 * rank, incarnation });
  return { clock, dropped, unfinished, worker };
}

const ANY = { begin: assert.fail, add: () => {}, byteCountOf: () => MIB };

/** The first frame of a request in several. */
function begin(unfinished: PartialRequests<string>, channel: Channel, name: string | number, request: string, byteCount: number): void {
  unfinished.take(channel, name, { ...ANY, isFirst: true, isLast: false, begin: () => request, byteCountOf: () => byteCount });
}

/** Its last one. */
function end(unfinished: PartialRequests<string>, channel: Channel, name: string | number): string | undefined {
  return unfinished.take(channel, name, { ...ANY, isFirst: false, isLast: true });
}

/** Keeps requests of a MiB until one is refused; returns how many were kept. */
function fill(unfinished: PartialRequests<string>, { channel }: StubCaller): number {
  for (let count = 0; ; count++) {
    try {
      begin(unfinished, channel, count, `${count}`, MIB);
    } catch (thrown) {
      assert.ok(isFull(thrown), String(thrown));
      return count;
    }
  }
}

test("one worker may leave 512 MiB unfinished, all together 1 GiB, and nothing is refused once some has ended (PartialRequests.N1)", () => {
  const { unfinished, worker } = stage();
  const [first, second, third] = [worker(0), worker(1), worker(2)];
  assert.equal(fill(unfinished, first), 512);
  assert.equal(fill(unfinished, second), 512, "one that has its fill takes nothing from the next");
  assert.equal(unfinished.bytes, 2 ** 30);
  assert.equal(fill(unfinished, third), 0);
  end(unfinished, first.channel, 7);
  begin(unfinished, third.channel, "a", "a", MIB);
  assert.equal(unfinished.get(third.channel, "a"), "a");
  begin(unfinished, third.channel, "a", "longer", MIB); // takes the place of the one before
  assert.equal(unfinished.get(third.channel, "a"), "longer");
  assert.throws(() => begin(unfinished, third.channel, "a", "too long", 2 * MIB), isFull);
  assert.equal(unfinished.get(third.channel, "a"), undefined, "what is refused is not kept, nor what it was to replace");
  unfinished.close();
  assert.equal(unfinished.bytes, 0);
});

test("nothing is waited for when a link ends that left nothing unfinished, nor after the end (PartialRequests.N4)", async () => {
  const { clock, unfinished, worker } = stage();
  const [done, unfinishedOne] = [worker(0), worker(1)];
  for (const { channel } of [done, unfinishedOne]) begin(unfinished, channel, "a", "a", MIB);
  end(unfinished, done.channel, "a");
  await clock.run();
  done.channel.detach(done.link);
  assert.equal(clock.pendingCount, 0, "its requests had ended");
  unfinishedOne.channel.detach(unfinishedOne.link);
  assert.equal(clock.pendingCount, 1);
  unfinished.close();
  assert.equal(clock.pendingCount, 0);
});

test("what a worker left unfinished goes when its link is gone and does not come back, and stays when it does (PartialRequests.N2)", async () => {
  const { clock, dropped, unfinished, worker } = stage();
  const caller = worker(0);
  for (const name of ["a", "b"]) begin(unfinished, caller.channel, name, name, MIB);
  begin(unfinished, worker(1).channel, "c", "c", MIB);
  caller.channel.detach(caller.link);
  await clock.advance(LINK_GRACE_MS - 1);
  const again = new StubLink();
  caller.channel.attach(again);
  await clock.advance(LINK_GRACE_MS);
  assert.deepEqual([unfinished.get(caller.channel, "a"), dropped], ["a", []], "it came back");
  caller.channel.detach(again);
  await clock.advance(LINK_GRACE_MS - 1);
  assert.deepEqual(dropped, []);
  await clock.advance(1);
  assert.deepEqual([dropped, unfinished.bytes], [["a", "b"], MIB], "others keep theirs");
});

test("a worker that is dead, or has a new incarnation, has nothing unfinished, and its link is cut off (PartialRequests.N2, PartialRequests.N3)", () => {
  const { dropped, unfinished, worker } = stage();
  const caller = worker(0);
  begin(unfinished, caller.channel, "a", "a", MIB);
  unfinished.forgetWorker(9);
  assert.deepEqual([dropped, unfinished.bytes, caller.link.isDestroyed], [["a"], 0, true]);
  const [old, next] = [worker(1, 1), worker(1, 2)];
  begin(unfinished, old.channel, "b", "b", MIB);
  assert.equal(unfinished.get(next.channel, "b"), undefined);
  begin(unfinished, next.channel, "c", "c", MIB);
  assert.deepEqual([dropped, unfinished.bytes], [["a", "b"], MIB]);
  assert.equal(next.link.isDestroyed, false);
});

test("a worker that leaves nothing unfinished keeps its link, and watching it costs nothing", async () => {
  const { clock, unfinished, worker } = stage();
  const caller = worker(0);
  for (let i = 0; i < 100; i++) {
    begin(unfinished, caller.channel, i, "a", MIB);
    end(unfinished, caller.channel, i);
  }
  unfinished.forgetWorker(9);
  assert.equal(caller.link.isDestroyed, false);
  caller.channel.detach(caller.link);
  await clock.run();
  assert.equal(clock.nowMs(), 0, "no look at all, however many requests there were");
});

test("a request is its owner's with the last frame; once a frame was refused the rest is refused, and what came is dropped (PartialRequests.N5)", () => {
  const { dropped, unfinished, worker } = stage();
  const { channel } = worker(0);
  begin(unfinished, channel, "a", "whole", MIB);
  assert.equal(unfinished.take(channel, "a", { ...ANY, isFirst: false, isLast: false }), undefined);
  assert.deepEqual([end(unfinished, channel, "a"), unfinished.bytes, dropped], ["whole", 0, []]);
  const isBad = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");
  assert.throws(() => end(unfinished, channel, "a"), isBad, "it has ended");
  begin(unfinished, channel, "b", "torn", MIB);
  const torn = {
    ...{ ...ANY, isFirst: false, isLast: false },
    add: () => {
      throw new WeighbridgeError("BAD_REQUEST", "a hole");
    },
  };
  assert.throws(() => unfinished.take(channel, "b", torn), /a hole/);
  assert.deepEqual([unfinished.bytes, dropped], [0, ["torn"]]);
  assert.throws(() => end(unfinished, channel, "b"), isBad);
  begin(unfinished, channel, "c", "first", MIB);
  begin(unfinished, channel, "c", "second", MIB); // its sender began anew
  assert.deepEqual([end(unfinished, channel, "c"), dropped], ["second", ["torn", "first"]]);
});
