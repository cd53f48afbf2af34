// sim-link — one end of a simulated link: what a socket and its wire do, as events of a clock, from a seed.
//
//   write ──> writes ── copied, at most the window ──> segments ── latency, bandwidth, partitions ──> random reads
//                       `flushed`                      (in order: it is a stream)
//
// Invariants:
//   SimLink.N1. What arrives is a prefix of what was written: a link that breaks loses the end of the stream alone.
//   SimLink.N2. The link reads chunks right before `flushed`, not at the write: a test notices a sender that reuses
//       them too early.
//   SimLink.N3. At most `windowBytes` per direction are on the way or unread; beyond that `flushed` waits, as with a
//       full socket.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import type { Random } from "../base/random.ts";
import { RingQueue } from "../base/ring-queue.ts";
import { chunksWithBytes, type Link, type LinkReader, lostChunk } from "../transport/transport.ts";

const SEGMENT_BYTES_MAX = 64 * 1024;
/** Until the system of the sender takes a write. */
const SEND_DELAY_MS_MAX = 0.05;
/** How long a closed link waits for the other side's end. */
const LINGER_MS = 1000;

/** What a link needs of the network it runs through. */
export type SimWire = {
  readonly clock: Clock;
  readonly random: Random;
  readonly windowBytes: number;
  readonly bytesPerMs: number;
  readonly breakChance: number;
  latencyMs(): number;
  /** Calls `arrive` after `delayMs`, or after the partition between the two hosts healed. */
  carry(fromHost: string, toHost: string, delayMs: number, arrive: () => void): void;
  /** True when this host fell silent and has not come back. */
  isSilent(host: string): boolean;
  /** The link is closed and will not act any more. */
  forget(link: SimLink): void;
};

/** One write, and how far it got. `breakAfterBytes` is set when the link will break in the middle of it. */
type Write = {
  readonly chunks: readonly Uint8Array[];
  readonly flushed: () => void;
  index: number;
  offset: number;
  breakAfterBytes: number | undefined;
};

/** On the way to the other end: bytes, or how the stream ends. */
type Segment = { readonly arriveMs: number; readonly bytes: Uint8Array; readonly ending: "end" | Error | undefined };

const NO_BYTES = new Uint8Array(0);
const ROOM_BYTES = 4 * SEGMENT_BYTES_MAX;
let room = new Uint8Array(0);
let roomTaken = 0;

export type SimLinkOptions = { readonly wire: SimWire; readonly host: string; readonly remoteHost: string; readonly remote: string };

export class SimLink implements Link {
  readonly host: string;
  readonly remoteHost: string;
  readonly remote: string;
  readonly #wire: SimWire;
  readonly #writes = new RingQueue<Write>();
  #segments: Segment[] = [];
  #unreadBytes = 0;
  #lastDepartMs = 0;
  #lastArriveMs = 0;
  #sendScheduled = false;
  #deliveryScheduled = false;
  /** True once nothing follows what is on the way: the stream ended or broke. */
  #endSent = false;
  #cancelLinger: CancelTimer | undefined;
  #peer: SimLink | undefined;
  #reader: LinkReader | undefined;
  #state: "open" | "closing" | "closed" = "open";
  #paused = false;
  /** True when this end's host fell silent: what is sent here waits forever. */
  #vanished = false;

  constructor({ wire, host, remoteHost, remote }: SimLinkOptions) {
    this.#wire = wire;
    this.host = host;
    this.remoteHost = remoteHost;
    this.remote = remote;
  }

  join(peer: SimLink): void {
    this.#peer = peer;
    peer.#peer = this;
  }

  start(reader: LinkReader): void {
    this.#reader = reader;
    this.#other.#scheduleDelivery();
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    if (this.#state !== "open") {
      this.#wire.clock.soon(flushed);
      return;
    }
    this.#writes.push({ chunks: chunksWithBytes(chunks), flushed, index: 0, offset: 0, breakAfterBytes: this.#drawBreak(chunks) });
    this.#scheduleSend();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#other.#scheduleDelivery();
  }

  close(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#scheduleSend();
    this.#other.#scheduleDelivery(); // What arrives is dropped from now on, whether we were paused or not.
  }

  destroy(): void {
    this.abort(undefined, new Error(`${this.host} destroyed the link`));
  }

