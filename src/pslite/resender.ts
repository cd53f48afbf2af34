// resender — PS_RESEND: every message is kept until the other node has acknowledged it, and resent when that takes too
// long. It also acknowledges received messages and drops repeated ones. All nodes of a cluster must agree on it.
//
// Invariants:
//   Resender.R1. Messages are kept as copies: their sources may change once their request has ended.
//   Resender.R2. After RETRIES_MAX attempts without an acknowledgement the node counts as unreachable: what is open
//       with it fails, naming it.
//   Resender.R3. A message is acknowledged once all of it has arrived: one that breaks off is resent, and is read then.
//   Resender.R4. What is kept for a node and not acknowledged is bounded: above KEPT_BYTES_MAX the writer waits
//       (`whenRoom`), as for a full socket.

import type { CancelTimer, Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Conversation } from "./conversation.ts";
import { byteCountOf } from "./message-batch.ts";
import { SeenMessages } from "./seen-messages.ts";
import { PsCommand, PsMeta, signatureOf } from "./wire/ps-meta.ts";

type Entry = {
  readonly conversation: Conversation;
  readonly chunks: readonly Uint8Array[];
  readonly byteCount: number;
  readonly what: string;
  sentAtMs: number;
  retryCount: number;
};

/** What one node has not acknowledged, and the writers that wait for room. */
type Unacknowledged = { byteCount: number; readonly waiting: (() => void)[] };

const RETRIES_MAX = 10;
export const KEPT_BYTES_MAX: number = 64 * 1024 * 1024;

export class Resender {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timeoutMs: number;
  readonly #selfId: () => number;
  readonly #sent = new Map<string, Entry>();
  readonly #unacknowledged = new Map<Conversation, Unacknowledged>();
  readonly #seen = new Map<Conversation, SeenMessages>();
  readonly #ack = new PsMeta();
  #cancelTimer: CancelTimer | undefined;
  #isClosed = false;

  constructor(options: { readonly clock: Clock; readonly log: Log; readonly timeoutMs: number; readonly selfId: () => number }) {
    this.#clock = options.clock;
    this.#log = options.log;
    this.#timeoutMs = options.timeoutMs;
    this.#selfId = options.selfId;
  }

