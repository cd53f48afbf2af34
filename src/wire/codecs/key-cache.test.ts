// Goal: a repeated key list travels once; a list that the receiver lost travels again; nobody ever works on other keys
// than were meant; both sides stay within their bounds; and a section of any bytes is an ascending list or a typed
// error.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { putKeys, readKey } from "../../testing/arena-lists.ts";
import { codecStage } from "../../testing/store-stage.ts";
import { type OpenKeyList, receivedListCount, SentKeyLists } from "./key-cache.ts";
import { KEY_SECTION_HEADER_BYTES, KeyForm, keySectionBound, nameOfKeys, writeKeys } from "./key-codec.ts";
import { KeyReceiver, readKeySectionHeader } from "./key-receiver.ts";
import { KeySender } from "./key-sender.ts";
import { ReceivedKeyLists } from "./received-key-lists.ts";
import type { CodecContext } from "./value-codec.ts";

const KEY_COUNT_MAX = 10_000;

function someKeys(seed: number, count: number): bigint[] {
  const random = new Random(seed);
  let key = 0n;
  return Array.from({ length: count }, () => {
    key += BigInt(1 + random.below(1000));
    return key;
  });
}

/** A sender and a receiver that share an arena, and what one exchange between them costs. */
class Exchange {
  readonly context: CodecContext = codecStage();
  readonly sent: SentKeyLists;
  readonly received: ReceivedKeyLists;
  readonly #sender: KeySender;
  readonly #receiver: KeyReceiver;

  constructor(sentMax: number, receivedMax: number, bytesMax = 2 ** 20) {
    this.sent = new SentKeyLists({ listCountMax: sentMax });
    this.received = new ReceivedKeyLists(this.context, { listCountMax: receivedMax, bytesMax });
    this.#sender = new KeySender(this.context, this.sent);
    this.#receiver = new KeyReceiver(this.context, this.received);
  }

  /** Sends a list as a worker would, again with keys if it is unknown. Returns the bytes of each attempt. */
  send(keys: readonly bigint[], form: "raw" | "delta" = "delta"): number[] {
    const { arena } = this.context;
    const source = putKeys(arena, keys);
    const target = arena.allocate(keySectionBound(keys.length));
    const attempts: number[] = [];
    for (const withKeys of [false, true]) {
      const { sectionBytes, open } = this.#sender.write({ keys: source, keyCount: keys.length, target, form, withKeys });
      attempts.push(sectionBytes);
      try {
        const read = this.#receiver.read({ source: target, byteCount: sectionBytes, keyCountMax: KEY_COUNT_MAX });
        assert.equal(read.sectionBytes, sectionBytes);
        assert.deepEqual(
          Array.from({ length: read.keys.keyCount }, (_, i) => readKey(arena, read.keys.address + i * 8)),
          keys,
        );
        read.keys.release();
        if (open !== undefined) this.sent.acknowledged(open);
        break;
      } catch (error) {
        if (!isWeighbridgeError(error, "UNKNOWN_KEY_LIST") || open === undefined) throw error;
        assert.equal(error.retryable, true);
        this.sent.missed(open);
      }
    }
    arena.release(source, Math.max(8, keys.length * 8));
    arena.release(target, keySectionBound(keys.length));
    return attempts;
  }
}

test("a repeated list travels once, and then as 24 bytes", () => {
  for (const form of ["raw", "delta"] as const) {
    const exchange = new Exchange(4, 4);
    const keys = someKeys(1, 1000);
    const [first] = exchange.send(keys, form);
    assert.ok(first! > 1000);
    for (let i = 0; i < 3; i++) assert.deepEqual(exchange.send(keys, form), [KEY_SECTION_HEADER_BYTES]);
  }
});

test("a list that differs in one key is another list", () => {
  const exchange = new Exchange(4, 4);
  const keys = someKeys(2, 100);
  exchange.send(keys);
  assert.ok(exchange.send(keys.with(99, keys[99]! + 1n))[0]! > KEY_SECTION_HEADER_BYTES);
});

test("a list that the receiver lost is answered UNKNOWN_KEY_LIST, travels again with its keys, and then by name", () => {
  const exchange = new Exchange(8, 2);
  const lists = [3, 4, 5].map((seed) => someKeys(seed, 50));
  for (const keys of lists) exchange.send(keys);
  const [name, again] = exchange.send(lists[0]!); // the receiver holds the other two
  assert.equal(name, KEY_SECTION_HEADER_BYTES);
  assert.ok(again! > KEY_SECTION_HEADER_BYTES);
  assert.deepEqual(exchange.send(lists[0]!), [KEY_SECTION_HEADER_BYTES]);
});

