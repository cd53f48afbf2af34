// plain-codec-kernels — the reference of CodecKernels, in TypeScript that a reader can check. Slow; for tests. It
// decides by values (nearest, halfway, largest), not by the bit tricks of the module.

import type { Arena } from "./arena.ts";
import { type CodecKernels, DeltaStatus, INT8_MAGNITUDE_MAX } from "./codec-kernels.ts";

const INT8_SCALE_MIN = 2 ** -126;
const INT8_STEPS = 127;
const INT8_SCALE_MAX = Math.fround(INT8_MAGNITUDE_MAX / INT8_STEPS);
const U64 = 64;
const SIGN_KEY = 0x9fb21c651e98df25n;
const SIGN_LANE = 0xd6e8feb86659fd93n;

export class PlainCodecKernels implements CodecKernels {
  readonly #view: DataView;

  constructor(arena: Arena) {
    this.#view = new DataView(arena.memory.buffer);
  }

  encodeFp16(source: number, floatCount: number, target: number): void {
    for (let i = 0; i < floatCount; i++) {
      const bits = this.#view.getUint32(source + i * 4, true);
      this.#view.setUint16(target + i * 2, isNanBits(bits) ? ((bits >>> 16) & 0x8000) | 0x7e00 : fp16Of(this.#float(source + i * 4)), true);
    }
  }

  decodeFp16(source: number, floatCount: number, target: number): void {
    for (let i = 0; i < floatCount; i++) {
      this.#view.setUint32(target + i * 4, floatBitsOfFp16(this.#view.getUint16(source + i * 2, true)), true);
    }
  }

  encodeBf16(source: number, floatCount: number, target: number): void {
    for (let i = 0; i < floatCount; i++) {
      const bits = this.#view.getUint32(source + i * 4, true);
      const upper = bits >>> 16;
      const lower = bits & 0xffff;
      const isUp = lower > 0x8000 || (lower === 0x8000 && (upper & 1) === 1);
      this.#view.setUint16(target + i * 2, isNanBits(bits) ? upper | 0x40 : upper + Number(isUp), true);
    }
  }

  decodeBf16(source: number, floatCount: number, target: number): void {
    for (let i = 0; i < floatCount; i++) this.#view.setUint32(target + i * 4, this.#view.getUint16(source + i * 2, true) << 16, true);
  }

  encodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number {
    const bytes = target + rowCount * (centred === 1 ? 8 : 4);
    for (let i = 0; i < rowCount; i++) {
      const row = Array.from({ length: width }, (_, j) => this.#float(source + (i * width + j) * 4));
      if (!row.every((value) => Math.abs(value) <= INT8_MAGNITUDE_MAX)) return i;
      const middle = Math.fround(0.5 * Math.min(...row)) + Math.fround(0.5 * Math.max(...row));
      const zero = centred === 1 ? Math.fround(middle) + 0 : 0;
      const distances = row.map((value) => Math.fround(value - zero));
      const scale = Math.max(Math.fround(Math.max(...distances.map(Math.abs)) / INT8_STEPS), INT8_SCALE_MIN);
      this.#view.setFloat32(target + i * 4, scale, true);
      if (centred === 1) this.#view.setFloat32(target + (rowCount + i) * 4, zero, true);
      for (const [j, distance] of distances.entries()) this.#view.setInt8(bytes + i * width + j, nearest(Math.fround(distance / scale)));
    }
    return -1;
  }

  decodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number {
    const bytes = source + rowCount * (centred === 1 ? 8 : 4);
    for (let i = 0; i < rowCount; i++) {
      const scale = this.#float(source + i * 4);
      const zero = centred === 1 ? this.#float(source + (rowCount + i) * 4) : 0;
      if (!(scale >= INT8_SCALE_MIN && scale <= INT8_SCALE_MAX && Math.abs(zero) <= INT8_MAGNITUDE_MAX)) return i;
      for (let j = 0; j < width; j++) {
        const step = this.#view.getInt8(bytes + i * width + j);
        if (step === -128) return i;
        this.#view.setFloat32(target + (i * width + j) * 4, Math.fround(step * scale) + zero, true);
      }
    }
    return -1;
  }

  selectTopK(gradient: number, residual: number, floatCount: number, keepCount: number, indices: number, values: number): number {
    const sums = Array.from({ length: floatCount }, (_, i) => Math.fround(this.#float(gradient + i * 4) + this.#float(residual + i * 4)));
    const wrong = sums.findIndex((sum) => !Number.isFinite(sum));
    if (wrong >= 0) return wrong;
    const byMagnitude = [...sums.keys()].sort((a, b) => Math.abs(sums[b]!) - Math.abs(sums[a]!) || a - b);
    const chosen = byMagnitude.slice(0, keepCount).sort((a, b) => a - b);
    for (const [i, sum] of sums.entries()) this.#view.setFloat32(residual + i * 4, sum, true);
    for (const [at, index] of chosen.entries()) {
      this.#view.setBigUint64(indices + at * 8, BigInt(index), true);
      this.#view.setFloat32(values + at * 4, sums[index]!, true);
      this.#view.setFloat32(residual + index * 4, 0, true);
    }
    return -1;
  }

  scatterFloats(indices: number, count: number, values: number, target: number): void {
    for (let i = 0; i < count; i++) {
      const index = Number(this.#view.getBigUint64(indices + i * 8, true));
      this.#view.setUint32(target + index * 4, this.#view.getUint32(values + i * 4, true), true);
    }
  }

  encodeDeltaKeys(keys: number, keyCount: number, target: number): number {
    const lengthBytes = Math.ceil(keyCount / 2);
    const lengths = new Uint8Array(lengthBytes);
    let previous = -1n;
    let at = target + lengthBytes;
    for (let i = 0; i < keyCount; i++) {
      const key = this.#view.getBigUint64(keys + i * 8, true);
      if (key <= previous) return -1;
      const digits = littleEndian(key - previous - 1n);
      lengths[i >> 1]! |= digits.length << (i % 2 === 0 ? 0 : 4);
      for (const digit of digits) this.#view.setUint8(at++, digit);
      previous = key;
    }
    for (const [i, pair] of lengths.entries()) this.#view.setUint8(target + i, pair);
    return at - target;
  }

  decodeDeltaKeys(source: number, byteCount: number, keyCount: number, keys: number): number {
    const lengthBytes = Math.ceil(keyCount / 2);
    if (byteCount < lengthBytes) return DeltaStatus.TOO_SHORT;
    const lengths = Array.from({ length: lengthBytes * 2 }, (_, i) => (this.#view.getUint8(source + (i >> 1)) >> ((i & 1) * 4)) & 15);
    if (lengths.some((length) => length > 8) || (lengths[keyCount] ?? 0) !== 0) return DeltaStatus.WRONG_LENGTH;
    const totalBytes = lengthBytes + lengths.reduce((sum, length) => sum + length, 0);
    if (byteCount !== totalBytes) return byteCount < totalBytes ? DeltaStatus.TOO_SHORT : DeltaStatus.TOO_LONG;
    let previous = -1n;
    let at = source + lengthBytes;
    for (let i = 0; i < keyCount; i++) {
      const length = lengths[i]!;
      if (length > 0 && this.#view.getUint8(at + length - 1) === 0) return DeltaStatus.WRONG_LENGTH;
      let delta = 0n;
      for (let j = 0; j < length; j++) delta |= BigInt(this.#view.getUint8(at++)) << BigInt(8 * j);
      previous += delta + 1n;
      if (previous >= 2n ** 64n) return DeltaStatus.NOT_ASCENDING;
      this.#view.setBigUint64(keys + i * 8, previous, true);
    }
    return DeltaStatus.DONE;
  }

  signKeys(keys: number, keyCount: number, signature: number): void {
    const lanes = [BigInt(keyCount), SIGN_KEY, SIGN_LANE, BigInt.asUintN(U64, ~SIGN_KEY)];
    for (let i = 0; i < keyCount; i++) {
      const lane = i < keyCount - (keyCount % 4) ? i % 4 : 0;
      lanes[lane] = signLane(lanes[lane]!, this.#view.getBigUint64(keys + i * 8, true));
    }
    this.#view.setBigUint64(
      signature,
      lanes.slice(1).reduce((stirred, lane) => stir(stirred ^ lane), stir(lanes[0]!)),
      true,
    );
  }

  packWords(source: number, wordCount: number, wordsMax: number, target: number): number {
    const words = Array.from({ length: wordCount }, (_, i) => this.#view.getUint32(source + i * 4, true));
    const occupied = words.filter((word) => word !== 0);
    if (occupied.length > wordsMax) return 0;
    const maskBytes = Math.ceil(wordCount / 64) * 8;
    for (let byte = 0; byte < maskBytes; byte++) {
      const bits = words.slice(byte * 8, byte * 8 + 8).reduce((mask, word, bit) => mask | (word === 0 ? 0 : 1 << bit), 0);
      this.#view.setUint8(target + byte, bits);
    }
    for (const [i, word] of occupied.entries()) this.#view.setUint32(target + maskBytes + i * 4, word, true);
    return maskBytes + occupied.length * 4;
  }

  unpackWords(source: number, byteCount: number, wordCount: number, target: number): number {
    const maskBytes = Math.ceil(wordCount / 64) * 8;
    if (maskBytes > byteCount) return 1;
    const indexes: number[] = [];
    for (let i = 0; i < maskBytes * 8; i++) if ((this.#view.getUint8(source + (i >> 3)) >> (i & 7)) & 1) indexes.push(i);
    if (maskBytes + indexes.length * 4 !== byteCount || (indexes.at(-1) ?? 0) >= Math.max(wordCount, 1)) return 1;
    for (let i = 0; i < wordCount; i++) this.#view.setUint32(target + i * 4, 0, true);
    for (const [i, index] of indexes.entries()) {
      this.#view.setUint32(target + index * 4, this.#view.getUint32(source + maskBytes + i * 4, true), true);
    }
    return 0;
  }

  #float(address: number): number {
    return this.#view.getFloat32(address, true);
  }
}

function isNanBits(bits: number): boolean {
  return (bits & 0x7fff_ffff) > 0x7f80_0000;
}

/** The whole number nearest to `x`, of two equally near ones the even one. */
function nearest(x: number): number {
  const below = Math.floor(x);
  const excess = x - below;
  return excess > 0.5 || (excess === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

/** The fp16 nearest to a number that is not NaN. */
function fp16Of(x: number): number {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(x);
  if (magnitude >= 65_520) return sign | 0x7c00;
  const exponent = magnitude < 2 ** -14 ? -14 : Math.floor(Math.log2(magnitude));
  // a carry moves on into the exponent
  return sign | (((exponent + 14) << 10) + nearest(magnitude / 2 ** (exponent - 10)));
}

function floatBitsOfFp16(half: number): number {
  const exponent = (half >> 10) & 31;
  const fraction = half & 0x3ff;
  const sign = (half & 0x8000) === 0 ? 1 : -1;
  if (exponent === 31) return ((half & 0x8000) << 16) | 0x7f80_0000 | (fraction << 13);
  const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, sign * magnitude);
  return view.getUint32(0);
}

/** The bytes of a number, without leading zeros. */
function littleEndian(value: bigint): number[] {
  const digits: number[] = [];
  for (let rest = value; rest > 0n; rest >>= 8n) digits.push(Number(rest & 0xffn));
  return digits;
}

function signLane(lane: bigint, key: bigint): bigint {
  const mixed = lane ^ BigInt.asUintN(U64, key * SIGN_KEY);
  return BigInt.asUintN(U64, ((mixed << 29n) | (mixed >> 35n)) * SIGN_LANE);
}

function stir(value: bigint): bigint {
  const first = BigInt.asUintN(U64, (value ^ (value >> 32n)) * SIGN_LANE);
  const second = BigInt.asUintN(U64, (first ^ (first >> 29n)) * SIGN_KEY);
  return second ^ (second >> 32n);
}
