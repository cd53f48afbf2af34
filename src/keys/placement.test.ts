// Goal: every part has one owner and a chain of different servers; ranges are even; a ring moves few parts, and only the right ones.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { plainMix } from "../kernel/plain-partition-kernels.ts";
import { movedParts, PART_BITS, PART_COUNT, type Placement, type PlacementOptions, partOf } from "./placement.ts";
import { rangePlacement } from "./range-placement.ts";
import { ringPlacement } from "./ring-placement.ts";

const POLICIES: Readonly<Record<string, (options: PlacementOptions) => Placement>> = { rangePlacement, ringPlacement };

const rankList = fc.uniqueArray(fc.nat({ max: 999 }), { minLength: 1, maxLength: 24 });

function shares(placement: Placement): number[] {
  return placement.servers.map((rank) => placement.partsOf(rank).length);
}

function firstRanks(count: number): number[] {
  return Array.from({ length: count }, (_, rank) => rank);
}

for (const [name, place] of Object.entries(POLICIES)) {
  describe(name, () => {
    test("every part has one owner, first of a chain of different servers of the job (P2)", () => {
      fc.assert(
        fc.property(rankList, fc.integer({ min: 1, max: 4 }), (servers, chainLength) => {
          const placement = place({ servers, epoch: 3, chainLength });
          assert.equal(placement.epoch, 3);
          assert.equal(
            shares(placement).reduce((sum, share) => sum + share, 0),
            PART_COUNT,
          );
          for (let part = 0; part < PART_COUNT; part += 97) {
            const chain = placement.chainOf(part);
            assert.equal(chain.length, Math.min(chainLength, servers.length));
            assert.equal(new Set(chain).size, chain.length);
            assert.equal(chain[0], placement.ownerOf(part));
            assert.ok(chain.every((rank) => servers.includes(rank)));
          }
        }),
        { numRuns: 40 },
      );
    });

    test("the order in which servers are listed does not matter (P3)", () => {
      const [one, other] = [place({ servers: [9, 2, 30], epoch: 0 }), place({ servers: [2, 9, 30], epoch: 0 })];
      assert.deepEqual(one.owners, other.owners);
      assert.deepEqual(movedParts(one, other), []);
    });

    test("bad servers, epochs and chains are refused", () => {
      for (const servers of [[], [1, 1], [-1], [0.5], new Array<number>(PART_COUNT + 1).fill(0)])
        assert.throws(() => place({ servers, epoch: 0 }), { code: "BAD_ARGUMENT" });
      for (const epoch of [-1, 0.5, Number.NaN]) assert.throws(() => place({ servers: [0], epoch }), { code: "BAD_ARGUMENT" });
      for (const chainLength of [0, 1.5]) assert.throws(() => place({ servers: [0], epoch: 0, chainLength }), { code: "BAD_ARGUMENT" });
    });
  });
}

test("ranges are consecutive and differ by at most one part", () => {
  for (const serverCount of [1, 2, 3, 7, 100, PART_COUNT]) {
    const placement = rangePlacement({ servers: firstRanks(serverCount), epoch: 0 });
    const counts = shares(placement);
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${serverCount} servers`);
    for (let part = 1; part < PART_COUNT; part++) assert.ok(placement.ownerOf(part) - placement.ownerOf(part - 1) <= 1);
  }
});

test("a ring of no or of half virtual nodes is refused, one of a single place each works", () => {
  for (const virtualNodes of [0, 0.5, Number.NaN, 1e9])
    assert.throws(() => ringPlacement({ servers: [0], epoch: 0, virtualNodes }), { code: "BAD_ARGUMENT" });
  assert.equal(ringPlacement({ servers: [0, 5], epoch: 0, virtualNodes: 1, chainLength: 2 }).chainOf(7).length, 2);
});

test("a server that joins a ring takes about 1/n of the parts, and no part moves between two others", () => {
  for (const serverCount of [2, 4, 10, 30]) {
    const before = ringPlacement({ servers: firstRanks(serverCount - 1), epoch: 0 });
    const after = ringPlacement({ servers: firstRanks(serverCount), epoch: 1 });
    const moved = movedParts(before, after);
    const even = PART_COUNT / serverCount;
    assert.ok(moved.length > even * 0.7 && moved.length < even * 1.3, `${moved.length} of ${PART_COUNT} moved to one of ${serverCount}`);
    for (const part of moved) assert.equal(after.ownerOf(part), serverCount - 1);
  }
});

test("a server that leaves a ring gives its parts to many others, and its successor in each chain takes over", () => {
  const before = ringPlacement({ servers: firstRanks(10), epoch: 0, chainLength: 2 });
  const after = ringPlacement({ servers: firstRanks(10).filter((rank) => rank !== 4), epoch: 1, chainLength: 2 });
  const moved = movedParts(before, after);
  assert.deepEqual(moved, before.partsOf(4));
  assert.ok(moved.length > 0.07 * PART_COUNT && moved.length < 0.13 * PART_COUNT, `${moved.length}`);
  for (const part of moved) assert.equal(after.ownerOf(part), before.chainOf(part)[1]);
  assert.ok(new Set(moved.map((part) => after.ownerOf(part))).size >= 8);
});

test("shares of a ring stay within a third of even, for up to 50 servers", () => {
  for (const serverCount of [2, 3, 5, 10, 20, 50]) {
    const even = PART_COUNT / serverCount;
    for (const share of shares(ringPlacement({ servers: firstRanks(serverCount), epoch: 0 }))) {
      assert.ok(share > even * 0.67 && share < even * 1.34, `${share} parts of one of ${serverCount} servers, ${even} is even`);
    }
  }
});

test("a part is the top bits of the mix, for both ends of u64 too (P1)", () => {
  for (const key of [0n, 1n, 2n ** 32n, 2n ** 64n - 1n, 123_456_789_012_345n]) {
    assert.equal(partOf(Number(key & 0xffff_ffffn), Number(key >> 32n)), Number(plainMix(key) >> BigInt(64 - PART_BITS)));
  }
});
