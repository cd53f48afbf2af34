// throttled-link — a TCP link of a given speed and latency between two addresses of this machine: takes connections at
// one, and passes their bytes on to the other, each way as a wire would. In a thread of its own, so that the program
// whose link it is does not disturb it.
//
//   a chunk arrives at t, and the wire is free at f:   it is on the wire from max(t, f) for bytes / bytesPerMs,
//   and passed on `latencyMs` after that. Reading pauses while more than QUEUED_BYTES_MAX wait: the sender is held
//   back.

import { once } from "node:events";
import { createServer, connect as dial, type Socket } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

export type LinkOptions = {
  /** Where connections come in, and where they go. */
  readonly from: { readonly host: string; readonly port: number };
  readonly to: { readonly host: string; readonly port: number };
  readonly latencyMs: number;
  readonly bytesPerMs: number;
};

/** Enough to keep the wire busy between two ticks of a machine that has other things to do. */
const QUEUED_BYTES_MAX = 256 * 1024;
const TICK_MS = 1;

export class ThrottledLink implements AsyncDisposable {
  readonly #thread: Worker;

  private constructor(thread: Worker) {
    this.#thread = thread;
  }

  static async open(options: LinkOptions): Promise<ThrottledLink> {
    const thread = new Worker(new URL(import.meta.url), { workerData: options });
    await once(thread, "message"); // it listens; rejects with what the thread throws
    return new ThrottledLink(thread);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread.terminate();
  }
}

type Waiting = { readonly bytes: Buffer; readonly atMs: number };

function pass(from: Socket, to: Socket, { latencyMs, bytesPerMs }: LinkOptions): void {
  const queue: Waiting[] = [];
  let queuedBytes = 0;
  let freeAtMs = 0;
  const send = (): void => {
    while (queue[0] !== undefined && queue[0].atMs <= performance.now()) {
      const { bytes } = queue.shift() as Waiting;
      queuedBytes -= bytes.length;
      to.write(bytes);
    }
    if (queuedBytes < QUEUED_BYTES_MAX + latencyMs * bytesPerMs) from.resume(); // what is under way is not queued
  };
  const timer = setInterval(send, TICK_MS);
  from.on("data", (bytes) => {
    freeAtMs = Math.max(performance.now(), freeAtMs) + bytes.length / bytesPerMs;
    queue.push({ bytes: bytes as Buffer, atMs: freeAtMs + latencyMs });
    queuedBytes += bytes.length;
    if (queuedBytes >= QUEUED_BYTES_MAX + latencyMs * bytesPerMs) from.pause();
  });
  from.on("error", () => to.destroy());
  from.on("close", () => {
    clearInterval(timer);
    to.destroy();
  });
}

function listen(options: LinkOptions): void {
  const { from, to } = options;
  const server = createServer({ noDelay: true }, (incoming) => {
    const outgoing = dial({ ...to, noDelay: true });
    pass(incoming, outgoing, options);
    pass(outgoing, incoming, options);
  });
  server.listen(from, () => parentPort?.postMessage("listens"));
}

if (!isMainThread) listen(workerData as LinkOptions);