  /** Ends this side now. The other side gets a random part of what is on the way, and then `causeThere`. */
  abort(cause: Error | undefined, causeThere: Error): void {
    if (this.#state === "closed") return;
    this.#loseTail();
    if (!this.#endSent) this.#send(NO_BYTES, causeThere);
    this.end(cause);
  }

  /** This side's host is gone without a word: the other one learns nothing. */
  vanish(): void {
    this.#vanished = true;
    this.#loseTail();
    this.end(new Error(`${this.host} crashed`));
  }

  /** Ends this side alone, with this cause. */
  end(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#cancelLinger?.();
    this.#wire.clock.soon(() => {
      // Link.L3
      for (let write = this.#writes.shift(); write !== undefined; write = this.#writes.shift()) write.flushed();
      this.#reader?.closed(cause); // Link.L4
      this.#wire.forget(this);
    });
  }

  /** Tries again to deliver: the silent host at the other end may be back, without this link. */
  retry(): void {
    this.#scheduleDelivery();
  }

  get #other(): SimLink {
    assert(this.#peer !== undefined, "the ends are joined before anybody sees them");
    return this.#peer;
  }

  #drawBreak(chunks: readonly Uint8Array[]): number | undefined {
    const { random, breakChance } = this.#wire;
    if (!random.chance(breakChance)) return undefined;
    return random.below(chunks.reduce((sum, chunk) => sum + chunk.length, 0) + 1);
  }

