// request-queue — Goal: what waits to leave is bounded, keeps its order, and makes room again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../../base/deferred.ts";
import { clockAdvance } from "../../contracts/clocks.ts";
import { rowsPull } from "../../contracts/rows.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { RoutedRequest, Router } from "../router.ts";
import { RequestQueue } from "./request-queue.ts";

/** A router whose servers have room for nothing until `open` is called. */
class FullRouter {
  readonly sent: RoutedRequest[] = [];
  readonly #room = new Deferred<void>();
  #isOpen = false;

  open(): void {
    this.#isOpen = true;
    this.#room.resolve();
  }

  releaseOf(): undefined {
    return undefined;
  }

  isCurrent(): boolean {
    return true;
  }

  isUnknownIncarnation(): boolean {
    return false;
  }

  trySend(requests: readonly RoutedRequest[]): boolean {
    if (this.#isOpen) this.sent.push(...requests);
    return this.#isOpen;
  }

  async room(): Promise<void> {
    await this.#room.promise;
  }
}

function requestsOf(fn: unknown, names: readonly string[]): RoutedRequest[] {
  return names.map((name) => ({ fn, name, server: 0, epoch: 1, subject: undefined }) as unknown as RoutedRequest);
}

test("when the queue is full, requests are refused and ends of clocks are not; what waited leaves in its order, and there is room again (RequestQueue.Q1)", async () => {
  const router = new FullRouter();
  const queue = new RequestQueue(router as unknown as Router, 3);
  const waiting = [queue.add(requestsOf(rowsPull, ["a", "b"])), queue.add(requestsOf(rowsPull, ["c"]))];
  await assert.rejects(queue.add(requestsOf(rowsPull, ["d"])), throwsCode("QUEUE_FULL", /^3 requests wait to leave: await some of them$/));
  waiting.push(queue.add(requestsOf(clockAdvance, ["end of a clock"])));
  router.open();
  await Promise.all(waiting);
  await queue.last;
  await queue.add(requestsOf(rowsPull, ["e"]));
  assert.deepEqual(
    router.sent.map((request) => (request as unknown as { readonly name: string }).name),
    ["a", "b", "c", "end of a clock", "e"],
  );
  await queue.last;
  assert.equal(queue.last, undefined);
});