  /** Sends the message in the batch of the conversation's outgoing connection, and keeps it. */
  sent(meta: PsMeta, conversation: Conversation): void {
    const { outgoing } = conversation;
    if (outgoing === undefined || !isAcknowledged(meta) || meta.command === PsCommand.ADD_NODE) return;
    const taken = outgoing.batch.take();
    const chunks = taken.chunks.map((chunk) => chunk.slice()); // Resender.R1
    taken.release();
    const byteCount = byteCountOf(chunks);
    this.#keep(this.#keyOf(meta, this.#selfId(), conversation.node), {
      conversation,
      chunks,
      byteCount,
      what: meta.toString(),
      sentAtMs: this.#clock.nowMs(),
      retryCount: 0,
    });
    outgoing.writeAgain(chunks);
    this.#arm();
  }

  /** Bytes that are kept for this node. */
  keptBytes(conversation: Conversation): number {
    return this.#unacknowledged.get(conversation)?.byteCount ?? 0;
  }

  /** Calls `run` once there is room for more (Resender.R4). */
  whenRoom(conversation: Conversation, run: () => void): void {
    const unacknowledged = this.#unacknowledged.get(conversation);
    if (unacknowledged === undefined || unacknowledged.byteCount <= KEPT_BYTES_MAX) run();
    else unacknowledged.waiting.push(run);
  }

  #keep(key: string, entry: Entry): void {
    this.#drop(key); // of a signature that was used before
    this.#sent.set(key, entry);
    const { conversation, byteCount } = entry;
    const unacknowledged = this.#unacknowledged.get(conversation);
    if (unacknowledged === undefined) this.#unacknowledged.set(conversation, { byteCount, waiting: [] });
    else unacknowledged.byteCount += byteCount;
  }

  #drop(key: string): void {
    const entry = this.#sent.get(key);
    if (entry === undefined) return;
    this.#sent.delete(key);
    const unacknowledged = this.#unacknowledged.get(entry.conversation);
    if (unacknowledged === undefined) return;
    unacknowledged.byteCount -= entry.byteCount;
    if (unacknowledged.byteCount <= KEPT_BYTES_MAX) for (const run of unacknowledged.waiting.splice(0)) this.#clock.soon(run);
  }

  /**
   * A message begins. Returns true if it is to be skipped: an acknowledgement itself, or a repeated message, which is
   * acknowledged again.
   */
  isLeftOut(meta: PsMeta, conversation: Conversation): boolean {
    if (meta.command === PsCommand.ACK) {
      this.#drop(`${meta.signature.high}/${meta.signature.low}/${conversation.node}`);
      return true;
    }
    if (!isAcknowledged(meta) || this.#selfId() === 0 || this.#seen.get(conversation)?.isSeen(meta) !== true) return false;
    this.#acknowledge(meta, conversation);
    return true;
  }

  /** All of a message has arrived (Resender.R3). */
  taken(meta: PsMeta, conversation: Conversation): void {
    if (!isAcknowledged(meta) || this.#selfId() === 0) return;
    let seen = this.#seen.get(conversation);
    if (seen === undefined) {
      seen = new SeenMessages();
      this.#seen.set(conversation, seen);
    }
    seen.add(meta);
    this.#acknowledge(meta, conversation);
  }

  #acknowledge(meta: PsMeta, conversation: Conversation): void {
    const ack = this.#ack.reset();
    ack.command = PsCommand.ACK;
    ack.signature = signatureOf(meta, conversation.node, this.#selfId());
    conversation.sendMessage(ack);
  }

  /** The node has a new incarnation, or is gone: forgets what was sent to it. */
  forget(conversation: Conversation): void {
    this.#seen.delete(conversation);
    for (const [key, entry] of this.#sent) if (entry.conversation === conversation) this.#drop(key);
    this.#unacknowledged.delete(conversation);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
    for (const key of [...this.#sent.keys()]) this.#drop(key);
  }

  #keyOf(meta: PsMeta, sender: number, receiver: number): string {
    const { high, low } = signatureOf(meta, sender, receiver);
    return `${high}/${low}/${receiver}`;
  }

  #arm(): void {
    if (this.#cancelTimer !== undefined || this.#isClosed) return;
    this.#cancelTimer = this.#clock.after(this.#timeoutMs, () => {
      this.#cancelTimer = undefined;
      this.#resendOverdue();
      if (this.#sent.size > 0) this.#arm();
    });
  }

  #resendOverdue(): void {
    const nowMs = this.#clock.nowMs();
    for (const [key, entry] of this.#sent) {
      if (nowMs < entry.sentAtMs + this.#timeoutMs * (1 + entry.retryCount)) continue;
      if (++entry.retryCount > RETRIES_MAX) {
        this.#giveUp(key, entry);
        continue;
      }
      this.#log.debug("a message was not acknowledged, and is sent again", {
        node: entry.conversation.name,
        retry: entry.retryCount,
        what: entry.what,
      });
      entry.conversation.outgoing?.writeAgain(entry.chunks);
    }
  }

  /** Resender.R2 */
  #giveUp(key: string, { conversation, what }: Entry): void {
    this.#drop(key);
    const reason = `no acknowledgement after ${RETRIES_MAX} tries: is PS_RESEND set on all nodes?`;
    this.#log.error("a message was not acknowledged", { node: conversation.name, what, reason });
    conversation.connectionBroke(new Error(reason));
  }
}

function isAcknowledged({ command }: PsMeta): boolean {
  return command !== PsCommand.ACK && command !== PsCommand.TERMINATE;
}