  #scheduleSend(): void {
    if (this.#sendScheduled || this.#state === "closed") return;
    this.#sendScheduled = true;
    this.#wire.clock.after(this.#wire.random.fraction() * SEND_DELAY_MS_MAX, () => {
      this.#sendScheduled = false;
      this.#sendWrites();
    });
  }

  #sendWrites(): void {
    while (!this.#isClosed() && !this.#endSent) {
      const write = this.#writes.at(0);
      if (write === undefined) {
        if (this.#state === "closing") this.#sendEnd();
        return;
      }
      if (write.chunks[write.index]?.length === 0) {
        this.abort(lostChunk(), new Error(`${this.host} lost what it was sending`)); // Link.L6
        return;
      }
      const room = Math.min(this.#wire.windowBytes - this.#unreadBytes, SEGMENT_BYTES_MAX);
      if (room <= 0) return; // The next read at the other end makes room and schedules us again.
      const bytes = copyFrom(write, Math.min(room, write.breakAfterBytes ?? room));
      if (bytes.length > 0) this.#send(bytes, undefined);
      if (write.breakAfterBytes !== undefined) {
        write.breakAfterBytes -= bytes.length;
        if (write.breakAfterBytes === 0) {
          this.#breakBoth();
          return;
        }
      }
      if (write.index === write.chunks.length) {
        this.#writes.shift();
        write.flushed();
      }
    }
  }

  #sendEnd(): void {
    this.#endSent = true;
    this.#send(NO_BYTES, "end");
    this.#cancelLinger = this.#wire.clock.after(LINGER_MS, () => this.end(undefined));
  }

  /** The other side sees the break after the bytes on the way, this one sometime. */
  #breakBoth(): void {
    this.#endSent = true; // So no further write is taken; those that wait are flushed by the end.
    this.#send(NO_BYTES, new Error(`the link to ${this.host} broke`));
    this.#wire.clock.after(this.#wire.latencyMs(), () => this.end(new Error(`the link to ${this.remoteHost} broke`)));
  }

  #send(bytes: Uint8Array, ending: Segment["ending"]): void {
    const { clock, bytesPerMs } = this.#wire;
    this.#lastDepartMs = Math.max(this.#lastDepartMs, clock.nowMs()) + bytes.length / bytesPerMs;
    this.#lastArriveMs = Math.max(this.#lastArriveMs, this.#lastDepartMs + this.#wire.latencyMs());
    this.#segments.push({ arriveMs: this.#lastArriveMs, bytes, ending });
    this.#unreadBytes += bytes.length;
    this.#scheduleDelivery();
  }

  #loseTail(): void {
    if (!this.#endSent) this.#segments.length = this.#wire.random.below(this.#segments.length + 1);
  }

  #scheduleDelivery(): void {
    const segment = this.#segments[0];
    if (segment === undefined || this.#deliveryScheduled) return;
    this.#deliveryScheduled = true;
    this.#wire.carry(this.host, this.remoteHost, Math.max(0, segment.arriveMs - this.#wire.clock.nowMs()), () => {
      this.#deliveryScheduled = false;
      this.#deliver();
    });
  }

  /** Hands the other end one read of random size, or the end of the stream. */
  #deliver(): void {
    const other = this.#other;
    const segment = this.#segments[0];
    if (segment === undefined || other.#holdsInput()) return;
    if (other.#vanished) {
      if (!this.#wire.isSilent(other.host)) this.end(new Error(`${other.host} was restarted and does not know the link`));
      return;
    }
    const { ending } = segment;
    if (ending !== undefined) {
      this.#segments = [];
      other.#takeEnd(ending === "end" ? undefined : ending);
      return;
    }
    const { bytes } = segment;
    const view = other.#nextView();
    const byteCount = view === undefined ? bytes.length : this.#drawReadBytes(Math.min(view.length, bytes.length));
    // All of ours is in order before the reader runs: it may write, close or destroy either end.
    if (byteCount === bytes.length) this.#segments.shift();
    else this.#segments[0] = { ...segment, bytes: bytes.subarray(byteCount) };
    this.#unreadBytes -= byteCount;
    if (this.#writes.length > 0) this.#scheduleSend();
    this.#scheduleDelivery();
    if (view !== undefined) other.#fill(view, bytes.subarray(0, byteCount));
  }

  /** Undefined when no reader is left, so that the link drops the bytes. */
  #nextView(): Uint8Array | undefined {
    if (this.#state !== "open" || this.#reader === undefined) return undefined;
    try {
      const view = this.#reader.view();
      assert(view.length > 0, "a view has room for at least one byte (Link.L2)");
      return view;
    } catch (thrown) {
      this.#refuse(thrown);
      return undefined;
    }
  }

  #fill(view: Uint8Array, bytes: Uint8Array): void {
    view.set(bytes);
    try {
      this.#reader?.received(bytes.length);
    } catch (thrown) {
      this.#refuse(thrown);
    }
  }

  /** Link.L5. */
  #refuse(thrown: unknown): void {
    this.abort(thrown instanceof Error ? thrown : new Error(String(thrown)), new Error(`${this.host} refused what it received`));
  }

  /** The other end sends no more: that closes this one, and our own end goes back if it has not yet. */
  #takeEnd(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    if (cause === undefined && !this.#endSent) {
      this.#endSent = true;
      this.#send(NO_BYTES, "end");
    }
    this.end(cause);
  }

  /** Often all there is, often a few bytes, else anything between. */
  #drawReadBytes(bytesMax: number): number {
    const { random } = this.#wire;
    const kind = random.below(4);
    if (kind === 0) return bytesMax;
    return 1 + random.below(kind === 1 ? Math.min(bytesMax, 16) : bytesMax);
  }

  #holdsInput(): boolean {
    return this.#state === "open" && (this.#paused || this.#reader === undefined);
  }

  /** A method, because a callback may have closed the link in between. */
  #isClosed(): boolean {
    return this.#state === "closed";
  }
}

/** Copies at most `bytesMax` bytes of the write, and moves its position behind them and behind empty chunks. */
function copyFrom(write: Write, bytesMax: number): Uint8Array {
  const bytes = roomFor(bytesMax);
  let length = 0;
  for (let chunk = write.chunks[write.index]; chunk !== undefined; chunk = write.chunks[write.index]) {
    if (chunk.length === 0) break; // Link.L6: the next look at the write finds it
    const part = chunk.subarray(write.offset, write.offset + bytesMax - length);
    bytes.set(part, length);
    length += part.length;
    write.offset += part.length;
    if (write.offset < chunk.length) break;
    write.index++;
    write.offset = 0;
  }
  roomTaken += length;
  return bytes.subarray(0, length);
}

/** Segments lie one after the other in few large arrays: most are shorter than what it takes to make an array. */
function roomFor(byteCount: number): Uint8Array {
  if (roomTaken + byteCount > room.length) {
    room = new Uint8Array(ROOM_BYTES);
    roomTaken = 0;
  }
  return room.subarray(roomTaken);
}
