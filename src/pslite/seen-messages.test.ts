// Each message is new once, in any order, for any number of messages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { SeenMessages } from "./seen-messages.ts";
import { PsMeta } from "./wire/ps-meta.ts";

const WINDOW = 2 ** 20;
const MODULUS = 2 ** 29;

const message = (timestamp: number, fields: Partial<PsMeta> = {}): PsMeta =>
  Object.assign(new PsMeta(), { appId: 0, customerId: 0, request: true, timestamp, ...fields });

/** Whether it came before; it has, from then on. */
function hasSeen(seen: SeenMessages, meta: PsMeta): boolean {
  const isSeen = seen.isSeen(meta);
  seen.add(meta);
  return isSeen;
}

test("a message is new once, whatever the order (SeenMessages.W1)", () => {
  const seen = new SeenMessages();
  for (const timestamp of [5, 0, 3, 1, 1_000_000, 7, 2_000_000, 1_500_000])
    assert.equal(hasSeen(seen, message(timestamp)), false, `${timestamp}`);
  for (const timestamp of [1_500_000, 2_000_000, 1_000_000]) assert.equal(hasSeen(seen, message(timestamp)), true, `${timestamp}`);
  assert.equal(hasSeen(seen, message(1_000_001)), false);
});

test("what is far behind counts as seen (SeenMessages.W2)", () => {
  const seen = new SeenMessages();
  seen.add(message(3_000_000));
  assert.equal(seen.isSeen(message(3_000_000 - WINDOW)), true);
  assert.equal(seen.isSeen(message(3_000_000 - WINDOW + 1)), false);
});

test("customers, requests and responses, data and control are told apart", () => {
  const seen = new SeenMessages();
  for (const fields of [{}, { customerId: 1 }, { request: false }, { appId: 1 }, { simpleApp: true }, { command: 3 }])
    assert.equal(hasSeen(seen, message(4, fields)), false, JSON.stringify(fields));
});

test("timestamps that begin again at 0 are new, and those from before are still seen (SeenMessages.W3)", () => {
  const seen = new SeenMessages();
  for (const timestamp of [MODULUS - 3, MODULUS - 1, 0, 1, MODULUS - 2, 2])
    assert.equal(hasSeen(seen, message(timestamp)), false, `${timestamp}`);
  for (const timestamp of [MODULUS - 3, MODULUS - 1, 0, 1, MODULUS - 2, 2])
    assert.equal(seen.isSeen(message(timestamp)), true, `${timestamp}`);
});

test("random timestamps are seen exactly when they came, as a set that remembers all of them has it (SeenMessages.W1)", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const [seen, model] = [new SeenMessages(), new Set<number>()];
    let newest = MODULUS - 20_000;
    for (let i = 0; i < 5000; i++) {
      const timestamp = newest - random.below(2 ** (1 + random.below(16))) + random.below(2 ** (1 + random.below(8)));
      assert.equal(hasSeen(seen, message(timestamp % MODULUS)), model.has(timestamp), `seed ${seed}: ${timestamp} after ${newest}`);
      model.add(timestamp);
      newest = Math.max(newest, timestamp);
    }
  }
});
