// Goal: SimdOptimizerKernels equals PlainOptimizerKernels bit for bit, for every optimizer, every entry and every
// width, and writes nowhere but where it should: the whole memory is compared.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Random } from "../base/random.ts";
import { putFloats, putWords, readFloats } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import {
  BETA_POWERS_BYTES,
  HYPER,
  HYPER_BYTES,
  HYPER_FLOATS,
  OPTIMIZER,
  type OptimizerKernels,
  readBetaPowers,
  SimdOptimizerKernels,
  writeBetaPowers,
} from "./optimizer-kernels.ts";
import { PlainOptimizerKernels } from "./plain-optimizer-kernels.ts";

const ARENA_BYTES = 2 ** 18;
/** The page of the kernels' own lists, which the reference does not use. */
const SCRATCH_BYTES = 40_960;
const SLOTS_MAX = 4;
const ROW_COUNT = 7;
const WIDTHS = [1, 2, 3, 4, 5, 7, 8, 11, 16, 33, 64];
const NAMES = Object.keys(OPTIMIZER) as (keyof typeof OPTIMIZER)[];
const U32_MAX = 2 ** 32 - 1;

const IMPLEMENTATIONS: readonly { readonly name: string; readonly open: (arena: Arena) => OptimizerKernels }[] = [
  { name: "PlainOptimizerKernels", open: (arena) => new PlainOptimizerKernels(arena) },
  { name: "SimdOptimizerKernels", open: (arena) => new SimdOptimizerKernels(arena) },
];

