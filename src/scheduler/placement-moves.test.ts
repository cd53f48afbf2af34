// placement-moves — Goal: parts go to other servers in steps that are small, few for little state, and never begun
// where there is no room; a server that joins n gets about 1/(n+1) of the parts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { movedParts } from "../keys/moved-parts.ts";
import { PART_COUNT } from "../keys/placement.ts";
import { Placements } from "../keys/placement-of.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { ChangeCheck } from "./placement-changes.ts";
import type { PlacementChange } from "./placement-epochs.ts";
import { type MoveProgress, PlacementMoves } from "./placement-moves.ts";

const MIB = 2 ** 20;

/** Servers with so many bytes in every part, and room for so many more. */
class Stage {
  readonly clock = new SimClock();
  placement: PlacementView;
  readonly #bytesPerPart: number;
  readonly #roomBytes: number;
  readonly #serverCount: number;
  readonly #placements = new Placements();
  /** The bytes of each step. */
  readonly steps: number[] = [];
  abandonedCount = 0;

  constructor(serverCount: number, { bytesPerPart = 0, roomBytes = 2 ** 40, first = [0] } = {}) {
    this.#serverCount = serverCount;
    this.#bytesPerPart = bytesPerPart;
    this.#roomBytes = roomBytes;
    this.placement = { epoch: 1, policy: "ring", servers: first };
  }

  view(): RosterView {
    const nodes = Array.from({ length: this.#serverCount }, (_, rank) => ({
      ...{ node: idOf("server", rank), role: "server", rank, address: "", incarnation: 1, state: "alive", label: "" },
    })) as unknown as RosterView["nodes"];
    return { version: 1, nodes, placement: this.placement };
  }

  async publish({ servers = this.placement.servers, move }: PlacementChange, check?: ChangeCheck): Promise<void> {
    const { epoch, policy } = this.placement;
    const placement = { epoch: epoch + 1, policy, servers, ...(move === undefined ? {} : { move }) };
    const next = this.#placements.of(placement);
    const arriving = new Map(servers.map((rank) => [rank, { byteCount: 0, roomBytes: this.#roomBytes }]));
    const moved = movedParts(this.#placements.of(this.placement), next);
    for (const part of moved) arriving.get(next.ownerOf(part))!.byteCount += this.#bytesPerPart;
    try {
      check?.({ placement, arriving });
    } catch (thrown) {
      this.abandonedCount++;
      throw thrown;
    }
    if (moved.length > 0) this.steps.push(moved.length * this.#bytesPerPart);
    this.placement = placement;
  }

  async moveTo(servers: readonly number[], onProgress: (progress: MoveProgress) => void = () => {}): Promise<void> {
    const changes = { publish: this.publish.bind(this), settle: async () => {} };
    const moves = new PlacementMoves({ changes, clock: this.clock, view: () => this.view() });
    await this.clock.runUntil(moves.moveTo(servers, { onProgress }));
  }
}

test("steps are of at most 2 MiB, or of one part, whatever parts have; with little state there are few (PlacementMoves.M2)", async () => {
  for (const [bytesPerPart, stepsMax] of [
    [0, 8],
    [100, 8],
    [16_384, 80],
    [262_144, 620],
    [8 * MIB, 4100],
  ] as const) {
    const stage = new Stage(2, { bytesPerPart });
    const seen: MoveProgress[] = [];
    await stage.moveTo([1], (progress) => seen.push(progress));
    const limit = Math.max(2 * MIB, bytesPerPart);
    assert.ok(
      stage.steps.every((bytes) => bytes <= limit),
      `${bytesPerPart}: ${Math.max(...stage.steps)} bytes in one step`,
    );
    assert.ok(stage.steps.length <= stepsMax, `${bytesPerPart}: ${stage.steps.length} steps`);
    assert.ok(stage.abandonedCount <= 8, `${stage.abandonedCount} were too large`);
    assert.deepEqual(
      [seen[0], seen.at(-1)],
      [0, PART_COUNT].map((moved) => ({ parts: PART_COUNT, moved })),
    );
    assert.ok(
      seen.every(({ moved }, i) => i === 0 || moved > seen[i - 1]!.moved),
      "it only rises",
    );
    assert.deepEqual(stage.placement.servers, [1]);
    assert.equal(stage.placement.move, undefined);
  }
});

test("a server that joins n gets at most 1.2/(n+1) of the parts, and nothing else moves much", async () => {
  for (let count = 1; count <= 8; count++) {
    const ranks = Array.from({ length: count }, (_, rank) => rank);
    const stage = new Stage(count + 1, { first: ranks });
    let parts = 0;
    await stage.moveTo([...ranks, count], (progress) => {
      parts = progress.parts;
    });
    assert.ok(parts <= (1.2 * PART_COUNT) / (count + 1), `${parts} parts for ${count} servers and one more`);
  }
});

test("a step for which a server has no room ends the move before anything of it moves (PlacementMoves.M3)", async () => {
  const stage = new Stage(2, { bytesPerPart: MIB, roomBytes: MIB });
  await assert.rejects(stage.moveTo([1]), throwsCode("ARENA_FULL", /server 1 would get \d+ bytes more, and has room for 1048576/));
  assert.deepEqual(stage.steps, []);
  await stage.moveTo([0]);
  assert.deepEqual([stage.placement.servers, stage.placement.move], [[0], undefined], "and it goes back");
});
