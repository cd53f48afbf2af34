// Goal: a customer's requests end after as many responses as they expect, with the first failure, and are numbered by
// itself alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import { Customer } from "./simple-app.ts";

const failure = (message: string): WeighbridgeError => new WeighbridgeError("NODE_DEAD", message);

test("a request ends with its last response, and tells how many have come until then", async () => {
  const cluster = await MemoryCluster.start();
  const customer = new Customer(cluster.worker(), 1, 2);
  const timestamp = customer.newRequest(3);
  const wait = customer.wait(timestamp);
  let ended = false;
  const mark = (): void => {
    ended = true;
  };
  wait.then(mark, mark);
  customer.addResponse(timestamp);
  customer.addResponse(timestamp);
  await cluster.clock.advance(1);
  assert.deepEqual([customer.responseCount(timestamp), ended], [2, false]);
  customer.addResponse(timestamp);
  await cluster.run(wait);
  assert.equal(customer.responseCount(timestamp), undefined);
  customer.addResponse(timestamp);
  await customer.wait(timestamp);
});

test("a failure counts as a response; the first one is what the waiter gets", async () => {
  const cluster = await MemoryCluster.start();
  const customer = new Customer(cluster.worker(), 1, 2);
  const timestamp = customer.newRequest(3);
  customer.addResponse(timestamp, failure("first"));
  customer.addResponse(timestamp);
  customer.addResponse(timestamp, failure("second"));
  await assert.rejects(customer.wait(timestamp), /first/);
});

test("a request that expects nobody ends at once; a number that makes no sense is refused", async () => {
  const cluster = await MemoryCluster.start();
  const customer = new Customer(cluster.worker(), 1, 2);
  await customer.wait(customer.newRequest(0));
  for (const count of [Number.NaN, -1, 1.5, Infinity]) {
    assert.throws(
      () => customer.newRequest(count),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      `${count}`,
    );
  }
  assert.equal(customer.newRequest(1), 1);
});

test("customers count for themselves", async () => {
  const cluster = await MemoryCluster.start();
  const [a, b] = [new Customer(cluster.worker(), 1, 0), new Customer(cluster.worker(), 1, 1)];
  assert.deepEqual([a.newRequest(1), a.newRequest(1), b.newRequest(1)], [0, 1, 0]);
  a.addResponse(0);
  assert.deepEqual([a.tracker.keptCount, b.tracker.keptCount], [1, 1]);
});
