// model-words — the words that all threads of a shared model have in common: their layout, the lock, the bells that
// threads sleep on, and the texts of failures. Not what they mean for a round: key-rounds.ts.
//
//   header     lock | state | sequence | keys | live devices | failures
//   threads    bell | sleeping | claims: count, tasks × CLAIMS_MAX               of the owner, then of each device
//   devices    live | home | failure | from | to | indexes × keyCountMax         the ring: keys whose pulls have ended
//   failures   length | characters × 511                                         FAILURES of them, in turn
//   keys       the record of each key                                            key-rounds.ts
//   heaps      of reduces, hand-outs and exchanges                               task-heap.ts
//
// Invariants:
//   ModelWords.W1. Words are read and written by the thread that has the lock. Bells and the state may be read without.
//   ModelWords.W2. The lock is never held while data move, nor across a turn of the event loop. A thread waits for it
//       at most LOCK_WAIT_MS_MAX; then its holder has ended, and the model is broken.
//   ModelWords.W3. A thread that sleeps has found nothing to do, under the lock. The next with work rings it.

import { asError, type ErrorCode, type UpdateOutcome, WeighbridgeError } from "../../base/errors.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";

export const DEVICES_MAX = 64;
/** One less can be there. */
export const KEYS_MAX = 16_384;
const FAILURES = 128;
const FAILURE_WORDS = 512;
const DETAIL_LENGTH_MAX = 96;
const LOCK_WAIT_MS_MAX = 5000;
/** Attempts before a thread sleeps for a millisecond. */
const SPINS = 200;

const LOCK = 0;
const STATE = 1;
const SEQUENCE = 2;
const KEY_COUNT = 3;
const LIVE_COUNT = 4;
const FAILURE_COUNT = 5;
/** 1 if a thread may sleep until the lock is free. */
const LOCK_WANTED = 6;
const HEADER_WORDS = 16;

/** Tasks of which a thread has shares at a time. */
export const CLAIMS_MAX = 32;
/** Whole lines of the cache for each, so that bells do not disturb each other. */
const THREAD_WORDS = 48;
const BELL = 0;
const SLEEPING = 1;
const CLAIM_COUNT = 2;
const CLAIMS = 3;

const DEVICE_WORDS = 8;
const LIVE = 0;
const HOME = 1;
const LOSS = 2;
const RING_FROM = 3;
const RING_TO = 4;

/** The thread that opened the model. Those of devices count from 1. */
export const OWNER = 0;

const OPEN = 0;
const CLOSED = 1;
const BROKEN = 2;

/** Plain data: it can be posted to another thread. */
export type ModelMemory = {
  readonly buffer: ArrayBufferLike;
  readonly deviceCount: number;
  readonly keyCountMax: number;
  /** Of a key's record. */
  readonly keyWords: number;
};

/** The words of a model with so many devices, all of which are alive and run by the owner. */
export function createModelMemory(deviceCount: number, keyWords: number, keyCountMax: number = KEYS_MAX): ModelMemory {
  const memory = { deviceCount, keyCountMax, keyWords };
  const { end } = layoutOf(memory);
  const Buffer = typeof SharedArrayBuffer === "undefined" ? ArrayBuffer : SharedArrayBuffer;
  const created = { ...memory, buffer: new Buffer(end * WORD_BYTES) };
  const words = new ModelWords(created, OWNER);
  for (let device = 0; device < deviceCount; device++) words.setLive(device, true);
  return created;
}

/** In words. */
function layoutOf({ deviceCount, keyCountMax, keyWords }: Omit<ModelMemory, "buffer">): Readonly<Record<string, number>> & {
  readonly threads: number;
  readonly devices: number;
  readonly failures: number;
  readonly keys: number;
  readonly heaps: number;
  readonly heapWords: number;
  readonly end: number;
} {
  const threads = HEADER_WORDS;
  const devices = threads + (deviceCount + 1) * THREAD_WORDS;
  const failures = devices + deviceCount * (DEVICE_WORDS + keyCountMax);
  const keys = failures + FAILURES * FAILURE_WORDS;
  const heaps = keys + keyCountMax * keyWords;
  const heapWords = 1 + (keyCountMax * (deviceCount + 1) + DEVICES_MAX) * HEAP_ENTRY_WORDS; // with what failed
  return { threads, devices, failures, keys, heaps, heapWords, end: heaps + HEAPS * heapWords };
}

const HEAPS = 3;
export const HEAP_ENTRY_WORDS = 3;

export class ModelWords {
  readonly memory: ModelMemory;
  readonly words: Int32Array;
  /** The number of this thread. */
  readonly thread: number;
  readonly #layout: ReturnType<typeof layoutOf>;
  /** Threads to ring when the lock is free again. */
  readonly #rung: number[] = [];

  constructor(memory: ModelMemory, thread: number) {
    this.memory = memory;
    this.words = new Int32Array(memory.buffer);
    this.thread = thread;
    this.#layout = layoutOf(memory);
  }

  get deviceCount(): number {
    return this.memory.deviceCount;
  }

