// codecs — how fast one thread encodes and decodes what links carry, in process: `node bench/codecs.ts` prints a table.
// No sockets, no server: what a codec costs must be seen beside what it saves on a link.
//
// One block at a time (512 KiB of f32, 131,072 values or keys), as the data plane cuts them, through the classes that
// it uses. Rates are bytes before encoding and after decoding, per second: the median of the rounds, and in brackets
// the slowest and the fastest. Gradients are normal with σ = 0.01; eight different ones in turn, so that the residual
// of top-k is what it becomes in training.

import { parseArgs } from "node:util";
import { Random } from "../src/base/random.ts";
import { Arena } from "../src/kernel/arena.ts";
import { simdCodecKernels } from "../src/kernel/codec-kernels.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../src/kernel/elements.ts";
import { SimdKernels } from "../src/kernel/simd-kernels.ts";
import { zstd } from "../src/node/zstd.ts";
import { Residuals } from "../src/wire/codecs/codec-memory.ts";
import { SentKeyLists } from "../src/wire/codecs/key-cache.ts";
import { KeyReceiver } from "../src/wire/codecs/key-receiver.ts";
import { KeySender } from "../src/wire/codecs/key-sender.ts";
import { openValueCodec, type ValueCodecChoice } from "../src/wire/codecs/link-encoding.ts";
import { PayloadCodec } from "../src/wire/codecs/payload-codec.ts";
import { ReceivedKeyLists } from "../src/wire/codecs/received-key-lists.ts";
import type { CodecContext } from "../src/wire/codecs/value-codec.ts";
import { median } from "./statistics.ts";

const COUNT = 131_072;
const GRADIENT_COUNT = 8;
const ROUND_COUNT = 9;
const ROW_FLOATS = 64;

type Measured = {
  readonly name: string;
  readonly wireBytes: number;
  readonly plainBytes: number;
  readonly encode: () => void;
  readonly decode: () => void;
};

class Stage {
  readonly context: CodecContext;
  readonly arena: Arena = new Arena({ bytesMax: 2 ** 28 });
  readonly gradients: readonly number[];
  readonly #random = new Random(1);

  constructor() {
    this.context = { arena: this.arena, kernels: new SimdKernels(this.arena), codecKernels: simdCodecKernels(this.arena) };
    this.gradients = Array.from({ length: GRADIENT_COUNT }, () => this.#gradient(1));
  }

  values(name: string, choice: ValueCodecChoice, width: number): Measured {
    const codec = openValueCodec(this.context, choice);
    const shape = { rowCount: COUNT / width, width };
    const target = this.arena.allocate(codec.encodeBound(shape));
    const back = this.arena.allocate(COUNT * FLOAT_BYTES);
    const residual = codec.hasResidual ? new Residuals(this.context).spanOf(0, COUNT) : undefined;
    let step = 0;
    const encode = (): number => codec.encode({ ...shape, source: this.gradients[step++ % GRADIENT_COUNT]!, target, residual });
    const wireBytes = encode();
    let byteCount = wireBytes;
    return {
      name,
      wireBytes,
      plainBytes: COUNT * FLOAT_BYTES,
      encode: () => {
        byteCount = encode();
      },
      decode: () => codec.decode({ ...shape, source: target, byteCount, target: back }),
    };
  }

  /** `gap`: keys lie 1 to 2 × gap apart. */
  keys(name: string, form: "raw" | "delta", gap: number, isCached: boolean): Measured {
    const sent = new SentKeyLists({ listCountMax: 8 });
    const sender = new KeySender(this.context, isCached ? sent : undefined);
    const receiver = new KeyReceiver(this.context, new ReceivedKeyLists(this.context, { listCountMax: 8, bytesMax: 2 ** 24 }));
    const keys = this.#keys(gap);
    const target = this.arena.allocate(sender.bound(COUNT));
    const write = (): { sectionBytes: number } => {
      const written = sender.write({ keys, keyCount: COUNT, target, form });
      if (written.open !== undefined) sent.acknowledged(written.open);
      return written;
    };
    const read = (byteCount: number): void => receiver.read({ source: target, byteCount, keyCountMax: COUNT }).keys.release();
    if (isCached) {
      const { sectionBytes } = write();
      read(sectionBytes);
    }
    const { sectionBytes } = write();
    return { name, wireBytes: sectionBytes, plainBytes: COUNT * KEY_BYTES, encode: write, decode: () => read(sectionBytes) };
  }

  compressed(name: string, density: number): Measured {
    const codec = new PayloadCodec(this.context, "f32", zstd());
    const shape = { rowCount: COUNT / ROW_FLOATS, width: ROW_FLOATS };
    const source = this.#gradient(density);
    const target = this.arena.allocate(codec.encodeBound(shape));
    const back = this.arena.allocate(COUNT * FLOAT_BYTES);
    const encode = (): number => codec.encode({ ...shape, source, target });
    const byteCount = encode();
    const decode = (): void => codec.decode({ ...shape, source: target, byteCount, target: back });
    return { name, wireBytes: byteCount, plainBytes: COUNT * FLOAT_BYTES, encode, decode };
  }

  #gradient(density: number): number {
    const address = this.arena.allocate(COUNT * FLOAT_BYTES);
    for (let i = 0; i < COUNT; i++) this.arena.floats[address / FLOAT_BYTES + i] = this.#random.chance(density) ? this.#normal() * 0.01 : 0;
    return address;
  }

