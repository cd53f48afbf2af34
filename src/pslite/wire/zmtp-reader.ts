// zmtp-reader — splits the bytes of one ZMTP connection into the parts of messages, without copying what can go
// elsewhere: the sink decides for each part whether it is read whole, streamed into memory of its choice, or skipped.
//
//   greeting ──► header ──► whole │ stream │ skip ──► header …
//
// Invariants:
//   ZmtpReader.Z1. `view()` is never empty.
//   ZmtpReader.Z2. For each part `begin` is called once, then `whole` once, or `streamed` until all its bytes have
//       arrived. An empty part is always whole.
//   ZmtpReader.Z3. While `isHeld` no message begins; bytes that arrive wait in the buffer, which grows if it must.
//       `goOn` continues.
//   ZmtpReader.Z4. A view that was returned stays where the next bytes go until they are `received`.
//   ZmtpReader.Z5. A length that a peer declares costs nothing: room for a long whole part grows with what has arrived.
//   ZmtpReader.Z6. If the sink has room after the end of a part, the beginning of what follows is read there too, and
//       moved out before the sink learns of the part's end: that saves a read for each message.

import { assert } from "../../base/assert.ts";
import { badZmtp, checkGreeting, decodeCommand, FRAME_HEADER_BYTES_MAX, GREETING_BYTES, readLongLength, ZmtpFlag } from "./zmtp.ts";

/** Several thousand small messages, or the keys of a large one. */
const BUFFER_BYTES = 128 * 1024;
/**
 * While parts are streamed, a header is read with at most this much after it: more would be copied, less costs a read.
 */
const EARLY_BYTES = 32 * 1024;
/**
 * How much of what follows a streamed part is read with its end, if there is room: the header of the next message, and
 * little more to be moved.
 */
const AHEAD_BYTES = 512;
const GATHER_STEP_BYTES = 1024 * 1024;
const COMMAND_BYTES_MAX = 4096;
const EMPTY = new Uint8Array(0);

export type PartFate = "whole" | "stream" | "skip";

/** Receives the parts of messages. */
export type PartSink = {
  /** Part `index` (from 0) of a message begins. */
  begin(index: number, byteCount: number, isLast: boolean): PartFate;
  /** The part is at `bytes[at … at + byteCount)`, valid until this returns. */
  whole(bytes: Uint8Array, at: number, byteCount: number): void;
  /**
   * Where the next bytes of a streamed part go. Never empty. Longer than the rest of the part by up to `aheadBytes` if
   * that much memory after it may be written (ZmtpReader.Z6).
   */
  view(aheadBytes: number): Uint8Array;
  streamed(byteCount: number): void;
};

export type ZmtpSink = PartSink & {
  /** The peer sent a valid greeting. */
  greeted(): void;
  command(name: string, body: Uint8Array): void;
  /** Called before each message; false holds the reader (ZmtpReader.Z3). */
  mayBegin(): boolean;
};

type State = "greeting" | "header" | "whole" | "gather" | "stream" | "skip";

export class ZmtpReader {
  readonly #sink: ZmtpSink;
  #buffer: Uint8Array = new Uint8Array(1024);
  #start = 0;
  #fill = 0;
  #state: State = "greeting";
  #part = 0;
  #isLast = true;
  #isCommand = false;
  /** Bytes of the part that are still to come, and of all of it. */
  #left = 0;
  #byteCount = 0;
  #gathered: Uint8Array = EMPTY;
  /** The memory of the last view (ZmtpReader.Z4). */
  #given: "buffer" | "gather" | "stream" = "buffer";
  #streamView: Uint8Array = EMPTY;
  /** True while messages with long streamed parts follow each other. */
  #bulk = false;
  #hasStreamed = false;
  #isHeld = false;