  /**
   * Calls `act` with the lock (ModelWords.W2), and rings the threads that got work. Throws CLOSED for a model that is
   * broken.
   */
  locked<T>(act: () => T): T {
    this.#lock();
    try {
      return act();
    } finally {
      this.#unlock();
      while (this.#rung.length > 0) Atomics.notify(this.words, this.#rung.pop() as number);
    }
  }

  #lock(): void {
    const { words } = this;
    const mine = this.thread + 1;
    for (let spins = 0, waits = 0; ; spins++) {
      const holder = Atomics.compareExchange(words, LOCK, 0, mine);
      if (holder === 0) break;
      if (spins < SPINS) continue;
      Atomics.store(words, LOCK_WANTED, 1);
      Atomics.wait(words, LOCK, holder, 1);
      if (++waits > LOCK_WAIT_MS_MAX) this.breakModel();
      if (this.isBroken) throw this.brokenError();
    }
    if (!this.isBroken) return;
    this.#unlock();
    throw this.brokenError();
  }

  /** Wakes those that sleep, if there may be some. */
  #unlock(): void {
    Atomics.store(this.words, LOCK, 0);
    if (Atomics.load(this.words, LOCK_WANTED) === 0) return;
    Atomics.store(this.words, LOCK_WANTED, 0);
    Atomics.notify(this.words, LOCK);
  }

  /** A thread is no more. False, and the model is broken, if it ended with the lock. For the owner. */
  threadEnded(thread: number): boolean {
    if (Atomics.load(this.words, LOCK) !== thread + 1) return true;
    this.breakModel();
    Atomics.store(this.words, LOCK, 0);
    return false;
  }

  /** The words, or the weights, can no longer be trusted. */
  breakModel(): void {
    Atomics.store(this.words, STATE, BROKEN);
    this.#ringAll();
  }

  close(): void {
    Atomics.compareExchange(this.words, STATE, OPEN, CLOSED);
    this.#ringAll();
  }

  get isOpen(): boolean {
    return Atomics.load(this.words, STATE) === OPEN;
  }

  get isBroken(): boolean {
    return Atomics.load(this.words, STATE) === BROKEN;
  }

  brokenError(): WeighbridgeError {
    return new WeighbridgeError("CLOSED", "a thread of the shared model ended while it changed what all share: the model cannot go on", {
      detail: { goesOn: false },
    });
  }

  // Threads

  #threadAt(thread: number): number {
    return this.#layout.threads + thread * THREAD_WORDS;
  }

  /** Under the lock, with nothing to do (ModelWords.W3). Returns what `listen` needs. */
  sleep(): number {
    const at = this.#threadAt(this.thread);
    this.words[at + SLEEPING] = 1;
    return Atomics.load(this.words, at + BELL);
  }

  /** Under the lock: is awake. */
  awake(): void {
    this.words[this.#threadAt(this.thread) + SLEEPING] = 0;
  }

  /** Calls `rung` when the bell has rung since `sleep` gave `heard`. False if it has: then it is not called. */
  listen(heard: number, rung: () => void): boolean {
    const bell = Atomics.waitAsync(this.words, this.#threadAt(this.thread) + BELL, heard);
    if (bell.async) void bell.value.then(rung);
    return bell.async;
  }

  /** Whether the bell has rung since `sleep` gave `heard`. */
  isRung(heard: number): boolean {
    return Atomics.load(this.words, this.#threadAt(this.thread) + BELL) !== heard;
  }

  /** Blocks the thread until the bell has rung since `sleep` gave `heard`. */
  waitForBell(heard: number): void {
    Atomics.wait(this.words, this.#threadAt(this.thread) + BELL, heard);
  }

  /** Under the lock: something for this thread. If it sleeps, its bell rings when the lock is free. */
  ring(thread: number): void {
    const at = this.#threadAt(thread);
    if (this.words[at + SLEEPING] === 0 || thread === this.thread) return;
    this.words[at + SLEEPING] = 0;
    Atomics.add(this.words, at + BELL, 1);
    this.#rung.push(at + BELL);
  }

  /** Under the lock: there is work for so many threads beside this one. */
  ringSleepers(count: number): void {
    for (let thread = 0, left = count; thread <= this.deviceCount && left > 0; thread++) {
      if (this.words[this.#threadAt(thread) + SLEEPING] === 0 || thread === this.thread) continue;
      this.ring(thread);
      left--;
    }
  }

  #ringAll(): void {
    for (let thread = 0; thread <= this.deviceCount; thread++) {
      Atomics.add(this.words, this.#threadAt(thread) + BELL, 1);
      Atomics.notify(this.words, this.#threadAt(thread) + BELL);
    }
  }

  /** The tasks of which a thread does shares. */
  claimsOf(thread: number): number[] {
    const at = this.#threadAt(thread);
    return [...this.words.subarray(at + CLAIMS, at + CLAIMS + (this.words[at + CLAIM_COUNT] as number))];
  }

  setClaims(tasks: readonly number[], thread: number = this.thread): void {
    const at = this.#threadAt(thread);
    this.words[at + CLAIM_COUNT] = tasks.length;
    for (let i = 0; i < tasks.length; i++) this.words[at + CLAIMS + i] = tasks[i] as number;
  }

  // Devices

  #deviceAt(device: number): number {
    return this.#layout.devices + device * (DEVICE_WORDS + this.memory.keyCountMax);
  }

  isLive(device: number): boolean {
    return this.words[this.#deviceAt(device) + LIVE] === 1;
  }

  setLive(device: number, isLive: boolean, loss = 0): void {
    const at = this.#deviceAt(device);
    if (this.isLive(device) === isLive) return;
    this.words[at + LIVE] = isLive ? 1 : 0;
    this.words[at + LOSS] = loss;
    this.words[LIVE_COUNT] = this.liveCount + (isLive ? 1 : -1);
  }

  get liveCount(): number {
    return this.words[LIVE_COUNT] as number;
  }

  /** The failure with which a device ended. */
  lossOf(device: number): number {
    return this.words[this.#deviceAt(device) + LOSS] as number;
  }

  homeOf(device: number): number {
    return this.words[this.#deviceAt(device) + HOME] as number;
  }

  setHome(device: number, thread: number): void {
    this.words[this.#deviceAt(device) + HOME] = thread;
  }

  /** Tells the home of a device that its pull of a key has come to an end, or is to be copied by it. */
  tell(device: number, keyIndex: number): void {
    const at = this.#deviceAt(device);
    const to = this.words[at + RING_TO] as number;
    this.words[at + DEVICE_WORDS + to] = keyIndex;
    this.words[at + RING_TO] = (to + 1) % this.memory.keyCountMax;
    this.ring(this.homeOf(device));
  }

  /** The next key that `tell` was called with, -1 when there is none. */
  hear(device: number): number {
    const at = this.#deviceAt(device);
    const from = this.words[at + RING_FROM] as number;
    if (from === this.words[at + RING_TO]) return -1;
    this.words[at + RING_FROM] = (from + 1) % this.memory.keyCountMax;
    return this.words[at + DEVICE_WORDS + from] as number;
  }

  // Keys, heaps, failures

  get keyCount(): number {
    return this.words[KEY_COUNT] as number;
  }

  /** The index of a new key. Throws QUEUE_FULL. */
  addKey(): number {
    const { keyCount } = this;
    if (keyCount + 1 >= this.memory.keyCountMax)
      throw new WeighbridgeError("QUEUE_FULL", `a shared model has at most ${this.memory.keyCountMax - 1} keys`);
    this.words[KEY_COUNT] = keyCount + 1;
    return keyCount;
  }

  keyAt(keyIndex: number): number {
    return this.#layout.keys + keyIndex * this.memory.keyWords;
  }

  heapAt(heap: number): number {
    return this.#layout.heaps + heap * this.#layout.heapWords;
  }

  /** Rises; wraps around. */
  nextSequence(): number {
    const sequence = ((this.words[SEQUENCE] as number) + 1) | 0;
    this.words[SEQUENCE] = sequence;
    return sequence;
  }

  /**
   * Keeps an error for the threads that have to throw it, without its cause, and without a detail that is long or no
   * plain data. Its number, from 1 up, is good for FAILURES more.
   */
  keepFailure(thrown: unknown): number {
    const number = (this.words[FAILURE_COUNT] as number) + 1;
    this.words[FAILURE_COUNT] = number;
    const at = this.#failureAt(number);
    const error = asError(thrown, "HANDLER_FAILED");
    const { code, retryable, outcome = "", detail, message } = error;
    const text = [code, Number(retryable), outcome, detailText(detail), message].join("\n").slice(0, FAILURE_WORDS - 1);
    this.words[at] = text.length;
    for (let i = 0; i < text.length; i++) this.words[at + 1 + i] = text.charCodeAt(i);
    return number;
  }

  failure(number: number): WeighbridgeError {
    const at = this.#failureAt(number);
    const text = String.fromCharCode(...this.words.subarray(at + 1, at + 1 + (this.words[at] as number)));
    const [code = "", retryable = "", outcome = "", detail = "", ...message] = text.split("\n");
    const options = {
      retryable: retryable === "1",
      outcome: outcome === "" ? undefined : (outcome as UpdateOutcome),
      detail: detail === "" ? undefined : (JSON.parse(detail) as unknown),
    };
    return new WeighbridgeError(code as ErrorCode, message.join("\n"), options);
  }

  #failureAt(number: number): number {
    return this.#layout.failures + (number % FAILURES) * FAILURE_WORDS;
  }
}

/** JSON without line breaks; empty if there is none, it is no plain data, or it would leave no room for a message. */
function detailText(detail: unknown): string {
  try {
    const text = JSON.stringify(detail ?? null) ?? "null";
    return text === "null" || text.length > DETAIL_LENGTH_MAX ? "" : text;
  } catch {
    return ""; // a cycle, or a number that JSON cannot hold
  }
}
