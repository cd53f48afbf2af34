// Goal: the room of a tensor is taken whole, is not touched before it is used, and follows the blocks that this server
// owns.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../kernel/arena.ts";
import { SimdOptimizerKernels } from "../kernel/optimizer-kernels.ts";
import { BlockRooms } from "./block-rooms.ts";
import { TensorShape } from "./tensor-shape.ts";
import { resolveOptimizer } from "./updaters/optimizer-spec.ts";
import { Updater } from "./updaters/updater.ts";

const BLOCK_ROWS = 8_192;
const WIDTH = 16;

function stage(blocks: number): { readonly arena: Arena; readonly rooms: BlockRooms; readonly usedBefore: number } {
  const arena = new Arena({ bytesMax: 8 * 2 ** 20 });
  const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer({ type: "adam" }), { kind: "tensor", width: WIDTH });
  return { arena, rooms: new BlockRooms(arena, new TensorShape([blocks * BLOCK_ROWS, WIDTH]), updater), usedBefore: arena.usedBytes };
}

test("room for a tensor is taken for all blocks that are wanted or for none (BlockRooms.R2)", () => {
  const { arena, rooms, usedBefore } = stage(8);
  assert.throws(() => rooms.reserve(() => true, "a tensor"), /no room for a tensor, whose 8 blocks on this server take \d+ bytes/);
  assert.equal(arena.usedBytes, usedBefore);
  rooms.reserve((block) => block < 4, "a tensor");
  const { reservedBytes } = rooms;
  assert.equal(reservedBytes, 4 * BLOCK_ROWS * (3 * WIDTH + 1) * 4); // values, two slots, steps of rows
  assert.throws(() => rooms.reserve(() => true, "a tensor"), { code: "ARENA_FULL" });
  assert.equal(rooms.reservedBytes, reservedBytes, "what was taken before stays");
});

test("room that is reserved is not touched, and goes with blocks that are wanted no more (BlockRooms.R1)", () => {
  const { arena, rooms, usedBefore } = stage(4);
  rooms.reserve(() => true, "a tensor");
  assert.ok(arena.bytes.subarray(0x10000 * 2, 7 * 2 ** 20).every((byte) => byte === 0));
  const taken = rooms.take(2);
  rooms.reserve((block) => block === 3, "a tensor");
  assert.equal(rooms.reservedBytes, BLOCK_ROWS * (3 * WIDTH + 1) * 4);
  rooms.releaseAll();
  const bytes = rooms.bytesOf(2);
  for (const part of ["values", "slots", "steps"] as const) arena.release(taken[part], bytes[part]);
  assert.equal(arena.usedBytes, usedBefore);
});