test("KeyCache.C4: lists that chase each other out are soon sent with their keys at once", () => {
  const exchange = new Exchange(8, 2);
  const lists = [3, 4, 5].map((seed) => someKeys(seed, 50));
  for (let round = 0; round < 5; round++) for (const keys of lists) exchange.send(keys);
  const attempts = lists.map((keys) => exchange.send(keys).length);
  assert.deepEqual(attempts, [1, 1, 1]);
});

test("a restarted receiver is told all lists again", () => {
  const exchange = new Exchange(4, 4);
  const keys = someKeys(1, 100);
  exchange.send(keys);
  exchange.sent.clear();
  assert.ok(exchange.send(keys)[0]! > KEY_SECTION_HEADER_BYTES);
});

test("short lists always travel with their keys", () => {
  const exchange = new Exchange(4, 4);
  for (let i = 0; i < 3; i++) assert.ok(exchange.send([1n, 2n, 3n])[0]! > KEY_SECTION_HEADER_BYTES);
  assert.equal(exchange.received.byteCount, 0);
});

test("KeyCache.C3: the receiver stays within its lists and bytes, and gives all memory back", () => {
  const exchange = new Exchange(100, 5, 4000);
  const before = exchange.context.arena.usedBytes;
  for (let seed = 0; seed < 40; seed++) {
    exchange.send(someKeys(seed, 20 + seed * 15));
    assert.ok(exchange.received.byteCount <= 4000, `${exchange.received.byteCount}`);
  }
  exchange.received.close();
  assert.equal(exchange.received.byteCount, 0);
  assert.ok(exchange.context.arena.usedBytes < before, "the 8 bytes for signatures are back as well");
});

test("KeyCache.C3: a list in use keeps its keys while others take its place", () => {
  const { context, received } = new Exchange(4, 1);
  const scratch = context.arena.allocate(8);
  const remember = (seed: number): ReturnType<typeof nameOfKeys> => {
    const address = putKeys(context.arena, someKeys(seed, 30));
    const name = nameOfKeys(context, address, 30, scratch);
    received.remember(name, address);
    return name;
  };
  const first = remember(1);
  const held = received.find(first);
  for (let seed = 2; seed < 20; seed++) remember(seed);
  assert.throws(
    () => received.find(first),
    (error) => isWeighbridgeError(error, "UNKNOWN_KEY_LIST"),
  );
  assert.equal(readKey(context.arena, held.address + 29 * 8), someKeys(1, 30)[29]);
  const before = context.arena.usedBytes;
  held.release();
  assert.ok(context.arena.usedBytes < before);
});

test("KeyCache.C5: a list is named only while the receiver has it, in whatever order messages arrive and are acknowledged", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const context = codecStage();
    const listCountMax = 1 + random.below(12);
    const sent = new SentKeyLists({ listCountMax });
    const received = new ReceivedKeyLists(context, { listCountMax: receivedListCount(listCountMax), bytesMax: 2 ** 20 });
    const scratch = context.arena.allocate(8);
    const lists = Array.from({ length: 60 }, (_, i) => {
      const keys = putKeys(context.arena, someKeys(seed * 100 + i, 16));
      return { keys, name: nameOfKeys(context, keys, 16, scratch) };
    });
    const onTheWay: { readonly open: OpenKeyList; readonly keys: number }[] = [];
    const arrived: OpenKeyList[] = [];
    let namedCount = 0;
    for (let step = 0; step < 3000; step++) {
      const next = random.below(3);
      if (next === 0 && onTheWay.length < 100) {
        // some far more often than others
        const { keys, name } = lists[Math.floor(lists.length * random.fraction() ** 3)]!;
        const isNamed = sent.isHeld(name);
        if (isNamed || sent.isWorthHolding(name)) onTheWay.push({ open: sent.open(name, isNamed), keys });
      } else if (next === 1 && onTheWay.length > 0) {
        const [{ open, keys }] = onTheWay.splice(random.below(onTheWay.length), 1) as [(typeof onTheWay)[0]];
        if (open.isNamed)
          received.find(open.name).release(); // throws if it is not there
        else received.remember(open.name, keys);
        if (open.isNamed) namedCount++;
        arrived.push(open);
      } else if (next === 2 && arrived.length > 0) {
        const [open] = arrived.splice(random.below(arrived.length), 1) as [OpenKeyList];
        if (random.chance(0.1)) sent.failed(open);
        else sent.acknowledged(open);
      }
    }
    assert.ok(namedCount > 0, `seed ${seed}`);
  }
});

