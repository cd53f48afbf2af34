// Goal: bytes come out of a ring as they went in, whatever their sizes; and whatever somebody scribbles over it, an end
// copies bytes or says BAD_FRAME, and nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { DATA_BYTES, MEMORY_BYTES, PAGE_BYTES, RingControl, type RingMemory, RingReader, RingWriter, SLOTS } from "./byte-ring.ts";

function plainMemory(): RingMemory {
  const buffer = new ArrayBuffer(MEMORY_BYTES);
  return {
    buffer,
    copyIn: (source, to, byteCount) => new Uint8Array(buffer, to, byteCount).set(source.subarray(0, byteCount)),
    copyOut: (from, target, byteCount) => target.set(new Uint8Array(buffer, from, byteCount)),
  };
}

/** Bytes of a stream: each says where in it it is. */
function fill(bytes: Uint8Array, from: number): Uint8Array {
  for (let i = 0; i < bytes.length; i++) bytes[i] = ((from + i) * 31) >>> 3;
  return bytes;
}

test("bytes come whole and in order, whatever the sizes of chunks and views, also out of and into memory of threads", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const memory = plainMemory();
    const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
    const sizes = [1, 63, 64, 5000, 70_000, 300_000];
    const bytesOf = (size: number): Uint8Array => new Uint8Array(seed % 2 === 0 ? new SharedArrayBuffer(size) : new ArrayBuffer(size));
    let [written, read] = [0, 0];
    let chunk: Uint8Array = new Uint8Array(0);
    let offset = 0;
    for (let step = 0; step < 2000; step++) {
      if (offset === chunk.length) {
        chunk = fill(bytesOf(1 + random.below(sizes[random.below(sizes.length)] as number)), written);
        offset = 0;
      }
      if (random.below(3) > 0) {
        const byteCount = writer.write(chunk, offset);
        if (byteCount === 0) assert.equal(writer.awaitRoom(chunk.length - offset), false, `seed ${seed}`);
        offset += byteCount;
        written += byteCount;
      } else {
        const view = bytesOf(1 + random.below(100_000));
        const byteCount = reader.read(view);
        assert.equal(byteCount > 0, read < written, `seed ${seed}`);
        assert.deepEqual(view.slice(0, byteCount), fill(new Uint8Array(byteCount), read), `seed ${seed}: at ${read}`);
        read += byteCount;
      }
    }
    for (const view = new Uint8Array(4096); read < written; ) read += reader.read(view);
    assert.equal(reader.hasInput, false);
  }
});

test("a writer that finds the ring full is told of room once", () => {
  const memory = plainMemory();
  const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
  const chunk = new Uint8Array(DATA_BYTES);
  let written = 0;
  for (let byteCount = writer.write(chunk, 0); byteCount > 0; byteCount = writer.write(chunk, written)) written += byteCount;
  assert.ok(written > DATA_BYTES / 2);
  assert.equal(reader.takeWaiter(), false);
  assert.equal(writer.awaitRoom(chunk.length - written || 1), false);
  reader.read(chunk);
  assert.equal(reader.takeWaiter(), true);
  assert.equal(reader.takeWaiter(), false);
  assert.ok(writer.write(chunk, 0) > 0);
});

test("no more pieces are under way than there are slots", () => {
  const memory = plainMemory();
  const [writer, reader] = [new RingWriter(memory, 1), new RingReader(memory, 0)];
  const one = new Uint8Array(1);
  for (let i = 0; i < SLOTS; i++) assert.equal(writer.write(one, 0), 1);
  assert.equal(writer.write(one, 0), 0);
  assert.equal(reader.read(one), 1);
  assert.equal(writer.write(one, 0), 1);
});

test("little traffic touches few pages", () => {
  const memory = plainMemory();
  const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
  const message = new Uint8Array(200).fill(255);
  for (let i = 0; i < 10_000; i++) {
    writer.write(message, 0);
    reader.read(message);
  }
  const bytes = new Uint8Array(memory.buffer);
  let touched = 0;
  for (let at = 0; at < bytes.length; at += PAGE_BYTES) if (bytes.subarray(at, at + PAGE_BYTES).some((byte) => byte !== 0)) touched++;
  assert.ok(touched * PAGE_BYTES <= 100_000, `${touched} pages`);
});

test("idle pages are given back, and only then", () => {
  const memory = plainMemory();
  const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
  const given: number[] = [];
  const discard = (from: number, byteCount: number): void => void given.push(from % PAGE_BYTES, byteCount);
  writer.write(new Uint8Array(300_000), 0);
  assert.equal(writer.discard(discard), false, "not while something is under way");
  while (reader.hasInput) reader.read(new Uint8Array(300_000));
  assert.equal(writer.discard(discard), true);
  assert.deepEqual(given, [0, DATA_BYTES - 16 * PAGE_BYTES]);
  assert.equal(writer.discard(discard), false, "once");
});

test("a sleeper is taken once, by whoever rings", () => {
  const memory = plainMemory();
  const [one, other] = [new RingControl(memory.buffer, 0), new RingControl(memory.buffer, 1)];
  one.isAwake = true;
  assert.equal(other.takeSleeper(), false);
  one.isAwake = false;
  assert.equal(other.takeSleeper(), true);
  assert.equal(other.takeSleeper(), false);
});

test("what was read does not change any more when its writer changes it (ByteRing.R1)", () => {
  const memory = plainMemory();
  const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
  const header = fill(new Uint8Array(64), 0);
  writer.write(header, 0);
  const view = new Uint8Array(64);
  reader.read(view);
  new Uint8Array(memory.buffer).fill(255);
  assert.deepEqual(view, header);
});

test("scribbled words and slots end a ring with BAD_FRAME, or are bytes like others (ByteRing.R2)", () => {
  const descriptors = Number(process.env.WEIGHBRIDGE_FUZZ ?? 20_000);
  const random = new Random(7);
  let [broken, taken] = [0, 0];
  const memory = plainMemory();
  const words = new Int32Array(memory.buffer, 0, (PAGE_BYTES + 2 * SLOTS * 8) / 4);
  const chunk = new Uint8Array(1000);
  const view = new Uint8Array(512);
  for (let left = descriptors; left > 0; ) {
    words.fill(0);
    const [writer, reader] = [new RingWriter(memory, 0), new RingReader(memory, 1)];
    try {
      for (; left > 0; left--) {
        const word = random.below(3) === 0 ? 128 + random.below(100) : PAGE_BYTES / 4 + random.below(64);
        words[word] = random.below(2) === 0 ? random.below(2000) : random.below(2 ** 32) | 0;
        writer.write(chunk, 0);
        if (reader.read(view) > 0) taken++;
      }
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "BAD_FRAME"), String(thrown));
      broken++;
      left--;
    }
  }
  assert.ok(broken > 0 && taken > 0);
});
