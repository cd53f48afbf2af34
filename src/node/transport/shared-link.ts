// shared-link — a Link within one host: a socket that goes on in memory once both ends have agreed on it
// (MemoryUpgrade). The socket stays: its end is the end of the link, and a byte on it wakes who sleeps.
//
//   socket ── hold ──▶ held ── settle(proof) ──▶ memory        who accepted
//      ▲                 └──── settle(undefined) ──┐
//      └───────────────────────────────────────────┘
//   socket ── begin ──▶ memory                                 who dialed
//
// Who is awake looks into the memory once per turn of its event loop. Who finds nothing says that it sleeps, looks once
// more, and leaves it to the other side to ring. A loop that is kept awake (WakefulLoop) looks for IDLE_TURNS turns;
// any other sleeps at once: looking costs time that others may need.
//
// Invariants:
//   SharedLink.S1. A byte is on the socket only while the other side does not look, and at most one is under way.
//   SharedLink.S2. What was in memory when the socket ended plainly is read before the link closes: a ring of it, and
//       no more, since a peer may go on writing.
//   SharedLink.S3. Memory is unmapped when the link has closed, and nobody looks at it any more.
//   SharedLink.S4. What a peer wrote there that cannot be ends the link, and nothing else (ByteRing.R2).
//   SharedLink.S5. An idle link gives its pages back.
//   SharedLink.S6. Who sleeps is rung once for a write, when what fits of it is there: to wake a process takes as long
//       as to copy a megabyte, and one that is woken by the first bytes sleeps again before the next ones come.

import { randomBytes } from "node:crypto";
import { AssertionError } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { RingQueue } from "../../base/ring-queue.ts";
import { chunksWithBytes, type Link, type LinkReader, lostChunk, type MemoryOffer, type MemoryUpgrade } from "../../transport/transport.ts";
import { DATA_BYTES, MEMORY_BYTES, RingControl, RingReader, RingWriter, type Side } from "./byte-ring.ts";
import type { SharedMemory, SharedMemorySystem } from "./shared-memory.ts";
import type { SocketLink } from "./socket-link.ts";
import type { WakefulLoop } from "./wakeful-loop.ts";

/** So often a loop that is awake looks in vain before it sleeps, and one that polls for an answer (WakefulLoop.W5). */
const IDLE_TURNS = 200;
const WAITING_TURNS = 1000;
/** What is read in one turn; a read counts as READ_BYTES_MIN at least, so that small ones are bounded too. */
const TURN_BYTES_MAX: number = 1024 * 1024;
const READ_BYTES_MIN = 256;
/** How long a link is idle before it gives pages back. */
const DISCARD_MS = 1000;
const BELL = 0x42;
const BELLS: Uint8Array = Uint8Array.of(BELL);
const BELL_VIEW_BYTES = 64;
const HELLO_FORM = /^[0-9a-f]{64}$/;

/** One write, and how far it got: `chunks[index]` from `offset` on is still to be copied. */
type Write = { readonly chunks: readonly Uint8Array[]; readonly flushed: () => void; index: number; offset: number };

/** The memory of one link, and the ends that are ours. */
class Rings {
  readonly memory: SharedMemory;
  readonly control: RingControl;
  readonly writer: RingWriter;
  readonly reader: RingReader;

  constructor(memory: SharedMemory, side: Side) {
    this.memory = memory;
    this.control = new RingControl(memory.buffer, side);
    this.writer = new RingWriter(memory, side);
    this.reader = new RingReader(memory, side);
    this.control.isAwake = true; // until we look, nobody rings: the socket still carries frames
  }
}

export type SharedLinkOptions = {
  readonly socket: SocketLink;
  readonly clock: Clock;
  readonly loop?: WakefulLoop | undefined;
  readonly isSleepy?: boolean | undefined;
  readonly system: SharedMemorySystem;
};

export class SharedLink implements Link, LinkReader, MemoryUpgrade {
  readonly remote: string;
  readonly host: string;
  readonly #socket: SocketLink;
  readonly #clock: Clock;
  readonly #loop: WakefulLoop | undefined;
  readonly #system: SharedMemorySystem;
  #isSleepy: boolean;
  #reader: LinkReader | undefined;
  #mode: "socket" | "held" | "memory" = "socket";
  #state: "open" | "closing" | "closed" = "open";
  #rings: Rings | undefined;
  /** Held, or behind a full ring. */
  readonly #writes = new RingQueue<Write>();
  #isPaused = false;
  #isScheduled = false;
  #isRinging = false;
  #ringsAgain = false;
  #cancelDiscard: CancelTimer | undefined;
  /** Something moved since pages were last looked at. */
  #wasUsed = false;
  #idleTurns = 0;
  /** The socket is gone; what is in memory may still be read (SharedLink.S2). */
  #isEnding = false;
  #lastBytesLeft = DATA_BYTES;
  #cause: Error | undefined;
  readonly #bellView = new Uint8Array(BELL_VIEW_BYTES);