test("KeyCache.C2: keys under a name that is not theirs are refused, and not held", () => {
  const { context, received } = new Exchange(4, 4);
  const receiver = new KeyReceiver(context, received);
  const keys = putKeys(context.arena, someKeys(9, 40));
  const target = context.arena.allocate(keySectionBound(40));
  const name = { keyCount: 40, signature: 12_345n };
  const byteCount = writeKeys(context, { keys, keyCount: 40, target, form: "delta", remember: name });
  const used = context.arena.usedBytes;
  assert.throws(
    () => receiver.read({ source: target, byteCount, keyCountMax: 100 }),
    (error) => isWeighbridgeError(error, "BAD_REQUEST"),
  );
  assert.throws(
    () => received.find(name),
    (error) => isWeighbridgeError(error, "UNKNOWN_KEY_LIST"),
  );
  assert.equal(context.arena.usedBytes, used);
});

test("keys that do not ascend are refused by the sender and by the receiver", () => {
  const context = codecStage();
  const target = context.arena.allocate(keySectionBound(3));
  const wrong = putKeys(context.arena, [5n, 7n, 7n]);
  for (const form of ["raw", "delta"] as const) {
    assert.throws(
      () => writeKeys(context, { keys: wrong, keyCount: 3, target, form }),
      (error) => isWeighbridgeError(error, "KEYS_NOT_ASCENDING") && error.message.includes("key 2 of 3"),
    );
  }
  const byteCount = writeKeys(context, { keys: putKeys(context.arena, [5n, 7n, 8n]), keyCount: 3, target, form: "raw" });
  context.arena.bytes[target + KEY_SECTION_HEADER_BYTES + 16] = 7;
  assert.throws(
    () => new KeyReceiver(context, undefined).read({ source: target, byteCount, keyCountMax: 9 }),
    (error) => isWeighbridgeError(error, "KEYS_NOT_ASCENDING"),
  );
});

test("more keys than are taken are refused before memory is", () => {
  const context = codecStage();
  const keys = putKeys(
    context.arena,
    Array.from({ length: 1000 }, (_, i) => BigInt(i)),
  );
  const target = context.arena.allocate(keySectionBound(1000));
  const byteCount = writeKeys(context, { keys, keyCount: 1000, target, form: "delta" });
  const used = context.arena.usedBytes;
  assert.throws(
    () => new KeyReceiver(context, undefined).read({ source: target, byteCount, keyCountMax: 999 }),
    (error) => isWeighbridgeError(error, "BAD_REQUEST"),
  );
  assert.equal(context.arena.usedBytes, used);
});

test("every truncation of a section, and any other bytes, give an ascending list or a typed error, and leave no memory behind", () => {
  const context = codecStage();
  const { arena } = context;
  const lists = new ReceivedKeyLists(context, { listCountMax: 4, bytesMax: 4096 });
  const receiver = new KeyReceiver(context, lists);
  const keys = putKeys(arena, someKeys(1, 20));
  const section = arena.allocate(keySectionBound(20));
  const source = arena.allocate(512);
  const scratch = arena.allocate(8);
  let taken = 0;
  const form = fc.constantFrom("raw", "delta");
  fc.assert(
    fc.property(form, fc.boolean(), fc.nat(199), fc.nat(255), fc.integer({ min: -9, max: 9 }), (kind, isNamed, at, flip, more) => {
      const remember = isNamed ? nameOfKeys(context, keys, 20, scratch) : undefined;
      const sectionBytes = writeKeys(context, { keys, keyCount: 20, target: section, form: kind as "raw", remember });
      arena.bytes.copyWithin(source, section, section + sectionBytes);
      arena.bytes[source + (at % sectionBytes)]! ^= flip;
      const used = arena.usedBytes - lists.byteCount;
      try {
        const read = receiver.read({ source, byteCount: Math.max(0, sectionBytes + more), keyCountMax: 100 });
        assert.equal(context.kernels.checkAscending(read.keys.address, read.keys.keyCount), -1, "KeyCodec.K1");
        read.keys.release();
        taken++;
      } catch (error) {
        assert.ok(error instanceof WeighbridgeError, String(error));
        assert.ok(["BAD_REQUEST", "KEYS_NOT_ASCENDING", "UNKNOWN_KEY_LIST"].includes(error.code), error.code);
      }
      assert.ok(arena.usedBytes - lists.byteCount <= used + 4 * 64, "four lists at most, each rounded up to 64 bytes");
    }),
    { numRuns: 3000 },
  );
  assert.ok(taken > 0);
});

test("a header tells the form, the name and the length of its section", () => {
  const context = codecStage();
  const keys = putKeys(context.arena, someKeys(1, 21));
  const target = context.arena.allocate(keySectionBound(21));
  const name = nameOfKeys(context, keys, 21, context.arena.allocate(8));
  const byteCount = writeKeys(context, { keys, keyCount: 21, target, form: "raw", remember: name });
  const header = readKeySectionHeader(context.arena, target, byteCount + 100);
  assert.deepEqual(header, {
    form: KeyForm.RAW,
    name,
    keyCount: 21,
    body: target + KEY_SECTION_HEADER_BYTES,
    bodyBytes: 168,
    sectionBytes: byteCount,
  });
});
