// app-registry — finds the application that a request is for. A request that comes before its application was created
// waits for it for a while: nodes start at different moments.
//
// Invariants:
//   AppRegistry.A1. An application gets the requests of one node in the order they came, those that waited first.
//   AppRegistry.A2. Waiting requests are bounded in number, bytes and time. Beyond a bound the caller gets
//       UNKNOWN_APP.
//   AppRegistry.A3. A node that is refused for lack of room loses all its requests that wait for that application: a
//       request of several frames never arrives with a hole.
//   AppRegistry.A4. A request that waited is checked again before it is handed over: the placement may have changed
//       meanwhile.
//   AppRegistry.A5. A request whose caller is gone is dropped: it is neither handed over nor answered (KeptRequest.K1).
//   AppRegistry.A6. Where it is known which applications there are, a request for another one is refused at once.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { simpleRequest } from "../contracts/kv.ts";
import { FrameHeader, type RequestLabel } from "../wire/frame.ts";
import type { Channel, FunctionHandler } from "./channel.ts";
import { FunctionHost } from "./function-host.ts";
import { KeptRequest } from "./kept-request.ts";
import { PlainMemory } from "./request-assembly.ts";
import { servedFunction } from "./served-function.ts";

type Waiting = {
  readonly request: KeptRequest;
  readonly header: FrameHeader;
  readonly payload: Uint8Array;
  readonly fresh: boolean;
  /** Ends the time it may wait. */
  readonly cancelTimer: CancelTimer;
};

/** Customers are 16 bits on the wire. */
const CUSTOMERS_MAX = 2 ** 16;
/** Large: a worker may push its whole model before the server's program has created the application. */
const WAITING_BYTES_MAX = 2 ** 28;

export type AppRegistryOptions = {
  readonly clock: Clock;
  /** How long a request waits for its application. */
  readonly waitMs?: number;
  readonly waitingMax?: number;
  readonly waitingBytesMax?: number;
  /** Throws if a request that waited must not be handed over any more. */
  readonly checkAgain?: (header: FrameHeader) => void;
  /** True on workers: one application may have several customers there, each with its own requests. */
  readonly byCustomer?: boolean;
};

export class AppRegistry implements FunctionHandler {
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #waitingMax: number;
  readonly #waitingBytesMax: number;
  readonly #byCustomer: boolean;
  readonly #checkAgain: (header: FrameHeader) => void;
  readonly #apps = new Map<number, FunctionHandler>();
  readonly #served = new Map<number, FunctionHandler>();
  /** The applications for which nothing waits, by number (on workers by application and customer). */
  readonly served: ReadonlyMap<number, FunctionHandler> = this.#served;
  readonly #waiting = new Map<number, Waiting[]>();
  /** Why no other application comes, and what to do; undefined while one may come. */
  #whyNoOther: string | undefined;
  #waitingCount = 0;
  #waitingBytes = 0;

  constructor(options: AppRegistryOptions) {
    this.#clock = options.clock;
    this.#waitMs = options.waitMs ?? 10_000;
    this.#waitingMax = options.waitingMax ?? 1024;
    this.#waitingBytesMax = options.waitingBytesMax ?? WAITING_BYTES_MAX;
    this.#byCustomer = options.byCustomer ?? false;
    this.#checkAgain = options.checkAgain ?? (() => {});
  }

