// model-meter — how often and how long the threads of a model did what, per key and per device, and, if asked for,
// when: the events of a time line. In memory that all threads share; the thread that has the lock of the model
// writes.
//
//   keys       rounds | reduced ms | handed out ms | exchanged ms                      f64 each
//   devices    pushes | pulls | copied ms | waited ms | computed ms                    f64 each
//   events     count | kind, key, device, thread, from, to, in turn                    f64 each; the oldest go
//
// Invariants:
//   ModelMeter.T1. Times are of one clock for all threads.

const KEY_FIELDS = 4;
const DEVICE_FIELDS = 5;
const EVENT_FIELDS = 6;
const EVENTS_MAX = 100_000;
const NUMBER_BYTES = 8;

/** What a span of the time line is. */
const SPAN_KINDS = ["compute", "push", "reduce", "exchange", "hand out", "wait"] as const;
export type SpanKind = (typeof SPAN_KINDS)[number];

export type ModelSpan = {
  readonly kind: SpanKind;
  /** The position of the key; -1: none. */
  readonly keyIndex: number;
  /** The position of the device; -1: none. */
  readonly device: number;
  readonly thread: number;
  readonly fromMs: number;
  readonly toMs: number;
};

/** How long the work for a key took. */
export type KeyTimes = { readonly rounds: number; readonly reduceMs: number; readonly handOutMs: number; readonly exchangeMs: number };
/** How long a device computed and waited. */
export type DeviceTimes = {
  readonly pushes: number;
  readonly pulls: number;
  readonly pushMs: number;
  readonly waitMs: number;
  readonly computeMs: number;
};

/** Plain data: it can be posted to another thread. */
export type MeterMemory = {
  readonly buffer: ArrayBufferLike;
  readonly deviceCount: number;
  readonly keyCountMax: number;
  readonly keepsEvents: boolean;
};

export function createMeterMemory({ deviceCount, keyCountMax, keepsEvents }: Omit<MeterMemory, "buffer">): MeterMemory {
  const numbers = keyCountMax * KEY_FIELDS + deviceCount * DEVICE_FIELDS + 1 + (keepsEvents ? EVENTS_MAX * EVENT_FIELDS : 0);
  const Buffer = typeof SharedArrayBuffer === "undefined" ? ArrayBuffer : SharedArrayBuffer;
  return { deviceCount, keyCountMax, keepsEvents, buffer: new Buffer(numbers * NUMBER_BYTES) };
}

export class ModelMeter {
  readonly memory: MeterMemory;
  readonly #numbers: Float64Array;
  readonly #thread: number;
  readonly #devices: number;
  readonly #events: number;

  constructor(memory: MeterMemory, thread: number) {
    this.memory = memory;
    this.#numbers = new Float64Array(memory.buffer);
    this.#thread = thread;
    this.#devices = memory.keyCountMax * KEY_FIELDS;
    this.#events = this.#devices + memory.deviceCount * DEVICE_FIELDS;
  }

  countRound(keyIndex: number): void {
    this.#add(keyIndex * KEY_FIELDS, 1);
  }

  countPushes(device: number, count: number): void {
    this.#add(this.#devices + device * DEVICE_FIELDS, count);
  }

  countPulls(device: number, count: number): void {
    this.#add(this.#devices + device * DEVICE_FIELDS + 1, count);
  }

  note(kind: SpanKind, keyIndex: number, device: number, fromMs: number, toMs: number): void {
    const [key, own] = [keyIndex * KEY_FIELDS, this.#devices + device * DEVICE_FIELDS];
    const lasted = toMs - fromMs;
    if (kind === "reduce") this.#add(key + 1, lasted);
    else if (kind === "hand out") this.#add(key + 2, lasted);
    else if (kind === "exchange") this.#add(key + 3, lasted);
    else this.#add(own + (kind === "push" ? 2 : kind === "wait" ? 3 : 4), lasted);
    if (!this.memory.keepsEvents) return;
    const count = this.#numbers[this.#events] as number;
    const at = this.#events + 1 + (count % EVENTS_MAX) * EVENT_FIELDS;
    this.#numbers[at] = SPAN_KINDS.indexOf(kind);
    this.#numbers[at + 1] = keyIndex;
    this.#numbers[at + 2] = device;
    this.#numbers[at + 3] = this.#thread;
    this.#numbers[at + 4] = fromMs;
    this.#numbers[at + 5] = toMs;
    this.#numbers[this.#events] = count + 1;
  }

  timesOfKey(keyIndex: number): KeyTimes {
    const [rounds = 0, reduceMs = 0, handOutMs = 0, exchangeMs = 0] = this.#numbers.subarray(keyIndex * KEY_FIELDS);
    return { rounds, reduceMs, handOutMs, exchangeMs };
  }

  timesOfDevice(device: number): DeviceTimes {
    const [pushes = 0, pulls = 0, pushMs = 0, waitMs = 0, computeMs = 0] = this.#numbers.subarray(this.#devices + device * DEVICE_FIELDS);
    return { pushes, pulls, pushMs, waitMs, computeMs };
  }

  /** Those that are kept, in the order in which they ended. */
  spans(): ModelSpan[] {
    const count = this.#numbers[this.#events] as number;
    const first = Math.max(0, count - EVENTS_MAX);
    return Array.from({ length: count - first }, (_, i) => {
      const at = this.#events + 1 + ((first + i) % EVENTS_MAX) * EVENT_FIELDS;
      const [kind = 0, keyIndex = 0, device = 0, thread = 0, fromMs = 0, toMs = 0] = this.#numbers.subarray(at, at + EVENT_FIELDS);
      return { kind: SPAN_KINDS[kind] as SpanKind, keyIndex, device, thread, fromMs, toMs };
    });
  }

  #add(at: number, amount: number): void {
    this.#numbers[at] = (this.#numbers[at] as number) + amount;
  }
}
