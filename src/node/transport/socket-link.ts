// socket-link — a Link over one connected socket, TCP or unix. Making and accepting sockets is SocketTransport's work.
//
// Node's `onread` reads input straight into the reader's views. Node chooses the view of the next read right after the
// callback of the previous one, and the very first one before there is a reader. Therefore:
//   SocketLink.S1. The first read goes to a small buffer of the link and is copied; later ones land in the reader's
//       view.
//   SocketLink.S2. After `close` nothing is read into the view that was chosen before it: its owner may use that memory
//       again. Input that still arrives is read into the link's own buffer and dropped, because the system resets a
//       socket that is closed over unread input, and the reset would overtake the last bytes we wrote.
//   SocketLink.S3. The stream gets chunks when it can pass them to the system at once: while they wait here their
//       memory may go, which is checked right before (Link.L6).
//
// Small writes go to the socket's handle itself (HandleWriter): one costs the system about 5 µs, and the stream above
// the handle another 2 µs for state that a link keeps anyway. It uses what Node does not document: `writeBuffer` of the
// handle, and the request object of a write, taken from the stream's first write. Both exist since Node 12. Where one
// is missing the stream writes.
//   SocketLink.S4. Bytes leave in the order of the calls: nothing is written here while the stream holds writes back.
//   SocketLink.S5. A buffer stays untouched and alive until `write` returned true or `done` was called.
//   SocketLink.S6. A request is used again only if the system took its bytes at once, in the first try. After a second
//       try the request is Node's until `oncomplete`: its async id shows that, the length of the queue does not.
//   open ── close() ──> closing ── all written and the peer's end seen, or LINGER_MS later ──> closed
//     └── destroy(), a throw out of the reader, the peer's end, a socket error ───────────────> closed

import type net from "node:net";
import { getSystemErrorName } from "node:util";
import { AssertionError, assert } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { RingQueue } from "../../base/ring-queue.ts";
import { chunksWithBytes, hasEmptyChunk, type Link, type LinkReader, lostChunk } from "../../transport/transport.ts";
import type { WakefulLoop } from "./wakeful-loop.ts";

/** How long a closed link waits for the other side's end after its own last byte was handed to the system. */
const LINGER_MS = 1000;
const FIRST_READ_BYTES = 64;
const DROP_BYTES = 16 * 1024;
const EMPTY = Buffer.alloc(0);
/** Writes up to this size are likely taken by the system at once. */
const SMALL_WRITE_BYTES = 16 * 1024;

/** What Node has on a socket's handle but does not document: where the next read goes. Since Node 12. */
type ReadingHandle = { useUserBuffer(view: Uint8Array): void };

export type SocketLinkOptions = {
  readonly remote: string;
  readonly clock: Clock;
  /** Called for every read; of a sleepy link only while it is set wakeful. */
  readonly loop?: WakefulLoop | undefined;
  readonly isSleepy?: boolean | undefined;
  /** Makes the socket, with this `onread`. */
  readonly open: (onread: net.OnReadOpts) => net.Socket;
};

export class SocketLink implements Link {
  readonly remote: string;
  readonly socket: net.Socket;
  readonly #clock: Clock;
  readonly #loop: WakefulLoop | undefined;
  #isSleepy: boolean;
  /** One per write not yet flushed; the system takes writes in order, so one shared callback serves all. */
  readonly #unflushed = new RingQueue<() => void>();
  /** The chunk written last, and the Buffer that Node would make of it anew: small writes repeat themselves. */
  #chunk: Uint8Array = EMPTY;
  #buffer: Buffer = EMPTY;
  #handleWriter: HandleWriter | undefined;
  /** Writes behind one that the system has not taken yet (SocketLink.S3). */
  readonly #waiting = new RingQueue<{ readonly chunks: readonly Uint8Array[]; readonly flushed: () => void }>();
  #reader: LinkReader | undefined;
  #state: "open" | "closing" | "closed" = "open";
  /** Where the next read goes. */
  #view: Uint8Array = new Uint8Array(FIRST_READ_BYTES);
  #firstRead = true;
  #cause: Error | undefined;
  #cancelLinger: CancelTimer | undefined;