/** Seeded data in an arena of its own. */
class Stage {
  readonly arena: Arena = new Arena({ bytesMax: ARENA_BYTES });
  readonly hyper: number;
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.hyper = this.#putHyper(seed % 2 === 1);
  }

  /** Of either sign, over a few orders of magnitude. */
  values(count: number): number {
    return putFloats(this.arena, this.#floats(count, 0.5));
  }

  /** Not negative, as sums of squares are. */
  slots(count: number): number {
    return putFloats(this.arena, this.#floats(count, 0));
  }

  /** A list of table rows: values, slots, and the count of Adam's steps behind the second slot. */
  rows(width: number, counted: boolean): number {
    const addresses = Array.from({ length: ROW_COUNT }, () => {
      const row = putFloats(this.arena, [...this.#floats(width, 0.5), ...this.#floats(width * SLOTS_MAX, 0)]);
      if (counted)
        this.arena.words[row / 4 + 3 * width] = this.#random.chance(0.1) ? U32_MAX - 1 : this.#random.below(2 ** this.#random.below(32));
      return row;
    });
    return putWords(this.arena, addresses);
  }

  /** Rows of a block have counts of their own from now on, beside `base` for all of them. */
  countRows(base: number): void {
    const counts = Array.from({ length: ROW_COUNT }, () => (this.#random.chance(0.2) ? U32_MAX : this.#random.below(1_000)));
    const hyper = new Float64Array(this.arena.memory.buffer, this.hyper, HYPER_FLOATS);
    hyper[HYPER.rowSteps] = putWords(this.arena, counts);
    hyper[HYPER.stepBase] = base;
    hyper[HYPER.stepIncrement] = this.#random.below(2);
  }

  /** What a worker pulled of table rows, but for some of them, lies elsewhere from now on. */
  pullRows(width: number): void {
    const pulled = Array.from({ length: ROW_COUNT }, () => (this.#random.chance(0.3) ? 0 : this.values(width)));
    const hyper = new Float64Array(this.arena.memory.buffer, this.hyper, HYPER_FLOATS);
    hyper[HYPER.pulledRows] = putWords(this.arena, pulled);
  }

  #floats(count: number, below: number): Float32Array {
    return Float32Array.from({ length: count }, () => (this.#random.fraction() - below) * 2 ** (this.#random.below(12) - 6));
  }

  /** `bare`: gradients count as they are, for which the kernels have loops of their own. */
  #putHyper(bare: boolean): number {
    const address = this.arena.allocate(HYPER_BYTES);
    const hyper = new Float64Array(this.arena.memory.buffer, address, HYPER_FLOATS);
    for (let i = 0; i < HYPER_FLOATS; i++) hyper[i] = this.#random.fraction();
    hyper[HYPER.gradientScale] = bare ? 1 : 0.7;
    hyper[HYPER.clipValue] = bare ? Number.POSITIVE_INFINITY : 0.5;
    hyper[HYPER.weightDecay] = bare ? 0 : 0.01;
    hyper[HYPER.betaPowers] = this.arena.allocate(BETA_POWERS_BYTES);
    writeBetaPowers(this.arena, hyper[HYPER.betaPowers]!, hyper[HYPER.beta1]!, hyper[HYPER.beta2]!);
    hyper[HYPER.backupSlot] = 1 + this.#random.below(2);
    hyper[HYPER.rowSteps] = 0;
    hyper[HYPER.stepBase] = 0;
    hyper[HYPER.pulledRows] = 0;
    hyper[HYPER.stepIncrement] = 1;
    return address;
  }
}

/** Does the same with both implementations, for every width and some seeds, and compares all memory. */
function compare(act: (kernels: OptimizerKernels, stage: Stage, width: number) => void): void {
  for (const width of WIDTHS) {
    for (let seed = 1; seed <= 4; seed++) {
      const [plain, simd] = IMPLEMENTATIONS.map(({ open }) => {
        const stage = new Stage(seed);
        act(open(stage.arena), stage, width);
        return stage.arena.bytes.subarray(SCRATCH_BYTES);
      });
      assert.ok(Buffer.from(simd!.buffer, SCRATCH_BYTES).equals(plain!), `width ${width}, seed ${seed}`);
    }
  }
}

for (const name of NAMES) {
  describe(`the ${name} kernel equals its plain reference bit for bit`, () => {
    const optimizer = OPTIMIZER[name];

    test("on table rows, over three steps", () => {
      compare((kernels, stage, width) => {
        const rows = stage.rows(width, name === "adam" || name === "adamW");
        const gradients = stage.values(ROW_COUNT * width);
        for (let step = 0; step < 3; step++) kernels.updateRows(optimizer, rows, ROW_COUNT, width, gradients, stage.hyper);
      });
    });

    test("on table rows of which a worker pulled other values", () => {
      compare((kernels, stage, width) => {
        const rows = stage.rows(width, name === "adam" || name === "adamW");
        const gradients = stage.values(ROW_COUNT * width);
        stage.pullRows(width);
        for (let step = 0; step < 3; step++) kernels.updateRows(optimizer, rows, ROW_COUNT, width, gradients, stage.hyper);
      });
    });

    test("on a whole block, in place and from another span", () => {
      compare((kernels, stage, width) => {
        const count = ROW_COUNT * width;
        const stride = (count + 4) * 4;
        const values = stage.values(count);
        const slots = stage.slots((count + 4) * SLOTS_MAX);
        const gradients = stage.values(count);
        kernels.updateBlock(optimizer, values, values, slots, stride, gradients, ROW_COUNT, width, stage.hyper);
        const fresh = stage.arena.allocate(count * 4);
        kernels.updateBlock(optimizer, fresh, values, slots, stride, gradients, ROW_COUNT, width, stage.hyper);
      });
    });

    test("on chosen rows of a block", () => {
      compare((kernels, stage, width) => {
        const count = ROW_COUNT * width;
        const values = stage.values(count);
        const slots = stage.slots(count * SLOTS_MAX);
        const rows = putWords(stage.arena, [5, 0, 3, 6]);
        const gradients = stage.values(4 * width);
        kernels.updateBlockRows(optimizer, values, slots, count * 4, rows, 4, width, gradients, stage.hyper);
      });
    });

    test("on a block and on chosen rows of it, where rows count steps of their own", () => {
      compare((kernels, stage, width) => {
        const count = ROW_COUNT * width;
        const [values, slots, gradients] = [stage.values(count), stage.slots(count * SLOTS_MAX), stage.values(count)];
        stage.countRows(1_000);
        kernels.updateBlock(optimizer, values, values, slots, count * 4, gradients, ROW_COUNT, width, stage.hyper);
        stage.countRows(2 ** 33);
        const rows = putWords(stage.arena, [5, 0, 3, 6]);
        kernels.updateBlockRows(optimizer, values, slots, count * 4, rows, 4, width, gradients, stage.hyper);
      });
    });

    test("and does nothing for no rows", () => {
      const stage = new Stage(1);
      const kernels = new SimdOptimizerKernels(stage.arena);
      const values = stage.values(8);
      const before = readFloats(stage.arena, values, 8);
      kernels.updateRows(optimizer, values, 0, 8, values, stage.hyper);
      kernels.updateBlock(optimizer, values, values, values, 4, values, 0, 8, stage.hyper);
      kernels.updateBlockRows(optimizer, values, values, 4, values, 0, 8, values, stage.hyper);
      assert.deepEqual(readFloats(stage.arena, values, 8), before);
    });
  });
}

for (const { name, open } of IMPLEMENTATIONS) {
  describe(name, () => {
    test("fills a part of each row, and repeats a row's first floats behind them", () => {
      for (const width of WIDTHS) {
        const arena = new Arena({ bytesMax: ARENA_BYTES });
        const kernels = open(arena);
        const values = Float32Array.from({ length: width }, (_, j) => j + 1);
        const addresses = Array.from({ length: 3 }, () => putFloats(arena, [...values, ...new Float32Array(2 * width), 9]));
        const rows = putWords(arena, addresses);
        kernels.fillRows(rows, 3, width * 4, width, 0.1);
        kernels.repeatRows(rows, 3, width * 8, width);
        const filled = new Float32Array(width).fill(0.1);
        for (const address of addresses) {
          assert.deepEqual([...readFloats(arena, address, 3 * width + 1)], [...values, ...filled, ...values, 9], `width ${width}`);
        }
      }
    });

    test("tells the greatest magnitude, wherever it stands, and that something is not finite", () => {
      const arena = new Arena({ bytesMax: ARENA_BYTES });
      const kernels = open(arena);
      assert.equal(kernels.greatestMagnitude(SCRATCH_BYTES, 0), 0);
      for (const count of [1, 3, 15, 16, 17, 67, 1100]) {
        const address = putFloats(arena, new Float32Array(count).fill(-0.5));
        for (let i = 0; i < count; i += 1 + Math.floor(count / 40)) {
          for (const [value, most] of [
            [-2.5, 2.5],
            [3.4e38, Math.fround(3.4e38)],
            [0, count === 1 ? 0 : 0.5],
          ] as const) {
            arena.floats[address / 4 + i] = value;
            assert.equal(kernels.greatestMagnitude(address, count), most, `${i} of ${count}`);
          }
          for (const strange of [NaN, Infinity, -Infinity]) {
            arena.floats[address / 4 + i] = strange;
            assert.ok(!Number.isFinite(kernels.greatestMagnitude(address, count)), `${i} of ${count}`);
          }
          arena.floats[address / 4 + i] = -0.5;
        }
      }
    });

    test("finds the first float that is not finite, wherever it stands", () => {
      const arena = new Arena({ bytesMax: ARENA_BYTES });
      const kernels = open(arena);
      for (const count of [1, 3, 4, 15, 16, 17, 40, 67, 511, 512, 513, 1100]) {
        const address = putFloats(
          arena,
          Float32Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 3.4e38 : -1e-45)),
        );
        assert.equal(kernels.checkFinite(address, count), -1);
        assert.equal(kernels.zeroNonFinite(address, count), 0);
        for (let i = count - 1; i >= 0; i--) {
          arena.floats[address / 4 + i] = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY][i % 3]!;
          assert.equal(kernels.checkFinite(address, count), i, `${i} of ${count}`);
        }
      }
      assert.equal(kernels.checkFinite(SCRATCH_BYTES, 0), -1);
    });

    test("zeroes what is not finite, counts it, and leaves the rest", () => {
      const arena = new Arena({ bytesMax: ARENA_BYTES });
      const kernels = open(arena);
      const random = new Random(5);
      for (const count of [1, 2, 3, 4, 7, 64, 101]) {
        const strange = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
        const floats = Float32Array.from({ length: count }, () => (random.chance(0.2) ? strange[random.below(3)]! : random.fraction()));
        const address = putFloats(arena, [...floats, Number.NaN]);
        assert.equal(kernels.zeroNonFinite(address, count), floats.filter((value) => !Number.isFinite(value)).length);
        assert.deepEqual(
          readFloats(arena, address, count),
          floats.map((value) => (Number.isFinite(value) ? value : 0)),
        );
        assert.ok(Number.isNaN(arena.floats[address / 4 + count]), "the float behind the span is not touched");
      }
    });
  });
}

test("powers of every size of exponent are right to 1 in 10^9", () => {
  const arena = new Arena({ bytesMax: 2 ** 18 });
  const address = arena.allocate(BETA_POWERS_BYTES);
  writeBetaPowers(arena, address, 0.9, 0.9999999);
  for (const exponent of [0, 1, 2, 100, 255, 256, 257, 1000, 65_535, 65_536, 2 ** 24 - 1, 2 ** 24, 2 ** 31, 2 ** 32 - 1]) {
    const [first, second] = readBetaPowers(arena, address, exponent);
    for (const [found, expected] of [
      [first, 0.9 ** exponent],
      [second, 0.9999999 ** exponent],
    ] as const) {
      assert.ok(Math.abs(found - expected) <= 1e-9 * Math.max(expected, 1e-20), `${exponent}: ${found} is not ${expected}`);
    }
  }
});