  constructor(sink: ZmtpSink) {
    this.#sink = sink;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Whether the stream would end inside a message if it ended now. */
  get isInsideMessage(): boolean {
    return this.#part > 0 || this.#state !== "header" || this.#fill > this.#start;
  }

  view(): Uint8Array {
    if (this.#fill === this.#start) {
      if (this.#state === "stream") {
        this.#given = "stream";
        this.#streamView = limited(this.#sink.view(AHEAD_BYTES), this.#left + AHEAD_BYTES);
        return this.#streamView;
      }
      if (this.#state === "gather") {
        this.#given = "gather";
        return this.#gatherRoom();
      }
      this.#start = 0;
      this.#fill = 0;
    }
    this.#given = "buffer";
    if (this.#fill === this.#buffer.length || this.#needed() > this.#buffer.length - this.#start) this.#makeRoom();
    const end = this.#bulk ? Math.min(this.#buffer.length, this.#fill + EARLY_BYTES) : this.#buffer.length;
    return this.#buffer.subarray(this.#fill, end);
  }

  received(byteCount: number): void {
    if (this.#given === "stream") {
      const partBytes = Math.min(byteCount, this.#left);
      if (byteCount > partBytes) this.#takeAhead(partBytes, byteCount);
      this.#left -= partBytes;
      if (this.#left === 0) this.#endPart();
      this.#sink.streamed(partBytes);
    } else if (this.#given === "gather") {
      this.#left -= byteCount;
      if (this.#left === 0) this.#endWhole(this.#gathered, 0);
    } else {
      this.#fill += byteCount;
    }
    this.#cut();
  }

  /** ZmtpReader.Z6 */
  #takeAhead(from: number, to: number): void {
    if (this.#buffer.length < AHEAD_BYTES) this.#buffer = new Uint8Array(AHEAD_BYTES);
    this.#buffer.set(this.#streamView.subarray(from, to));
    this.#start = 0;
    this.#fill = to - from;
  }

  /** Handles what waited while the reader was held. */
  goOn(): void {
    this.#isHeld = false;
    this.#cut();
  }

  #cut(): void {
    while (this.#step());
  }

  /** Handles one complete item in the buffer; false if there is none. */
  #step(): boolean {
    const available = this.#fill - this.#start;
    switch (this.#state) {
      case "greeting":
        return this.#takeGreeting(available);
      case "header":
        return this.#takeHeader(available);
      case "whole":
        if (available < this.#left) return this.#startGathering();
        this.#start += this.#left;
        this.#endWhole(this.#buffer, this.#start - this.#byteCount);
        return true;
      case "gather":
        return false;
      case "stream":
        return available > 0 && this.#copyStream(available);
      case "skip":
        return available > 0 && this.#skip(available);
    }
  }

  #takeGreeting(available: number): boolean {
    if (available > 0 && this.#buffer[this.#start] !== 0xff) throw badZmtp("the connection does not begin as ZeroMQ's do");
    if (available < GREETING_BYTES) return false;
    checkGreeting(this.#buffer.subarray(this.#start, this.#start + GREETING_BYTES));
    this.#start += GREETING_BYTES;
    this.#state = "header";
    this.#sink.greeted();
    return true;
  }

  #takeHeader(available: number): boolean {
    if (available < 2) return false;
    const buffer = this.#buffer;
    const flags = buffer[this.#start] as number;
    const isLong = (flags & ZmtpFlag.LONG) !== 0;
    if (isLong && available < FRAME_HEADER_BYTES_MAX) return false;
    const isCommand = (flags & ZmtpFlag.COMMAND) !== 0;
    if (!isCommand && this.#part === 0 && !this.#sink.mayBegin()) {
      this.#isHeld = true;
      return false;
    }
    if ((flags & ~7) !== 0) throw badZmtp(`a frame with the flags 0x${flags.toString(16)}`);
    const byteCount = isLong ? readLongLength(buffer, this.#start + 1) : (buffer[this.#start + 1] as number);
    this.#start += isLong ? FRAME_HEADER_BYTES_MAX : 2;
    this.#isCommand = isCommand;
    this.#byteCount = byteCount;
    this.#left = byteCount;
    if (isCommand) {
      if (byteCount > COMMAND_BYTES_MAX) throw badZmtp(`a command of ${byteCount} bytes`);
      this.#state = "whole";
      return true;
    }
    this.#isLast = (flags & ZmtpFlag.MORE) === 0;
    const fate = this.#sink.begin(this.#part, byteCount, this.#isLast);
    this.#state = byteCount === 0 && fate === "stream" ? "whole" : fate;
    if (this.#state === "stream" && byteCount > EARLY_BYTES) this.#hasStreamed = true;
    if (byteCount === 0 && fate === "skip") this.#endPart();
    return true;
  }

  #endWhole(bytes: Uint8Array, at: number): void {
    const byteCount = this.#byteCount;
    if (this.#isCommand) {
      this.#state = "header";
      const { name, body } = decodeCommand(bytes.slice(at, at + byteCount));
      this.#sink.command(name, body);
      return;
    }
    this.#endPart();
    this.#sink.whole(bytes, at, byteCount);
    this.#gathered = EMPTY;
  }

  #endPart(): void {
    this.#state = "header";
    this.#part = this.#isLast ? 0 : this.#part + 1;
    if (!this.#isLast) return;
    this.#bulk = this.#hasStreamed;
    this.#hasStreamed = false;
  }

  #copyStream(available: number): boolean {
    const view = limited(this.#sink.view(0), Math.min(available, this.#left));
    view.set(this.#buffer.subarray(this.#start, this.#start + view.length));
    this.#start += view.length;
    this.#left -= view.length;
    if (this.#left === 0) this.#endPart();
    this.#sink.streamed(view.length);
    return true;
  }

  #skip(available: number): boolean {
    const byteCount = Math.min(available, this.#left);
    this.#start += byteCount;
    this.#left -= byteCount;
    if (this.#left === 0) this.#endPart();
    return true;
  }

  /** A part that does not fit the buffer gets memory of its own. */
  #startGathering(): boolean {
    if (this.#left <= BUFFER_BYTES) return false;
    const available = this.#fill - this.#start;
    this.#gathered = new Uint8Array(Math.min(this.#left, Math.max(GATHER_STEP_BYTES, available)));
    this.#gathered.set(this.#buffer.subarray(this.#start, this.#fill));
    this.#start = this.#fill;
    this.#left -= available;
    this.#state = "gather";
    return false;
  }

  /** ZmtpReader.Z5 */
  #gatherRoom(): Uint8Array {
    const fill = this.#byteCount - this.#left;
    if (fill === this.#gathered.length) {
      const grown = new Uint8Array(Math.min(this.#byteCount, 2 * fill));
      grown.set(this.#gathered);
      this.#gathered = grown;
    }
    return this.#gathered.subarray(fill);
  }

  /** How many bytes from `start` on must fit the buffer. */
  #needed(): number {
    return this.#state === "whole" ? this.#left : GREETING_BYTES;
  }

  #makeRoom(): void {
    const kept = this.#buffer.subarray(this.#start, this.#fill);
    assert(this.#left <= BUFFER_BYTES || this.#state !== "whole", "longer parts are gathered");
    const isTight = kept.length > this.#buffer.length / 2 || this.#needed() > this.#buffer.length;
    if (isTight) {
      const grown = new Uint8Array(Math.max(BUFFER_BYTES, this.#buffer.length * 2));
      grown.set(kept);
      this.#buffer = grown;
    } else this.#buffer.copyWithin(0, this.#start, this.#fill);
    this.#fill = kept.length;
    this.#start = 0;
  }
}

function limited(view: Uint8Array, byteCount: number): Uint8Array {
  return view.length > byteCount ? view.subarray(0, byteCount) : view;
}