  constructor({ remote, clock, loop, isSleepy = false, open }: SocketLinkOptions) {
    this.remote = remote;
    this.#clock = clock;
    this.#loop = loop;
    this.#isSleepy = isSleepy;
    this.socket = open({
      buffer: () => this.#view,
      callback: (byteCount) => {
        if (!this.#isSleepy) this.#loop?.input();
        this.#take(byteCount);
        return true;
      },
    });
    this.socket.on("error", (error) => this.#failed(error));
    this.socket.on("end", () => this.#ended());
    this.socket.on("close", () => this.#closed());
  }

  /** Sets the reader, in the turn in which the socket was accepted or connected: before anything was read. */
  start(reader: LinkReader): void {
    assert(this.#reader === undefined, "a link has one reader");
    this.#reader = reader;
    HandleWriter.watch(
      this.socket,
      () => this.#written(),
      (writer) => {
        this.#handleWriter = writer;
      },
    );
  }

  write(written: readonly Uint8Array[], flushed: () => void): void {
    if (this.#state !== "open") {
      this.#clock.soon(flushed);
      return;
    }
    if (!this.#isSleepy) this.#loop?.asked();
    const chunks = written.length === 1 && written[0]!.length > 0 ? written : chunksWithBytes(written);
    if (this.#waiting.length > 0 || this.socket.writableLength > 0) this.#waiting.push({ chunks, flushed });
    else this.#handOver(chunks, flushed);
  }

  #handOver(chunks: readonly Uint8Array[], flushed: () => void): void {
    const first = chunks[0] ?? EMPTY;
    if (chunks.length <= 1 && first.length > 0) {
      this.#writeOne(first, flushed);
      return;
    }
    if (hasEmptyChunk(chunks)) {
      this.#clock.soon(flushed);
      this.#abort(lostChunk()); // Link.L6
      return;
    }
    const { socket } = this;
    const wasIdle = socket.writableLength === 0;
    socket.cork();
    for (const chunk of chunks) socket.write(chunk);
    socket.uncork();
    this.#whenFlushed(wasIdle, flushed);
  }

  #handOverWaiting(): void {
    while (this.#waiting.length > 0 && this.#state !== "closed" && this.socket.writableLength === 0) {
      const write = this.#waiting.shift();
      if (write !== undefined) this.#handOver(write.chunks, write.flushed);
    }
  }

  /** What the system took at once needs no callback, which costs a tick; else an empty write behind it has one. */
  #whenFlushed(wasIdle: boolean, flushed: () => void): void {
    const { socket } = this;
    if (wasIdle && socket.writableLength === 0) {
      flushed();
      return;
    }
    this.#unflushed.push(flushed);
    socket.write(EMPTY, this.#written);
  }

  #writeOne(chunk: Uint8Array, flushed: () => void): void {
    const { socket } = this;
    if (chunk.length > SMALL_WRITE_BYTES || socket.writableLength > 0) {
      this.#unflushed.push(flushed);
      socket.write(chunk, this.#written);
      return;
    }
    if (chunk !== this.#chunk) {
      this.#chunk = chunk;
      this.#buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    }
    const writer = this.#handleWriter;
    if (writer?.isFree === true) {
      if (writer.write(this.#buffer)) flushed();
      else this.#unflushed.push(flushed);
      return;
    }
    socket.write(this.#buffer);
    this.#whenFlushed(true, flushed);
  }

  pause(): void {
    if (this.#state === "open") this.socket.pause();
  }

  resume(): void {
    if (this.#state === "open") this.socket.resume();
  }

  setWakeful(isWakeful: boolean): void {
    this.#isSleepy = !isWakeful;
  }

  close(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#dropInput();
    while (this.#waiting.length > 0 && !this.#isClosed()) {
      const write = this.#waiting.shift();
      // the stream keeps them in order until its end
      if (write !== undefined) this.#handOver(write.chunks, write.flushed);
    }
    if (this.#isClosed()) return;
    this.socket.once("finish", () => {
      this.#cancelLinger = this.#clock.after(LINGER_MS, () => this.socket.destroy());
    });
    this.socket.resume();
    this.socket.end();
  }

  destroy(): void {
    this.#abort(undefined);
  }

  /** Node calls this once per write, in order. The close flushes writes that fail, or come after the end (Link.L3). */
  readonly #written = (error?: Error | null): void => {
    const failed = error !== undefined && error !== null;
    if (failed || this.#state === "closed") return;
    this.#unflushed.shift()?.();
    if (this.#waiting.length > 0) this.#handOverWaiting();
  };

  #take(byteCount: number): void {
    const reader = this.#reader;
    if (this.#state !== "open") return;
    try {
      if (reader === undefined) throw new AssertionError("the reader is named before anything is read");
      if (this.#firstRead) this.#takeFirst(reader, byteCount);
      else reader.received(byteCount);
      if (this.#isOpen()) this.#view = viewOf(reader);
    } catch (thrown) {
      this.#abort(thrown instanceof Error ? thrown : new Error(String(thrown))); // Link.L5
    }
  }

  #takeFirst(reader: LinkReader, byteCount: number): void {
    this.#firstRead = false;
    let bytes = this.#view.subarray(0, byteCount);
    while (bytes.length > 0 && this.#isOpen()) {
      const view = viewOf(reader);
      const fitting = bytes.subarray(0, view.length);
      view.set(fitting);
      reader.received(fitting.length);
      bytes = bytes.subarray(fitting.length);
    }
  }

  /** A method, because the reader may have closed the link in between. */
  #isOpen(): boolean {
    return this.#state === "open";
  }

  #isClosed(): boolean {
    return this.#state === "closed";
  }

  /** The next bytes go elsewhere than the reader said last, to its view of now. Not before the first read. */
  renewView(): void {
    if (this.#reader !== undefined && this.#isOpen()) this.#readInto(viewOf(this.#reader));
  }

  /** SocketLink.S2. */
  #dropInput(): void {
    this.#readInto(new Uint8Array(DROP_BYTES));
  }

  #readInto(view: Uint8Array): void {
    this.#view = view;
    const { _handle: handle } = this.socket as unknown as { _handle: ReadingHandle | null };
    handle?.useUserBuffer(this.#view);
  }

  #abort(cause: Error | undefined): void {
    if (this.#state === "closed") return;
    // A reset shows the other side that something is missing. Once all is written and the end has left, nothing is.
    const reset = this.socket.remoteAddress !== undefined && (this.#state === "open" || this.socket.writableLength > 0);
    this.#state = "closed";
    this.#cause = cause;
    if (this.socket.destroyed) return;
    if (reset) this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  #failed(error: Error): void {
    // After a close in which everything was written, the other side's reset is only its way of ending.
    if (this.#state === "open" || (this.#state === "closing" && !this.socket.writableFinished)) this.#cause = error;
    this.#state = "closed";
  }

  /** The other side writes no more: in our protocol it reads no more either, so this is a close. */
  #ended(): void {
    this.#state = "closed";
    this.socket.destroy();
  }

  #closed(): void {
    this.#state = "closed";
    this.#cancelLinger?.();
    for (let flushed = this.#unflushed.shift(); flushed !== undefined; flushed = this.#unflushed.shift()) flushed();
    for (let write = this.#waiting.shift(); write !== undefined; write = this.#waiting.shift()) write.flushed();
    this.#reader?.closed(this.#cause);
  }
}

function viewOf(reader: LinkReader): Uint8Array {
  const view = reader.view();
  if (view.length === 0) throw new AssertionError("a view has room for at least one byte (Link.L2)");
  return view;
}

/** The request of one write that the system did not take at once. */
type WriteRequest = {
  oncomplete: (status: number) => void;
  buffer: Uint8Array | undefined;
  /** NO_ID unless the write is under way. */
  getAsyncId(): number;
};
type WriteRequestConstructor = new () => WriteRequest;

const NO_ID = -1;

type WritingHandle = {
  /** Returns 0 or a system error. Bytes that are not taken at once are queued; the request's `oncomplete` follows. */
  writeBuffer: (this: WritingHandle, request: WriteRequest, bytes: Uint8Array) => number;
};

export class HandleWriter {
  readonly #socket: net.Socket;
  readonly #handle: WritingHandle;
  readonly #done: () => void;
  readonly #newRequest: WriteRequestConstructor;
  /** Ready for the next write; a write that the system takes at once leaves it as it is. */
  #request: WriteRequest;

  private constructor(socket: net.Socket, handle: WritingHandle, newRequest: WriteRequestConstructor, done: () => void) {
    this.#socket = socket;
    this.#handle = handle;
    this.#newRequest = newRequest;
    this.#done = done;
    this.#request = this.#nextRequest();
  }

  /** Calls `made` with a writer at the stream's next write, if possible. `done` is for writes that return false. */
  static watch(socket: net.Socket, done: () => void, made: (writer: HandleWriter) => void): void {
    const { _handle: handle } = socket as unknown as { _handle: Partial<WritingHandle> | null };
    if (handle === null || typeof handle.writeBuffer !== "function") return;
    const watched = handle as WritingHandle;
    const { writeBuffer } = watched;
    watched.writeBuffer = (request, bytes) => {
      watched.writeBuffer = writeBuffer;
      if (typeof request.getAsyncId === "function")
        made(new HandleWriter(socket, watched, request.constructor as WriteRequestConstructor, done));
      return watched.writeBuffer(request, bytes);
    };
  }

  /** Whether the stream holds nothing back that would have to leave first (SocketLink.S4). */
  get isFree(): boolean {
    return this.#socket.writableLength === 0 && this.#socket.writable;
  }

  /**
   * Only while `isFree`. True: the system took all. False: it will, and `done` is called unless the socket is
   * destroyed.
   */
  write(bytes: Buffer): boolean {
    const request = this.#request;
    request.buffer = bytes;
    const status = this.#handle.writeBuffer(request, bytes);
    if (status === 0 && request.getAsyncId() === NO_ID) return true; // SocketLink.S6
    this.#request = this.#nextRequest();
    if (status !== 0) this.#failed(status);
    return false;
  }

  #nextRequest(): WriteRequest {
    const request = new this.#newRequest();
    request.oncomplete = (status) => {
      if (status === 0) this.#done();
      else this.#failed(status);
    };
    return request;
  }

  #failed(status: number): void {
    this.#socket.destroy(new Error(`write ${getSystemErrorName(status)}`));
  }
}
