// Each message is new once, in any order, for any number of messages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SeenMessages } from "./seen-messages.ts";
import { PsMeta } from "./wire/ps-meta.ts";

const message = (timestamp: number, fields: Partial<PsMeta> = {}): PsMeta =>
  Object.assign(new PsMeta(), { appId: 0, customerId: 0, request: true, timestamp, ...fields });

test("a message is new once, whatever the order (W1)", () => {
  const seen = new SeenMessages();
  for (const timestamp of [5, 0, 3, 1, 1_000_000, 7, 2_000_000, 1_500_000])
    assert.equal(seen.hasSeen(message(timestamp)), false, `${timestamp}`);
  for (const timestamp of [1_500_000, 2_000_000, 1_000_000]) assert.equal(seen.hasSeen(message(timestamp)), true, `${timestamp}`);
  assert.equal(seen.hasSeen(message(1_000_001)), false);
});

test("what is far behind counts as seen (W2)", () => {
  const seen = new SeenMessages();
  seen.hasSeen(message(3_000_000));
  assert.equal(seen.hasSeen(message(1_000_000)), true);
});

test("customers, requests and responses, data and control are told apart", () => {
  const seen = new SeenMessages();
  for (const fields of [{}, { customerId: 1 }, { request: false }, { appId: 1 }, { simpleApp: true }, { command: 3 }])
    assert.equal(seen.hasSeen(message(4, fields)), false, JSON.stringify(fields));
});
