// memory-transport — a Transport between the nodes of one process ("memory://name"): no sockets, no buffers of its own.
// Bytes are copied once, from the writer's chunks into the reader's view, in turns of bounded length.
//
// A link is a pair of ends. Each end moves its own writes to the other in a call from the clock (never from inside
// `write`), as a socket would: a paused reader keeps the writer's chunks, and `flushed` comes when they were copied
// (Link.L3).

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { RingQueue } from "../base/ring-queue.ts";
import {
  type Address,
  type ConnectOptions,
  chunksWithBytes,
  type Link,
  type LinkReader,
  type Listener,
  lostChunk,
  type Transport,
} from "./transport.ts";

type Accept = (link: Link) => LinkReader;

/** The meeting point of the memory transports of one process: those that share a hub find each other. */
export class MemoryHub {
  readonly #accepts = new Map<Address, Accept>();
  #linkCount = 0;

  /** False when the address is taken. */
  bind(address: Address, accept: Accept): boolean {
    if (this.#accepts.has(address)) return false;
    this.#accepts.set(address, accept);
    return true;
  }

  unbind(address: Address, accept: Accept): void {
    if (this.#accepts.get(address) === accept) this.#accepts.delete(address);
  }

  acceptAt(address: Address): Accept | undefined {
    return this.#accepts.get(address);
  }

  nextLinkName(address: Address): string {
    return `${address}#${++this.#linkCount}`;
  }
}

export type MemoryTransportOptions = { readonly clock: Clock; readonly hub: MemoryHub };

export class MemoryTransport implements Transport {
  readonly #clock: Clock;
  readonly #hub: MemoryHub;

  constructor({ clock, hub }: MemoryTransportOptions) {
    this.#clock = clock;
    this.#hub = hub;
  }

  /** Closing the listener leaves accepted links alone. */
  async listen(address: Address, accept: Accept): Promise<Listener> {
    checkAddress(address);
    const own: Accept = (link) => accept(link); // its own identity: the same function may bind the address again later
    if (!this.#hub.bind(address, own))
      throw new WeighbridgeError("PORT_IN_USE", `cannot listen on ${address}: it is taken in this process; choose another name`);
    return { address, close: async () => this.#hub.unbind(address, own) };
  }

  /** Is answered at once, so the deadline never passes. */
  async connect(address: Address, open: (link: Link) => LinkReader, _options: ConnectOptions): Promise<Link> {
    checkAddress(address);
    const { promise, resolve, reject } = Promise.withResolvers<Link>();
    this.#clock.soon(() => {
      const accept = this.#hub.acceptAt(address);
      if (accept === undefined) {
        const message = `nothing answers at ${address}: there is no listener in this process`;
        reject(new WeighbridgeError("NO_ROUTE", message, { retryable: true }));
        return;
      }
      const near = new MemoryLink(address, this.#clock);
      const far = new MemoryLink(this.#hub.nextLinkName(address), this.#clock);
      near.join(far);
      far.start(accept);
      const failure = near.start(open);
      if (failure === undefined) resolve(near);
      else reject(failure.thrown);
    });
    return await promise;
  }
}

function checkAddress(address: Address): void {
  if (/^memory:\/\/[^\s/]+$/.test(address)) return;
  throw badArgument(`"${address}" cannot be used as an address: expected "memory://name"`);
}

/** One write, and how far it got: `chunks[index]` from `offset` on is still to be copied. */
type Write = { readonly chunks: readonly Uint8Array[]; readonly flushed: () => void; index: number; offset: number };

/** What one end moves per turn; a read counts as READ_BYTES_MIN at least, so that small ones are bounded too. */
const TURN_BYTES_MAX = 1024 * 1024;
const READ_BYTES_MIN = 256;

class MemoryLink implements Link {
  readonly remote: string;
  readonly #clock: Clock;
  readonly #writes = new RingQueue<Write>();
  #peer: MemoryLink | undefined;
  #reader: LinkReader | undefined;
  #state: "open" | "closing" | "closed" = "open";
  #paused = false;
  /** True once the other end closed and all it wrote was taken. */
  #inputEnded = false;
  #scheduled = false;

  constructor(remote: string, clock: Clock) {
    this.remote = remote;
    this.#clock = clock;
  }

  join(peer: MemoryLink): void {
    this.#peer = peer;
    peer.#peer = this;
  }

  /** Gets the reader; if that throws, destroys the link and throws on. */
  start(readerFor: Accept): { readonly thrown: unknown } | undefined {
    try {
      this.#reader = readerFor(this);
      return undefined;
    } catch (thrown) {
      this.destroy();
      return { thrown };
    }
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    if (this.#state !== "open") {
      this.#clock.soon(flushed);
      return;
    }
    this.#writes.push({ chunks: chunksWithBytes(chunks), flushed, index: 0, offset: 0 });
    this.#schedule();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#other.#schedule();
    if (this.#inputEnded) this.#end(undefined);
  }

  close(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#schedule();
    this.#other.#schedule(); // What it sends from now on is dropped, whether we were paused or not.
  }

  destroy(): void {
    this.#abort(undefined);
  }

  get #other(): MemoryLink {
    assert(this.#peer !== undefined, "the ends are joined before anybody sees them");
    return this.#peer;
  }

  #schedule(): void {
    if (this.#scheduled || this.#state === "closed") return;
    this.#scheduled = true;
    this.#clock.afterInput(() => {
      this.#scheduled = false;
      this.#move();
    });
  }

  /** Moves what the other end takes, up to the bound of a turn; then ends a closing link. */
  #move(): void {
    const other = this.#other;
    let budget = TURN_BYTES_MAX;
    while (!this.#isClosed()) {
      const write = this.#writes.at(0);
      if (write === undefined) {
        if (this.#state === "closing") this.#endAfterClose();
        return;
      }
      if (other.#holdsInput()) return;
      if (budget <= 0) {
        this.#schedule();
        return;
      }
      const chunk = write.chunks[write.index];
      if (chunk === undefined) {
        this.#writes.shift();
        budget -= READ_BYTES_MIN;
        write.flushed();
      } else if (chunk.length === 0) {
        this.#abort(lostChunk()); // Link.L6
      } else if (write.offset === chunk.length) {
        write.index++;
        write.offset = 0;
      } else {
        const byteCount = other.#take(chunk, write.offset);
        write.offset += byteCount;
        budget -= Math.max(byteCount, READ_BYTES_MIN);
      }
    }
  }

  /** Copies `chunk` from `offset` on into the reader's view, as much as fits, and returns how much that was. */
  #take(chunk: Uint8Array, offset: number): number {
    if (this.#state !== "open") return chunk.length - offset; // Dropped: nobody reads after a close.
    const reader = this.#reader;
    assert(reader !== undefined, "the reader is named before the first turn");
    try {
      const view = reader.view();
      assert(view.length > 0, "a view has room for at least one byte (Link.L2)");
      const byteCount = Math.min(view.length, chunk.length - offset);
      view.set(chunk.subarray(offset, offset + byteCount));
      reader.received(byteCount);
      return byteCount;
    } catch (thrown) {
      this.#abort(thrown instanceof Error ? thrown : new Error(String(thrown))); // Link.L5
      return 0;
    }
  }

  #holdsInput(): boolean {
    return this.#paused && this.#state === "open";
  }

  /** A method, because a callback may have closed the link in between. */
  #isClosed(): boolean {
    return this.#state === "closed";
  }

  #endAfterClose(): void {
    this.#end(undefined);
    const other = this.#other;
    other.#inputEnded = true;
    if (!other.#holdsInput()) other.#end(undefined); // A paused end learns of it when it resumes.
  }

  #abort(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    this.#end(cause);
    this.#other.#end(new Error("the other side destroyed the link"));
  }

  #end(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#clock.soon(() => {
      for (let write = this.#writes.shift(); write !== undefined; write = this.#writes.shift()) write.flushed();
      this.#reader?.closed(cause);
    });
  }
}
