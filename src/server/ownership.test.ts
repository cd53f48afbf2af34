// Goal: a server knows exactly what is its own, whatever the policy and the ranks are, and says of everything else
// whose it is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Arena } from "../kernel/arena.ts";
import { evenRanges } from "../keys/key-range.ts";
import { PART_COUNT, partOf } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import { placementOfError } from "../wire/failure.ts";
import type { PlacementView } from "../wire/roster.ts";
import { checkRange, Ownership } from "./ownership.ts";

const POLICIES = ["ring", "range"] as const;
const SERVERS = [1, 4, 9];
const TWO_32 = 2n ** 32n;

function owning(view: PlacementView, rank: number): { arena: Arena; ownership: Ownership } {
  const arena = new Arena({ bytesMax: 2 ** 21 });
  const ownership = new Ownership(arena);
  ownership.adopt(view, rank);
  return { arena, ownership };
}

function keysIn(arena: Arena, keys: readonly bigint[]): BigUint64Array {
  const list = new BigUint64Array(arena.memory.buffer, arena.allocate(Math.max(8, keys.length * 8)), keys.length);
  list.set(keys);
  return list;
}

const isWrongOwner =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, "WRONG_OWNER") && !error.retryable && pattern.test(error.message);

for (const policy of POLICIES) {
  test(`with ${policy} every part, block and key is owned by exactly the server that the placement names, whatever the ranks are (Ownership.O2)`, () => {
    const view: PlacementView = { epoch: 3, policy, servers: SERVERS, moved: [5, 9, 4000, 1] };
    const placement = placementOf(view);
    for (const rank of SERVERS) {
      const { arena, ownership } = owning(view, rank);
      for (let part = 0; part < PART_COUNT; part++) assert.equal(ownership.ownsPart(part), placement.ownerOf(part) === rank);
      for (let block = 0; block < 200; block++) {
        const isOwned = placement.ownerOf(partOf(block, 77)) === rank;
        assert.equal(ownership.ownsBlock(77, block), isOwned);
        if (isOwned) ownership.checkBlock(77, block);
        else assert.throws(() => ownership.checkBlock(77, block), isWrongOwner(new RegExp(`block ${block} of parameter 77.*epoch 3`)));
      }
      const keys = Array.from({ length: 500 }, (_, i) => (BigInt(i) * 0x9e37_79b9_7f4a_7c15n) % 2n ** 64n);
      const own = keys.filter((key) => ownership.ownsKey(Number(key % TWO_32), Number(key / TWO_32)));
      ownership.checkKeys(keysIn(arena, own));
      const foreign = keys.find((key) => !own.includes(key))!;
      const owner = placement.ownerOf(partOf(Number(foreign % TWO_32), Number(foreign / TWO_32)));
      assert.throws(
        () => ownership.checkKeys(keysIn(arena, [...own.slice(0, 80), foreign, ...own.slice(80)])),
        isWrongOwner(new RegExp(`key ${foreign} .*is server ${owner}'s in epoch 3, not server ${rank}'s`)),
      );
    }
  });
}

test("raw keys are owned by even ranges over the servers of the placement, in the order of their ranks", () => {
  const ranges = evenRanges(SERVERS.length);
  for (const [index, rank] of SERVERS.entries()) {
    const { ownership } = owning({ epoch: 1, policy: "ring", servers: [9, 1, 4] }, rank);
    const { begin, end } = ranges[index]!;
    const check = (...keys: bigint[]): void => {
      const words = new Uint32Array(BigUint64Array.from(keys).buffer);
      checkRange(ownership, words, 0, keys.length);
    };
    check(begin);
    check(begin, begin + 1n, end - 1n);
    if (index > 0) assert.throws(() => check(begin - 1n, begin), isWrongOwner(/are not all server/));
    if (index < 2) assert.throws(() => check(end - 1n, end), isWrongOwner(/are not all server/));
  }
});

test("a server that takes no part in the placement owns nothing, and one that is alone owns all", () => {
  const { arena, ownership } = owning({ epoch: 1, policy: "ring", servers: [0, 1] }, 2);
  assert.equal(ownership.ownsAnyOf({ from: 0, to: PART_COUNT }), false);
  assert.throws(() => ownership.checkKeys(keysIn(arena, [1n])), isWrongOwner(/not server 2's/));
  assert.throws(() => checkRange(ownership, new Uint32Array([0, 0]), 0, 1), isWrongOwner(/not all server 2's/));
  const alone = owning({ epoch: 1, policy: "ring", servers: [2] }, 2);
  alone.ownership.checkKeys(keysIn(alone.arena, [0n, 1n, 2n ** 64n - 1n]));
  checkRange(alone.ownership, new Uint32Array([0, 0, 0xffffffff, 0xffffffff]), 0, 2);
  alone.ownership.checkBlock(3, 4);
});

test("an older placement is ignored, and the epoch in which a part left is remembered (Ownership.O1)", () => {
  const { ownership } = owning({ epoch: 4, policy: "range", servers: [0, 1] }, 0);
  ownership.adopt({ epoch: 3, policy: "range", servers: [1] }, 0);
  assert.deepEqual([ownership.epoch, ownership.serverCount, ownership.lossEpoch], [4, 2, 0]);
  ownership.adopt({ epoch: 5, policy: "range", servers: [0] }, 0);
  assert.deepEqual([ownership.epoch, ownership.lossEpoch], [5, 0], "it only got more");
  ownership.adopt({ epoch: 6, policy: "range", servers: [0], moved: [] }, 0);
  assert.equal(ownership.lossEpoch, 0);
  ownership.adopt({ epoch: 7, policy: "range", servers: [0, 1], moved: [0, 1] }, 0);
  assert.equal(ownership.lossEpoch, 7);
  assert.equal(ownership.ownsPart(0), false);
});

test("before any placement nothing is owned and nothing is checked (Ownership.O1)", () => {
  const arena = new Arena({ bytesMax: 2 ** 20 });
  const ownership = new Ownership(arena);
  assert.equal(ownership.epoch, 0);
  assert.equal(ownership.ownsPart(0), false);
  ownership.checkKeys(keysIn(arena, [1n]));
  ownership.checkBlock(1, 1);
});

test("WRONG_EPOCH carries the placement and may be retried (Ownership.O3)", () => {
  const view: PlacementView = { epoch: 8, policy: "ring", servers: [0, 1], moved: [3, 1], move: undefined };
  const error = owning(view, 0).ownership.wrongEpoch(7);
  assert.ok(isWeighbridgeError(error, "WRONG_EPOCH") && error.retryable);
  assert.match(error.message, /cut by the placement of epoch 7, and server 0 has that of epoch 8; nothing of it was applied/);
  assert.deepEqual(placementOfError(error), view);
});