  constructor({ socket, clock, loop, isSleepy = false, system }: SharedLinkOptions) {
    this.remote = socket.remote;
    this.host = system.host;
    this.#socket = socket;
    this.#clock = clock;
    this.#loop = loop;
    this.#isSleepy = isSleepy;
    this.#system = system;
  }

  /** As SocketLink's. */
  start(reader: LinkReader): void {
    this.#reader = reader;
    this.#socket.start(this);
  }

  // Link

  get upgrade(): MemoryUpgrade {
    return this;
  }

  write(written: readonly Uint8Array[], flushed: () => void): void {
    if (this.#mode === "socket") {
      this.#socket.write(written, flushed);
      return;
    }
    if (this.#state !== "open" || this.#isEnding) {
      this.#clock.soon(flushed);
      return;
    }
    if (!this.#isSleepy) this.#loop?.asked();
    const chunks = written.length === 1 && written[0]!.length > 0 ? written : chunksWithBytes(written);
    const write = { chunks, flushed, index: 0, offset: 0 };
    const rings = this.#rings;
    if (this.#mode === "memory" && rings !== undefined && this.#writes.length === 0 && this.#move(rings, write)) {
      flushed();
      return;
    }
    if (this.#isOpen()) {
      this.#writes.push(write);
      if (this.#mode === "memory") this.#schedule();
    } else this.#clock.soon(flushed);
  }

  pause(): void {
    this.#isPaused = true;
    if (this.#mode === "socket") this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#socket.resume();
    if (this.#mode === "memory") this.#schedule();
  }

  setWakeful(isWakeful: boolean): void {
    this.#isSleepy = !isWakeful;
    this.#socket.setWakeful(isWakeful);
  }

  close(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    if (this.#mode !== "memory") {
      this.#writeToSocket();
      this.#socket.close();
    } else if (this.#isEnding) this.#clock.soon(() => this.#finish(this.#cause));
    else this.#schedule();
  }

  destroy(): void {
    this.#abort(undefined);
  }

  // MemoryUpgrade

  get isShared(): boolean {
    return this.#mode === "memory";
  }

  offer(): MemoryOffer | undefined {
    try {
      const memory = this.#system.create(MEMORY_BYTES);
      this.#rings = new Rings(memory, 0);
      const nonce = randomBytes(this.#rings.control.nonce.length);
      this.#rings.control.nonce.set(nonce);
      return { path: memory.path, byteCount: MEMORY_BYTES, nonce: nonce.toString("hex") };
    } catch (thrown) {
      this.#fails(thrown);
      return undefined;
    }
  }

  hold(): void {
    this.#mode = "held";
  }

  settle(proof: string | undefined): void {
    const rings = this.#rings;
    if (rings === undefined || this.#mode !== "held") throw bad("an answer to no offer of memory");
    if (proof === undefined) {
      this.#fails(new Error("the other side could not open it"));
      this.#writeToSocket();
      return;
    }
    if (!isEqual(rings.control.proof, proof)) throw bad("a proof that is not in the memory");
    rings.memory.hide();
    this.#goOn();
  }

  take({ path, byteCount, nonce }: MemoryOffer): string | undefined {
    try {
      if (byteCount !== MEMORY_BYTES) throw new Error(`it has ${byteCount} bytes, not ${MEMORY_BYTES}`);
      const memory = this.#system.open(path, byteCount);
      this.#rings = new Rings(memory, 1);
      const { control } = this.#rings;
      if (!isEqual(control.nonce, nonce)) throw new Error("it is not the memory that was offered");
      const proof = randomBytes(control.proof.length);
      control.proof.set(proof);
      return proof.toString("hex");
    } catch (thrown) {
      this.#fails(thrown);
      return undefined;
    }
  }

  begin(): void {
    this.#goOn();
  }

  #goOn(): void {
    this.#mode = "memory";
    this.#socket.renewView(); // it was to read a frame
    if (this.#isPaused) this.#socket.resume(); // for its bells and its end
    this.#system.log.debug("a link goes on in shared memory", { remote: this.remote });
    this.#schedule();
  }

  #fails(thrown: unknown): void {
    this.#release();
    this.#mode = "socket";
    this.#system.log.debug("a link shares no memory, and stays a socket", { remote: this.remote, reason: reasonOf(thrown) });
  }

  /** What was held leaves over the socket after all. */
  #writeToSocket(): void {
    this.#mode = "socket";
    for (let write = this.#writes.shift(); write !== undefined; write = this.#writes.shift())
      this.#socket.write(write.chunks, write.flushed);
  }

  // LinkReader of the socket

  view(): Uint8Array {
    if (this.#mode === "memory") return this.#bellView;
    return this.#reader?.view() ?? this.#bellView;
  }

  received(byteCount: number): void {
    if (this.#mode !== "memory") {
      this.#reader?.received(byteCount);
      return;
    }
    // the socket closes, with this cause
    for (let i = 0; i < byteCount; i++) if (this.#bellView[i] !== BELL) throw bad("a byte on its socket that is no bell");
    if (this.#turn(true)) this.#schedule();
  }

  closed(cause: Error | undefined): void {
    if (this.#mode !== "memory") {
      this.#finish(cause);
      return;
    }
    this.#isEnding = true;
    this.#cause ??= cause;
    if (!this.#isOpen() || this.#cause !== undefined) this.#finish(this.#cause);
    else this.#drain();
  }

  /** SharedLink.S2 */
  #drain(): void {
    const rings = this.#rings;
    if (rings === undefined) return;
    const isMore = (): boolean => this.#state === "open" && this.#lastBytesLeft > 0 && rings.reader.hasInput;
    while (isMore() && !this.#isPaused) this.#lastBytesLeft -= this.#take(rings);
    if (isMore() && this.#isPaused) return; // `resume` goes on
    this.#finish(this.#cause);
  }

  // Turns

  #schedule(): void {
    if (this.#isScheduled || this.#rings === undefined) return;
    this.#isScheduled = true;
    this.#clock.afterInput(this.#runTurn);
  }

  readonly #runTurn = (): void => {
    this.#isScheduled = false;
    if (this.#rings === undefined) return;
    if (this.#isEnding) {
      if (this.#state === "open") this.#drain();
      return;
    }
    if (this.#turn(false)) this.#schedule();
  };

  /** Moves what there is; true if another turn is to follow. */
  #turn(isRung: boolean): boolean {
    const rings = this.#rings;
    if (rings === undefined || this.#isClosed()) return false;
    const hasMoved = this.#pump(rings, isRung);
    if (this.#isClosed() || this.#rings === undefined) return false;
    if (this.#state === "closing" && this.#writes.length === 0) {
      this.#socket.close();
      return false;
    }
    if (hasMoved) {
      this.#idleTurns = 0;
      if (!this.#wasUsed) this.#watchPages();
      this.#wasUsed = true;
      return true;
    }
    if (++this.#idleTurns <= this.#turnsMax) return true;
    return this.#guarded(() => this.#sleep(rings)) === false;
  }

  get #turnsMax(): number {
    const loop = this.#loop;
    if (loop?.isAwake !== true || this.#isSleepy) return 0;
    return loop.hasOwnCore ? WAITING_TURNS : IDLE_TURNS;
  }

  #pump(rings: Rings, isRung: boolean): boolean {
    let hasMoved = this.#writes.length > 0 && this.#moveWaiting(rings);
    if (this.#state === "closing") rings.reader.drop();
    else if (!this.#isPaused && rings.reader.hasInput) {
      hasMoved = true;
      if (!isRung && !this.#isSleepy) this.#loop?.input();
      for (let byteCount = 0; byteCount < TURN_BYTES_MAX && this.#isOpen() && !this.#isPaused && rings.reader.hasInput; )
        byteCount += Math.max(this.#take(rings), READ_BYTES_MIN);
    }
    if (!this.#isClosed() && rings.reader.takeWaiter()) this.#ring(rings);
    return hasMoved;
  }

  /** One read: 0 bytes after a throw out of the reader (Link.L5), or for what cannot be (SharedLink.S4). */
  #take(rings: Rings): number {
    const reader = this.#reader;
    try {
      if (reader === undefined) throw new AssertionError("the reader is named before anything is read");
      const view = reader.view();
      if (view.length === 0) throw new AssertionError("a view has room for at least one byte (Link.L2)");
      const byteCount = rings.reader.read(view);
      if (byteCount > 0) reader.received(byteCount);
      return byteCount;
    } catch (thrown) {
      this.#fail(thrown);
      return 0;
    }
  }

  /** Whether something was moved. */
  #moveWaiting(rings: Rings): boolean {
    let hasMoved = false;
    for (let write = this.#writes.at(0); write !== undefined; write = this.#writes.at(0)) {
      const { index, offset } = write;
      const isDone = this.#move(rings, write);
      hasMoved ||= isDone || write.index !== index || write.offset !== offset;
      if (!isDone || this.#isClosed()) break;
      this.#writes.shift();
      write.flushed();
    }
    return hasMoved;
  }

  /** Copies what fits, and rings then (SharedLink.S6); true if that was the rest. */
  #move(rings: Rings, write: Write): boolean {
    const { index, offset } = write;
    const isDone = this.#fill(rings, write);
    if (!this.#isClosed() && (write.index !== index || write.offset !== offset)) this.#ring(rings);
    return isDone;
  }

  #fill(rings: Rings, write: Write): boolean {
    const { chunks } = write;
    while (write.index < chunks.length) {
      const chunk = chunks[write.index] as Uint8Array;
      if (chunk.length === 0) {
        this.#abort(lostChunk()); // Link.L6
        return false;
      }
      const byteCount = this.#copyIn(rings, chunk, write.offset);
      if (byteCount === 0) return false;
      write.offset += byteCount;
      if (write.offset < chunk.length) continue;
      write.index++;
      write.offset = 0;
    }
    return true;
  }

  #copyIn(rings: Rings, chunk: Uint8Array, from: number): number {
    try {
      return rings.writer.write(chunk, from);
    } catch (thrown) {
      this.#fail(thrown); // SharedLink.S4
      return 0;
    }
  }

  /** SharedLink.S1 */
  #ring(rings: Rings): void {
    if (this.#isRinging) {
      this.#ringsAgain = true; // the other side may have heard the bell that is under way, and sleep again
      return;
    }
    if (!rings.control.takeSleeper()) return;
    this.#isRinging = true;
    this.#socket.write([BELLS], this.#rung);
  }

  readonly #rung = (): void => {
    this.#isRinging = false;
    if (!this.#ringsAgain) return;
    this.#ringsAgain = false;
    if (this.#rings !== undefined && !this.#isEnding) this.#ring(this.#rings);
  };

  /** False if there was something to do after all. */
  #sleep(rings: Rings): boolean {
    rings.control.isAwake = false;
    if (!this.#hasWork(rings)) return true;
    rings.control.isAwake = true;
    return false;
  }

  #hasWork(rings: Rings): boolean {
    const write = this.#writes.at(0);
    if (write !== undefined && rings.writer.awaitRoom((write.chunks[write.index]?.length ?? 1) - write.offset)) return true;
    return (!this.#isPaused || this.#state === "closing") && rings.reader.hasInput;
  }

  /** SharedLink.S5 */
  #watchPages(): void {
    this.#cancelDiscard ??= this.#clock.after(DISCARD_MS, this.#discardIdle, true);
  }

  readonly #discardIdle = (): void => {
    this.#cancelDiscard = undefined;
    const rings = this.#rings;
    if (rings === undefined) return;
    if (this.#wasUsed) this.#watchPages();
    else this.#guarded(() => rings.writer.discard(rings.memory.discard));
    this.#wasUsed = false;
  };

  /** Runs what looks at words that a peer may have scribbled over (SharedLink.S4); undefined after a throw. */
  #guarded<T>(run: () => T): T | undefined {
    try {
      return run();
    } catch (thrown) {
      this.#fail(thrown);
      return undefined;
    }
  }

  #fail(thrown: unknown): void {
    this.#abort(thrown instanceof Error ? thrown : new Error(String(thrown)));
  }

  // Ends

  #abort(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#cause ??= cause;
    if (this.#isEnding) this.#clock.soon(() => this.#finish(this.#cause));
    else this.#socket.destroy();
  }

  #finish(cause: Error | undefined): void {
    this.#state = "closed";
    this.#release();
    for (let write = this.#writes.shift(); write !== undefined; write = this.#writes.shift()) write.flushed();
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.closed(cause);
  }

  /** SharedLink.S3 */
  #release(): void {
    this.#cancelDiscard?.();
    this.#rings?.memory.unmap();
    this.#rings = undefined;
  }

  /** Methods, because a callback may have ended the link in between. */
  #isOpen(): boolean {
    return this.#state === "open";
  }

  #isClosed(): boolean {
    return this.#state === "closed";
  }
}

function isEqual(bytes: Uint8Array, hex: string): boolean {
  return HELLO_FORM.test(hex) && Buffer.from(bytes).toString("hex") === hex;
}

function bad(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", `a peer sent ${what}`);
}
