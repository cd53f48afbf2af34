// Goal: a list that comes again is checked no more than it has to be, and whatever has changed in it is seen.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { ItemLists } from "./item-lists.ts";

type Item = { data: object; key: number; priority?: number };
type Request = { readonly data: object; readonly key: number; readonly position: number };

function listsWith(epoch: () => number | undefined): {
  readonly lists: ItemLists<Item, Request>;
  freed: object | undefined;
  checks: number;
} {
  const state = { freed: undefined as object | undefined, checks: 0 };
  const check = (data: object): void => {
    state.checks++;
    if (data === state.freed) throw new WeighbridgeError("CLOSED", "it was freed");
  };
  const lists = new ItemLists<Item, Request>({
    ...{ names: ["data", "key", "priority"], what: "the items" },
    requestOf: ({ data, key }, position) => {
      check(data);
      return { data, key, position };
    },
    isSame: (a, b) => a.data === b.data && a.key === b.key && a.priority === b.priority,
    recheck: ({ data }) => check(data),
    epoch,
  });
  return Object.assign(state, { lists });
}

const itemsOf = (count: number): Item[] => Array.from({ length: count }, (_, key) => ({ data: {}, key }));

test("from the second time on, a list that is the same has the same requests; another device has its own", () => {
  const { lists } = listsWith(() => undefined);
  const items = itemsOf(3);
  const first = lists.requestsOf(items, 1);
  const second = lists.requestsOf(items, 1);
  assert.notEqual(second, first);
  assert.deepEqual(second, first);
  assert.equal(lists.requestsOf(items, 1), second);
  assert.deepEqual(
    lists.requestsOf(items, 2).map(({ position }) => position),
    [2, 2, 2],
  );
});

test("an item that was replaced, changed, added or removed is seen, and one that is wrong refused", () => {
  const { lists } = listsWith(() => 1);
  const items = itemsOf(3);
  const changes: Readonly<Record<string, () => void>> = {
    replaced: () => {
      items[1] = { data: {}, key: 1 };
    },
    "other data": () => {
      items[0]!.data = {};
    },
    "another key": () => {
      items[2]!.key = 9;
    },
    "another priority": () => {
      items[2]!.priority = 4;
    },
    added: () => {
      items.push({ data: {}, key: 20 });
    },
    removed: () => {
      items.shift();
    },
  };
  for (const [what, change] of Object.entries(changes)) {
    for (let i = 0; i < 3; i++) lists.requestsOf(items, 0);
    change();
    const requests = lists.requestsOf(items, 0);
    assert.deepEqual(
      requests.map(({ data, key }) => [data, key]),
      items.map(({ data, key }) => [data, key]),
      what,
    );
  }
  const misspelt = [{ data: {}, key: 1, prioritty: 3 }];
  assert.throws(() => lists.requestsOf(misspelt, 0), throwsCode("BAD_ARGUMENT", /did you mean priority/));
  assert.throws(() => lists.requestsOf("all" as unknown as Item[], 0), throwsCode("BAD_ARGUMENT", /the items are a list, not "all"/));
  assert.throws(() => lists.requestsOf([...itemsOf(2), { data: {}, key: 1 }], 0), throwsCode("BAD_ARGUMENT", /the items have key 1 twice/));
});

test("data that were freed are noticed: at once, or when the epoch has changed", () => {
  let epoch: number | undefined;
  const state = listsWith(() => epoch);
  const { lists } = state;
  const items = itemsOf(2);
  for (epoch of [undefined, 1, 2]) {
    state.freed = undefined;
    for (let i = 0; i < 3; i++) lists.requestsOf(items, 0);
    const before = state.checks;
    lists.requestsOf(items, 0);
    assert.equal(state.checks - before, epoch === undefined ? 2 : 0);
    state.freed = items[1]!.data;
    if (epoch !== undefined) epoch += 0.5;
    assert.throws(() => lists.requestsOf(items, 0), throwsCode("CLOSED"));
    assert.throws(() => lists.requestsOf(items, 0), throwsCode("CLOSED"), "and again");
  }
});
