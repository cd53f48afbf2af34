// Goal: every part has one owner; ranges are even; a ring moves few parts, hardly any between servers that stay, and
// overfills nobody.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { plainMix } from "../kernel/plain-partition-kernels.ts";
import { movedParts } from "./moved-parts.ts";
import { PART_BITS, PART_COUNT, type Placement, type PlacementOptions, partOf } from "./placement.ts";
import { rangePlacement } from "./placement-of.ts";
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
    test("every part has one owner, a server of the job (Placement.P2)", () => {
      fc.assert(
        fc.property(rankList, (servers) => {
          const placement = place({ servers, epoch: 3 });
          assert.equal(placement.epoch, 3);
          assert.equal(
            shares(placement).reduce((sum, share) => sum + share, 0),
            PART_COUNT,
          );
          for (let part = 0; part < PART_COUNT; part += 97) assert.ok(servers.includes(placement.ownerOf(part)));
        }),
        { numRuns: 40 },
      );
    });

    test("the order in which servers are listed does not matter (Placement.P3)", () => {
      const [one, other] = [place({ servers: [9, 2, 30], epoch: 0 }), place({ servers: [2, 9, 30], epoch: 0 })];
      assert.deepEqual(one.owners, other.owners);
      assert.deepEqual(movedParts(one, other), []);
    });

    test("bad servers and epochs are refused", () => {
      for (const servers of [[], [1, 1], [-1], [0.5], new Array<number>(PART_COUNT + 1).fill(0)])
        assert.throws(() => place({ servers, epoch: 0 }), { code: "BAD_ARGUMENT" });
      for (const epoch of [-1, 0.5, Number.NaN]) assert.throws(() => place({ servers: [0], epoch }), { code: "BAD_ARGUMENT" });
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

/** The parts that move when the servers change, and how many of them move between servers that stay. */
function changeOf(before: readonly number[], after: readonly number[]): { readonly moved: number; readonly amongThoseThatStay: number } {
  const [one, other] = [ringPlacement({ servers: before, epoch: 0 }), ringPlacement({ servers: after, epoch: 1 })];
  const moved = movedParts(one, other);
  const stays = (rank: number): boolean => before.includes(rank) && after.includes(rank);
  return { moved: moved.length, amongThoseThatStay: moved.filter((part) => stays(one.ownerOf(part)) && stays(other.ownerOf(part))).length };
}

test("a server that joins or leaves a ring moves about 1/n of the parts, and hardly any between two others", () => {
  for (const serverCount of [2, 3, 4, 7, 9, 11, 16]) {
    const servers = firstRanks(serverCount);
    const even = PART_COUNT / serverCount;
    for (const gone of [0, serverCount - 1]) {
      const others = servers.filter((rank) => rank !== gone);
      for (const change of [changeOf(others, servers), changeOf(servers, others)]) {
        const text = `server ${gone} of ${serverCount}: ${change.moved} parts, ${change.amongThoseThatStay} between others, 1/n is ${even}`;
        assert.ok(change.moved > even * 0.85 && change.moved < even * 1.2, text);
        assert.ok(change.amongThoseThatStay < 0.01 * PART_COUNT, text);
      }
    }
  }
});

test("the parts of a server that leaves a ring go to many others", () => {
  const before = ringPlacement({ servers: firstRanks(10), epoch: 0 });
  const after = ringPlacement({ servers: firstRanks(10).filter((rank) => rank !== 4), epoch: 1 });
  assert.ok(new Set(before.partsOf(4).map((part) => after.ownerOf(part))).size >= 8);
});

test("the fullest server of a ring is within 1.05 of the mean, for 1 to 16 servers and whatever their ranks (RingPlacement.R2)", () => {
  for (let serverCount = 1; serverCount <= 16; serverCount++) {
    for (const servers of [firstRanks(serverCount), firstRanks(serverCount).map((rank) => rank * 37 + 5)]) {
      const fullest = Math.max(...shares(ringPlacement({ servers, epoch: 0 })));
      assert.ok(fullest <= (PART_COUNT / serverCount) * 1.05, `${fullest} parts on the fullest of ${serverCount} servers`);
    }
  }
});

test("a part is the top bits of the mix, for both ends of u64 too (Placement.P1)", () => {
  for (const key of [0n, 1n, 2n ** 32n, 2n ** 64n - 1n, 123_456_789_012_345n]) {
    assert.equal(partOf(Number(key & 0xffff_ffffn), Number(key >> 32n)), Number(plainMix(key) >> BigInt(64 - PART_BITS)));
  }
});
