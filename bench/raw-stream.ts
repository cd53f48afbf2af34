// raw-stream — what the raw client and the raw server share: a flow of requests and replies without a protocol.
// Both ends only count bytes. Every `requestBytes` received owe `replyBytes`, so one pair of programs plays push (large
// request, small reply), pull (the reverse) and ping-pong. Not a transport: no headers, no errors, nothing is looked
// at.

import type { Socket } from "node:net";

/** The size of a request or a reply that carries no values. */
export const EMPTY_MESSAGE_BYTES = 64;

/** For `writesInFlight`: as many as there are. A number, because plans travel as JSON. */
export const UNLIMITED_WRITES: number = 1 << 30;

export type RawFlow = { readonly requestBytes: number; readonly replyBytes: number; readonly window: number };

/** How the bytes of a flow are moved: what a plain program can choose. The best plan for a flow is its ceiling. */
export type RawPlan = {
  /** The size of the buffer that `onread` reads into. */
  readonly readBytes: number;
  /** The most bytes handed over in one write; smaller messages that are due together are joined. */
  readonly writeBytes: number;
  /** How many writes may be unfinished at once. */
  readonly writesInFlight: number;
  /** Whether the writes of one flush are corked into one writev. */
  readonly cork: boolean;
  /** "read": write inside the read callback. "turn": write once per turn of the event loop, after all reads. */
  readonly flush: "read" | "turn";
};

export function describePlan({ readBytes, writeBytes, writesInFlight, cork, flush }: RawPlan): string {
  const inFlight = writesInFlight === UNLIMITED_WRITES ? "any number" : `${writesInFlight}`;
  return `reads ${readBytes >> 10} KiB, writes ${writeBytes >> 10} KiB${cork ? " corked" : ""}, ${inFlight} in flight, flushed per ${flush}`;
}

/**
 * Writes owed bytes out of one fixed source the size of a message, so that it reads the same memory as a real sender of
 * such messages.
 */
export class RawSender {
  readonly #socket: Socket;
  readonly #plan: RawPlan;
  readonly #source: Buffer;
  #sourceAt = 0;
  #owedBytes = 0;
  #unfinished = 0;
  #scheduled = false;

  constructor({ socket, plan, messageBytes }: { socket: Socket; plan: RawPlan; messageBytes: number }) {
    this.#socket = socket;
    this.#plan = plan;
    this.#source = Buffer.alloc(Math.max(messageBytes, plan.writeBytes), 1);
  }

  owe(bytes: number): void {
    this.#owedBytes += bytes;
    if (this.#plan.flush === "read") this.#flush();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#flush);
    }
  }

  readonly #flush = (): void => {
    this.#scheduled = false;
    const { cork, writesInFlight } = this.#plan;
    if (cork) this.#socket.cork();
    while (this.#owedBytes > 0 && this.#unfinished < writesInFlight) this.#write();
    if (cork) this.#socket.uncork();
  };

  #write(): void {
    const bytes = Math.min(this.#owedBytes, this.#plan.writeBytes, this.#source.length - this.#sourceAt);
    const chunk = this.#source.subarray(this.#sourceAt, this.#sourceAt + bytes);
    this.#sourceAt = (this.#sourceAt + bytes) % this.#source.length;
    this.#owedBytes -= bytes;
    if (this.#plan.writesInFlight === UNLIMITED_WRITES) {
      this.#socket.write(chunk);
      return;
    }
    this.#unfinished++;
    this.#socket.write(chunk, this.#finished);
  }

  readonly #finished = (): void => {
    this.#unfinished--;
    if (this.#owedBytes > 0) this.#flush();
  };
}
