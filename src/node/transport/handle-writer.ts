// handle-writer — writes to a socket's handle itself. A small write costs the system about 5 µs, and the stream above the handle another 2 µs
// for state that a link keeps anyway: its queue, its callbacks, a tick for each.
//
// Node does not list what this uses: `writeBuffer` of the handle, and the request object that a write takes, which is seen in the stream's own
// first write. All are there since Node 12. Where one of them is missing there is no writer, and the stream writes.
//
// Invariants:
//   W1. Bytes leave in the order of the calls, also among the stream's own writes: those that the stream still holds back forbid ours.
//   W2. A buffer stays untouched, and alive, until `write` returned true or `done` was called.
//   W3. A request is used again only if the system took its bytes at once, in the first try. What it took in a second try, right after, does not
//       wait any more, but the request is Node's until `oncomplete`: its async id tells, the length of the queue does not.

import type net from "node:net";
import { getSystemErrorName } from "node:util";

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
  /** 0, or a system error. Bytes that are not taken at once are queued, and `oncomplete` of the request is called when they are. */
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

  /** Calls `made` with a writer at the stream's next write, if there can be one. `done` is for writes that return false. */
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

  /** Whether the stream holds nothing back that would have to leave first (W1). */
  get isFree(): boolean {
    return this.#socket.writableLength === 0 && this.#socket.writable;
  }

  /** Only while `isFree`. True: the system has taken all of it. False: it will, and `done` tells; or the socket is destroyed, and nothing does. */
  write(bytes: Buffer): boolean {
    const request = this.#request;
    request.buffer = bytes;
    const status = this.#handle.writeBuffer(request, bytes);
    if (status === 0 && request.getAsyncId() === NO_ID) return true; // W3
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