  /** Registers an application; it gets what waited after the caller returns. Throws BAD_ARGUMENT for a taken id. */
  add(app: number, handler: FunctionHandler, customer = 0): void {
    const key = this.#keyOf(app, customer);
    const whose = this.#byCustomer ? ` for customer ${customer}` : "";
    if (this.#apps.has(key)) throw badArgument(`this node already has an application ${app}${whose}`);
    this.#apps.set(key, handler);
    if (this.#waiting.has(key)) this.#clock.soon(() => this.#handOver(key));
    else this.#served.set(key, handler);
  }

  /** No other application comes: from now on a request for one is refused at once, for this reason (AppRegistry.A6). */
  complete(why: string): void {
    this.#whyNoOther = why;
    for (const [key, list] of this.#waiting) {
      const [first] = list;
      if (first !== undefined && !this.#apps.has(key)) this.#refuse(key, () => true, this.#unknown(first.header.app, why));
    }
  }

  /** Another handler serves an application that is there. */
  replace(app: number, handler: FunctionHandler): void {
    const key = this.#keyOf(app, 0);
    this.#apps.set(key, handler);
    if (this.#served.has(key)) this.#served.set(key, handler);
  }

  #handOver(key: number): void {
    const handler = this.#apps.get(key) as FunctionHandler;
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    for (const entry of waiting) {
      const { request, header, payload, fresh } = entry;
      this.#uncount(entry);
      // AppRegistry.A5
      request.serve(() => {
        if (fresh) this.#checkAgain(header); // AppRegistry.A4
        handler.handle(request.channel, header, payload, 0, fresh);
      });
    }
    this.#served.set(key, handler);
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return this.#apps.get(this.#keyOf(header.app, header.customer))?.destination?.(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const key = this.#keyOf(header.app, header.customer);
    const handler = this.#served.get(key);
    if (handler !== undefined) handler.handle(channel, header, bytes, at, fresh);
    else this.#wait(key, channel, header, bytes.slice(at, at + header.payloadBytes), fresh);
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#apps.get(this.#keyOf(header.app, header.customer))?.abandon?.(channel, header);
  }

  /** Nothing waits any more. Nobody is answered: the links are closing. */
  close(): void {
    for (const list of this.#waiting.values()) for (const entry of list) this.#uncount(entry);
    this.#waiting.clear();
  }

  #wait(key: number, channel: Channel, header: FrameHeader, payload: Uint8Array, fresh: boolean): void {
    if (this.#whyNoOther !== undefined && !this.#apps.has(key)) throw this.#unknown(header.app, this.#whyNoOther);
    if (this.#waitingCount >= this.#waitingMax || this.#waitingBytes + payload.length > this.#waitingBytesMax) {
      const error = this.#unknown(header.app, `and ${this.#waitingCount} requests with ${this.#waitingBytes} bytes wait already`);
      this.#refuse(key, ({ request }) => request.channel === channel, error); // AppRegistry.A3
      throw error;
    }
    const list = this.#waiting.get(key) ?? [];
    this.#waiting.set(key, list);
    const copy = Object.assign(new FrameHeader(), header);
    const cancelTimer = this.#clock.after(this.#waitMs, () =>
      this.#refuse(key, (waiting) => waiting === entry, this.#unknown(copy.app, `and none was created within ${this.#waitMs} ms`)),
    );
    const entry: Waiting = { request: new KeptRequest(channel, header), header: copy, payload, fresh, cancelTimer };
    list.push(entry);
    this.#waitingCount++;
    this.#waitingBytes += payload.length;
  }

  #refuse(key: number, isRefused: (waiting: Waiting) => boolean, error: WeighbridgeError): void {
    const list = this.#waiting.get(key) ?? [];
    const kept = list.filter((waiting) => !isRefused(waiting));
    if (kept.length === list.length) return;
    if (kept.length > 0) this.#waiting.set(key, kept);
    else this.#waiting.delete(key);
    for (const waiting of list.filter(isRefused)) {
      this.#uncount(waiting);
      waiting.request.fail(error);
    }
  }

  #uncount({ payload, cancelTimer }: Waiting): void {
    cancelTimer();
    this.#waitingCount--;
    this.#waitingBytes -= payload.length;
  }

  #keyOf(app: number, customer: number): number {
    return this.#byCustomer ? app * CUSTOMERS_MAX + customer : app;
  }

  #unknown(app: number, why: string): WeighbridgeError {
    return new WeighbridgeError("UNKNOWN_APP", `this node has no application ${app}, ${why}`, {
      retryable: this.#whyNoOther === undefined,
    });
  }
}

/** Answers a request of an application, now or later; it may keep the body. The label is valid until it returns. */
export type SimpleServe = (channel: Channel, body: Uint8Array, label: RequestLabel) => Promise<Uint8Array>;

/** An application that serves requests with a number and a body (contracts/kv.ts). */
export function simpleHost(clock: Clock, serve: SimpleServe): FunctionHost<Channel> {
  const host = new FunctionHost({ clock, memory: new PlainMemory(), contextOf: (channel) => channel });
  host.add(
    servedFunction(simpleRequest, {
      handler: async (channel: Channel, { body }, { label }) => ({ body: await serve(channel, body, label) }),
    }),
  );
  return host;
}

/** Runs a user's handle; `failed` gets what it throws, now or later. */
export function runHandle(run: () => void | Promise<void>, failed: (thrown: unknown) => void): void {
  try {
    const result = run();
    if (result instanceof Promise) result.catch(failed);
  } catch (thrown) {
    failed(thrown);
  }
}
