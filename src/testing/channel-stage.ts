// channel-stage — a channel and its calls, for unit tests. The test plays the other node, its frames and the flushes.

import { assert } from "../base/assert.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { Call, type CallFate } from "../peer/call.ts";
import { Channel, type FunctionHandler } from "../peer/channel.ts";
import { CHANNEL_LIMITS, type ChannelLimits, PeerMetrics } from "../peer/channel-host.ts";
import { type FaultOptions, Faults } from "../peer/faults.ts";
import { type FrameBatch, PagePool } from "../peer/frame-batch.ts";
import { PeerLog } from "../peer/peer-log.ts";
import { FrameHeader, Kind, setExtent } from "../wire/frame.ts";
import { SimClock } from "./sim-clock.ts";
import { type StubFrame, StubLink } from "./stub-link.ts";

/** The only function that calls ask for, and that a stage serves. */
export const STAGE_FUNCTION = 40;

export type TestCallOptions = {
  readonly priority?: number;
  readonly epoch?: number;
  readonly byteCount?: number;
  readonly isUpdate?: boolean;
  readonly isIdempotent?: boolean;
  /** Bytes of the memory in which answers land; none when left out. */
  readonly room?: number;
};

/** Carries its name, and remembers how it ended: "answered text", or the code of its failure. */
export class TestCall extends Call {
  readonly functionId: number = STAGE_FUNCTION;
  readonly isRead: boolean = false;
  readonly isUpdate: boolean;
  readonly isIdempotent: boolean;
  readonly name: string;
  readonly room: Uint8Array | undefined;
  readonly #payload: Uint8Array<ArrayBuffer>;
  readonly #byteCount: number;
  outcome = "open";
  fate: CallFate | undefined;

  constructor(name: string, options: TestCallOptions = {}) {
    const { priority = 0, epoch = 0, byteCount = 8, isUpdate = true, isIdempotent = false, room = 0 } = options;
    super(priority, epoch);
    this.name = name;
    this.isUpdate = isUpdate;
    this.isIdempotent = isIdempotent;
    this.room = room === 0 ? undefined : new Uint8Array(room);
    this.#payload = new Uint8Array(byteCount);
    this.#byteCount = byteCount;
    this.#payload.set(new TextEncoder().encode(name));
  }

  get byteCount(): number {
    return this.#payload.length;
  }

  get isIntact(): boolean {
    return this.#payload.length === this.#byteCount && this.room?.length !== 0;
  }

  /** Its memory belongs to another owner from now on. */
  detach(): void {
    structuredClone(this.#payload, { transfer: [this.#payload.buffer] });
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    header.clearRest();
    batch.begin(header, 0);
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    header.clearRest();
    header.payloadBytes = this.#payload.length;
    batch.begin(header, 0);
    batch.attach(this.#payload);
    batch.pad(this.#payload.length);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return this.room?.subarray(0, header.payloadBytes);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    assert(this.outcome === "open", "a call ends once");
    const text = new TextDecoder().decode(bytes.subarray(at, at + header.payloadBytes));
    if (text === "nonsense") throw new Error("what is this?");
    this.outcome = `answered ${text}`.trimEnd();
    return true;
  }

  failed(error: WeighbridgeError, fate?: CallFate): void {
    this.fate = fate;
    assert(this.outcome === "open", "a call ends once");
    this.outcome = error.code;
  }

  mustFollow(): boolean {
    return false;
  }
}

export type ChannelStageOptions = {
  readonly limits?: Partial<ChannelLimits>;
  readonly faults?: Partial<FaultOptions>;
  readonly handler?: FunctionHandler;
};

/** A channel to server 0, and a link whose other end is the test. */
export class ChannelStage {
  readonly clock: SimClock = new SimClock();
  readonly metrics: PeerMetrics = new PeerMetrics();
  readonly channel: Channel;
  link: StubLink = new StubLink();

  constructor({ limits = {}, faults, handler }: ChannelStageOptions = {}) {
    const none = { dropPercent: 0, duplicatePercent: 0, reorderPercent: 0, delayMs: 1, seed: 1 };
    this.channel = new Channel(
      {
        clock: this.clock,
        pages: new PagePool(),
        metrics: this.metrics,
        peerLog: new PeerLog(SILENT_LOG, this.clock),
        limits: { ...CHANNEL_LIMITS, ...limits },
        resendTimeoutMs: 0,
        stamps: { last: 0 },
        handlers: Array.from({ length: STAGE_FUNCTION + 1 }, (_, id) => (id === STAGE_FUNCTION ? handler : undefined)),
      },
      8,
      1,
      faults === undefined ? undefined : new Faults({ ...none, ...faults }, this.clock, 0),
    );
    this.channel.attach(this.link);
  }

  /** Sends the calls and lets what can leave, leave. */
  async send(...calls: readonly TestCall[]): Promise<void> {
    for (const call of calls) this.channel.send(call);
    await this.clock.run();
  }

  /** The link breaks and another one takes its place. */
  async reconnect(): Promise<void> {
    this.breakLink();
    this.link = new StubLink();
    this.channel.attach(this.link);
    await this.clock.run();
  }

  breakLink(): void {
    const broken = this.link;
    this.channel.detach(broken);
    while (broken.flush());
  }

  /** Flushes everything there is to flush, and what that lets leave. */
  async flush(): Promise<void> {
    await this.clock.run();
    while (this.link.flush()) await this.clock.run();
  }

  /** The requests written since the last look: "number/stamp name". */
  left(): string[] {
    return this.link.take().map(({ header, payload }) => `${header.request}/${header.stamp} ${nameIn(payload)}`);
  }

  /** A frame of the other side arrives. */
  receive(
    kind: Kind,
    request: number,
    text = "",
    { functionId = STAGE_FUNCTION, settled = 1 }: { readonly functionId?: number; readonly settled?: number } = {},
  ): void {
    const payload = new TextEncoder().encode(text);
    const header = new FrameHeader().reset(kind, functionId);
    header.request = request;
    header.settled = settled;
    header.payloadBytes = payload.length;
    if (kind === Kind.REPLY) setExtent(header, payload.length, 0);
    const landing = payload.length > 0 ? this.channel.destination(header) : undefined;
    landing?.set(payload);
    this.channel.frame(header, landing ?? payload, 0);
  }

  reply(request: number, text = ""): void {
    this.receive(Kind.REPLY, request, text);
  }
}

export function nameIn(payload: Uint8Array): string {
  return new TextDecoder().decode(payload).replaceAll("\0", "");
}

/** "REPLY 3 text" for every frame. */
export function answersIn(frames: readonly StubFrame[]): string[] {
  const kinds = new Map<number, string>(Object.entries(Kind).map(([name, value]) => [value, name]));
  return frames.map(({ header, payload }) => {
    const text = nameIn(payload);
    const code = header.kind === Kind.FAILURE ? (JSON.parse(text) as { code: string }).code : text;
    return `${kinds.get(header.kind)} ${header.request} ${code}`.trimEnd();
  });
}

/** "call1", "call2" … */
export function testCalls(count: number, options: TestCallOptions = {}): TestCall[] {
  return Array.from({ length: count }, (_, i) => new TestCall(`call${i + 1}`, options));
}
