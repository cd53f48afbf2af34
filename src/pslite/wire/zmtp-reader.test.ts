// Parts of every length go where the sink wants them, however the bytes come; bad bytes are refused and declared
// lengths cost nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { encodeGreeting, encodeReady, writeFrameHeader } from "./zmtp.ts";
import { type PartFate, ZmtpReader, type ZmtpSink } from "./zmtp-reader.ts";

/** Takes parts as `fateOf` says, and keeps what came of them. */
class Sink implements ZmtpSink {
  readonly parts: string[] = [];
  readonly commands: string[] = [];
  isOpen = true;
  readonly #fateOf: (index: number, byteCount: number) => PartFate;
  #target = new Uint8Array(0);
  #fill = 0;
  /** Streamed parts are read into memory that is longer than they are, and taken out of it. */
  hasRoomBehind = false;
  #room = new Uint8Array(0);

  constructor(fateOf: (index: number, byteCount: number) => PartFate) {
    this.#fateOf = fateOf;
  }

  greeted(): void {}

  command(name: string): void {
    this.commands.push(name);
  }

  mayBegin(): boolean {
    return this.isOpen;
  }

  begin(index: number, byteCount: number): PartFate {
    const fate = this.#fateOf(index, byteCount);
    this.#target = new Uint8Array(fate === "stream" ? byteCount : 0);
    this.#fill = 0;
    if (fate === "skip") this.parts.push("skipped");
    return fate;
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    this.parts.push(sumOf(bytes.subarray(at, at + byteCount)));
  }

  view(aheadBytes: number): Uint8Array {
    const { length } = this.#target;
    if (!this.hasRoomBehind) return this.#target.subarray(this.#fill, this.#fill + 5000);
    this.#room = new Uint8Array(Math.min(5000, length - this.#fill + aheadBytes));
    return this.#room;
  }

  streamed(byteCount: number): void {
    if (this.hasRoomBehind) this.#target.set(this.#room.subarray(0, byteCount), this.#fill);
    this.#room.fill(0xff); // it is the sink's again
    this.#fill += byteCount;
    assert.ok(this.#fill <= this.#target.length, "nothing of what follows is taken for the part");
    if (this.#fill === this.#target.length) this.parts.push(sumOf(this.#target));
  }
}

function sumOf(bytes: Uint8Array): string {
  let sum = 0;
  for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) | 0;
  return `${bytes.length}:${sum}`;
}

function frame(body: Uint8Array, isLast: boolean): Uint8Array {
  const bytes = new Uint8Array(9 + body.length);
  const at = writeFrameHeader(bytes, 0, body.length, isLast);
  bytes.set(body, at);
  return bytes.subarray(0, at + body.length);
}

function feed(reader: ZmtpReader, bytes: Uint8Array, pieceBytes: () => number): void {
  for (let at = 0; at < bytes.length; ) {
    const view = reader.view();
    assert.ok(view.length > 0, "ZmtpReader.Z1");
    const piece = bytes.subarray(at, at + Math.min(pieceBytes(), view.length));
    view.set(piece);
    reader.received(piece.length);
    at += piece.length;
  }
}

const HANDSHAKE = Buffer.concat([encodeGreeting("ps9"), encodeReady("DEALER", "ps9")]);

test("parts of every length arrive whole, streamed or not at all", () => {
  const random = new Random(1);
  const bodies = [0, 1, 254, 255, 256, 4096, 131_071, 131_072, 131_073, 1_500_000, 3, 0, 40_000].map((length) =>
    new Uint8Array(length).map(() => random.below(256)),
  );
  const bytes = Buffer.concat([HANDSHAKE, ...bodies.map((body, i) => frame(body, i % 3 === 2))]);
  for (const fate of ["whole", "stream", "skip"] as const) {
    for (let seed = 1; seed <= 6; seed++) {
      const chance = new Random(seed);
      const sink = new Sink((_index, byteCount) => (fate === "stream" && byteCount === 0 ? "whole" : fate));
      sink.hasRoomBehind = seed % 2 === 0; // ZmtpReader.Z6
      feed(new ZmtpReader(sink), bytes, () => 1 + chance.below(chance.chance(0.5) ? 64 : 200_000));
      assert.deepEqual(sink.parts, fate === "skip" ? bodies.map(() => "skipped") : bodies.map(sumOf), `${fate}, seed ${seed}`);
      assert.deepEqual(sink.commands, ["READY"]);
    }
  }
});

test("the header of the next message is read with the end of a streamed part, where there is room behind it (ZmtpReader.Z6)", () => {
  const bodies = Array.from({ length: 12 }, (_, i) => new Uint8Array(i % 2 === 0 ? 50 : 4000).fill(i + 1));
  const bytes = Buffer.concat(bodies.map((body, i) => frame(body, i % 2 === 1)));
  const readsOf = (hasRoomBehind: boolean): number => {
    const sink = new Sink((index) => (index === 1 ? "stream" : "whole"));
    sink.hasRoomBehind = hasRoomBehind;
    const reader = new ZmtpReader(sink);
    feed(reader, HANDSHAKE, () => 1000);
    let reads = 0;
    feed(reader, bytes, () => {
      reads++;
      return 4500;
    });
    assert.deepEqual(sink.parts, bodies.map(sumOf));
    return reads;
  };
  assert.deepEqual([readsOf(false), readsOf(true)], [12, 7]);
});

test("a held reader begins no message, keeps what comes, and goes on", () => {
  const sink = new Sink(() => "whole");
  const reader = new ZmtpReader(sink);
  feed(reader, HANDSHAKE, () => 100);
  sink.isOpen = false;
  const bodies = Array.from({ length: 400 }, (_, i) => new Uint8Array(1000).fill(i));
  feed(reader, Buffer.concat(bodies.map((body) => frame(body, true))), () => 7777);
  assert.deepEqual([sink.parts.length, reader.isHeld], [0, true]);
  sink.isOpen = true;
  reader.view(); // was asked for before it went on
  reader.goOn();
  feed(reader, frame(new Uint8Array(2), true), () => 1);
  assert.deepEqual(sink.parts, [...bodies.map(sumOf), "2:0"]);
});

test("a declared terabyte costs what has come", () => {
  const sink = new Sink(() => "whole");
  const reader = new ZmtpReader(sink);
  const header = new Uint8Array(9);
  writeFrameHeader(header, 0, 2 ** 40, true);
  feed(reader, Buffer.concat([HANDSHAKE, header, new Uint8Array(3_000_000)]), () => 100_000);
  assert.ok(reader.view().length <= 2 ** 22);
  assert.ok(reader.isInsideMessage);
});

test("what is no ZMTP is refused", () => {
  for (const bytes of [
    Buffer.from("GET / HTTP/1.1\r\n"),
    Buffer.from("WB\u0001\u0001"),
    Buffer.concat([HANDSHAKE, Uint8Array.of(0x80, 1)]),
    Buffer.concat([HANDSHAKE, Uint8Array.of(6, 0, 0, 0, 0, 0, 1, 0, 0)]),
    Buffer.concat([HANDSHAKE, Uint8Array.of(2, 255, 255, 255, 255, 255, 255, 255, 255)]),
  ])
    assert.throws(
      () => feed(new ZmtpReader(new Sink(() => "whole")), bytes, () => 5),
      (error) => isWeighbridgeError(error, "BAD_FRAME"),
    );
});
