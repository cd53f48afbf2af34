// stub-caller — a channel whose other end is the test, for unit tests of functions: the test passes requests as frames
// and reads the answers.

import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { Channel, type FunctionHandler } from "../peer/channel.ts";
import { CHANNEL_LIMITS, PeerMetrics } from "../peer/channel-host.ts";
import { PagePool } from "../peer/frame-batch.ts";
import { PeerLog } from "../peer/peer-log.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { SimClock } from "./sim-clock.ts";
import { type StubFrame, StubLink } from "./stub-link.ts";

export type StubRequest = {
  readonly app?: number;
  readonly customer?: number;
  readonly functionId?: number;
  readonly command?: number;
  readonly flags?: number;
  /** That of an update; its number when left out. */
  readonly stamp?: number;
  readonly epoch?: number;
  readonly args?: readonly number[];
  readonly text?: string;
  readonly payload?: Uint8Array;
  /** A number that was used before makes it a duplicate; the next one when left out. */
  readonly request?: number;
};

export class StubCaller {
  readonly clock: SimClock;
  link: StubLink = new StubLink();
  readonly channel: Channel;
  readonly #handlers: FunctionHandler[] = [];
  #defaultFunction = 0;
  #nextRequest = 1;

  /** A worker with this id and incarnation. */
  constructor(clock: SimClock = new SimClock(), { id = 9, incarnation = 1 }: { readonly id?: number; readonly incarnation?: number } = {}) {
    this.clock = clock;
    this.channel = new Channel(
      {
        clock,
        pages: new PagePool(),
        metrics: new PeerMetrics(),
        peerLog: new PeerLog(SILENT_LOG, clock),
        limits: CHANNEL_LIMITS,
        resendTimeoutMs: 0,
        stamps: { last: 0 },
        handlers: this.#handlers,
      },
      id,
      incarnation,
    );
    this.channel.attach(this.link);
  }

  /** The function served last is the one requests are for unless they say otherwise. */
  serve(functionId: number, handler: FunctionHandler): void {
    this.#handlers[functionId] = handler;
    this.#defaultFunction = functionId;
  }

  /** A request frame arrives. */
  receive(options: StubRequest): void {
    const payload = options.payload ?? new TextEncoder().encode(options.text ?? "");
    const header = new FrameHeader().reset(Kind.REQUEST, options.functionId ?? this.#defaultFunction);
    const [arg0 = 0, arg1 = 0, arg2 = 0, arg3 = 0] = options.args ?? [];
    header.request = options.request ?? this.#nextRequest++;
    header.settled = 1;
    header.app = options.app ?? 0;
    header.customer = options.customer ?? 0;
    header.command = options.command ?? 0;
    header.flags = options.flags ?? 0;
    header.stamp = options.stamp ?? header.request;
    header.epoch = options.epoch ?? 0;
    header.payloadBytes = payload.length;
    Object.assign(header, { arg0, arg1, arg2, arg3 });
    const landing = payload.length > 0 ? this.channel.destination(header) : undefined;
    landing?.set(payload);
    this.channel.frame(header, landing ?? payload, 0);
  }

  /** As `receive`, and lets happen what is due now. */
  async request(options: StubRequest): Promise<void> {
    this.receive(options);
    await this.clock.advance(0);
  }

  /** The worker was restarted: its next incarnation comes over a new link and numbers its requests from 1 again. */
  restart(): void {
    const { incarnation, name } = this.channel;
    this.channel.renew(incarnation + 1, new WeighbridgeError("NODE_DEAD", `${name} was restarted`));
    this.link = new StubLink();
    this.channel.attach(this.link);
    this.#nextRequest = 1;
  }

  /** The answers since the last look. */
  frames(): StubFrame[] {
    while (this.link.flush());
    return this.link.take();
  }

  /** The same as text: "REPLY 3", "FAILURE 4 UNKNOWN_APP". */
  answers(): string[] {
    return this.frames().map(({ header, payload }) => {
      if (header.kind === Kind.REPLY) return `REPLY ${header.request}`;
      const { code } = JSON.parse(new TextDecoder().decode(payload)) as { code: string };
      return `FAILURE ${header.request} ${code}`;
    });
  }
}