  #normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random.fraction())) * Math.cos(2 * Math.PI * this.#random.fraction());
  }

  #keys(gap: number): number {
    const address = this.arena.allocate(COUNT * KEY_BYTES);
    const view = new DataView(this.arena.memory.buffer);
    let key = 0n;
    for (let i = 0; i < COUNT; i++) {
      key += BigInt(1 + Math.floor(this.#random.fraction() * 2 * gap));
      view.setBigUint64(address + i * KEY_BYTES, key, true);
    }
    return address;
  }
}

/** GB/s of each round. */
function rates(run: () => void, plainBytes: number, roundMs: number): number[] {
  let repeats = 1;
  for (let spentMs = 0; spentMs < roundMs / 2; repeats *= 2) spentMs = timeMs(run, repeats); // warms up as well
  return Array.from({ length: ROUND_COUNT }, () => (plainBytes * repeats) / timeMs(run, repeats) / 1e6);
}

function timeMs(run: () => void, repeats: number): number {
  const startedAt = performance.now();
  for (let i = 0; i < repeats; i++) run();
  return performance.now() - startedAt;
}

function describeRates(list: readonly number[]): string {
  return `${median(list).toFixed(1)} (${Math.min(...list).toFixed(1)} to ${Math.max(...list).toFixed(1)})`;
}

const { values: options } = parseArgs({
  options: { "round-ms": { type: "string", default: "30" }, only: { type: "string", default: "" } },
});
const stage = new Stage();
const cases: readonly (() => Measured)[] = [
  () => stage.values("f32, rows of 64 (a copy)", "f32", 64),
  () => stage.values("fp16", "fp16", 64),
  () => stage.values("bf16", "bf16", 64),
  () => stage.values("int8, rows of 16", "int8", 16),
  () => stage.values("int8, rows of 64", "int8", 64),
  () => stage.values("int8, rows of 1,024", "int8", 1024),
  () => stage.values("int8-centred, rows of 64", "int8-centred", 64),
  () => stage.values("top-k 0.1 %", { topK: 0.001 }, 64),
  () => stage.values("top-k 1 %", { topK: 0.01 }, 64),
  () => stage.values("top-k 10 %", { topK: 0.1 }, 64),
  () => stage.keys("keys raw", "raw", 500, false),
  () => stage.keys("keys delta, gaps of 1 to 8", "delta", 4, false),
  () => stage.keys("keys delta, gaps of 1 to 1,000", "delta", 500, false),
  () => stage.keys("keys delta, over all of u64", "delta", 2 ** 46, false),
  () => stage.keys("keys by name", "delta", 500, true),
  () => stage.compressed("zstd, 1 % not 0", 0.01),
  () => stage.compressed("zstd, 5 % not 0", 0.05),
  () => stage.compressed("zstd, dense (the sample says no)", 1),
];
console.log("| codec | bytes on the wire | encode GB/s | decode GB/s |\n|---|---|---|---|");
for (const open of cases) {
  const { name, wireBytes, plainBytes, encode, decode } = open();
  if (!name.includes(options.only)) continue;
  const encodeRates = rates(encode, plainBytes, Number(options["round-ms"]));
  const decodeRates = rates(decode, plainBytes, Number(options["round-ms"]));
  const share = `${((100 * wireBytes) / plainBytes).toFixed(wireBytes * 10 < plainBytes ? 2 : 0)} %`;
  console.log(`| ${name} | ${share} | ${describeRates(encodeRates)} | ${describeRates(decodeRates)} |`);
}
