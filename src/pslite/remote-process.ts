// remote-process — a process that speaks ps-lite's protocol, at one host and port: our outgoing connection to it and
// its connections to us. A process with several customers is several nodes, each with its conversation.
//
// Invariants:
//   RemoteProcess.B1. A process that is kept is dialed again every REDIAL_MS until it answers. It always has an
//       outgoing connection: what is sent while that waits leaves once it is up, so that an answer is not lost between
//       two connections; what waits for a dial that fails is dropped.
//   RemoteProcess.B2. `gone` is called when its outgoing connection is down and none of its incoming connections is
//       open, once each time.
//   RemoteProcess.B3. It is dialed at most once in REDIAL_MS, and less and less often while it ends every connection
//       within SHORT_MS; only `renewOutgoing` does not wait: it is called once for a node.
//   RemoteProcess.B4. Messages to a process that is kept and not reachable leave once it is, the first HELD_MAX, as in
//       libzmq.

import type { Clock } from "../base/clock.ts";
import type { Conversation } from "./conversation.ts";
import type { HostPort } from "./host-port.ts";
import type { IncomingConnection } from "./incoming-connection.ts";
import type { OutgoingConnection, OutgoingOptions } from "./outgoing-connection.ts";
import type { PsMeta } from "./wire/ps-meta.ts";

/** As in libzmq. */
const REDIAL_MS = 100;
const REDIAL_MS_MAX = 1000;
/** A process that ends connections on purpose does so at once. */
const SHORT_MS = 30;
const HELD_MAX = 1000;

export type RemoteProcessHost = {
  readonly clock: Clock;
  newOutgoing(process: RemoteProcess, options: Pick<OutgoingOptions, "up" | "down" | "delayMs">): OutgoingConnection;
  connected(process: RemoteProcess): void;
  /** An outgoing connection that was up is down. */
  disconnected(process: RemoteProcess, cause: Error | undefined): void;
  gone(process: RemoteProcess): void;
};

type Attempt = { readonly resolve: () => void; readonly reject: (cause: Error) => void };

export class RemoteProcess {
  readonly hostname: string;
  readonly port: number;
  /** The nodes of this process by customer; most have customer 0 only. */
  readonly conversations: Map<number, Conversation> = new Map();
  readonly incoming: Set<IncomingConnection> = new Set();
  readonly #host: RemoteProcessHost;
  #outgoing: OutgoingConnection | undefined;
  #attempts: Attempt[] = [];
  #isKept = false;
  #isGone = false;
  /** Sent since the outgoing connection was last up. */
  #held: PsMeta[] = [];
  #dialedAtMs = -Infinity;
  #upAtMs = -Infinity;
  /** How many connections in a row were up and ended within SHORT_MS. */
  #shortCount = 0;

  constructor(host: RemoteProcessHost, { hostname, port }: HostPort) {
    this.#host = host;
    this.hostname = hostname;
    this.port = port;
  }

  get outgoing(): OutgoingConnection | undefined {
    return this.#outgoing;
  }

  get isPresent(): boolean {
    return this.#outgoing?.isUp === true || this.incoming.size > 0;
  }

  /** Its first node, to which messages go. */
  get primary(): Conversation | undefined {
    const [first] = this.conversations.values();
    return first;
  }

  addConversation(customer: number, conversation: Conversation): void {
    this.conversations.set(customer, conversation);
    conversation.outgoing = this.#outgoing;
  }

  /** Dials if there is no connection, and resolves once it is up. */
  async dial(): Promise<void> {
    if (this.#outgoing?.isUp === true) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#attempts.push({ resolve, reject });
    if (this.#outgoing === undefined) this.#newOutgoing(this.#pauseMs());
    await promise;
  }

  /** Keeps an outgoing connection to it from now on (RemoteProcess.B1). */
  keep(): void {
    this.#isKept = true;
    if (this.#outgoing === undefined) this.#newOutgoing(this.#pauseMs());
  }

  /** Sends a message of one part from its first node; `meta` is kept (RemoteProcess.B4). */
  send(meta: PsMeta): void {
    if (this.#isKept && this.#outgoing?.isUp !== true && this.#held.length < HELD_MAX) this.#held.push(meta);
    this.primary?.sendMessage(meta);
  }

  /** Makes another connection, for instance with another identity; the old one ends after its messages have left. */
  renewOutgoing(): void {
    const old = this.#outgoing;
    this.#newOutgoing(0);
    old?.close();
  }

  /** Ends the outgoing connection and does not dial again. */
  disconnect(isAbrupt: boolean): void {
    this.#isKept = false;
    if (isAbrupt) this.#outgoing?.destroy();
    else this.#outgoing?.close();
  }

  closedIncoming(incoming: IncomingConnection): void {
    this.incoming.delete(incoming);
    this.#checkGone();
  }

  /** How long to wait before dialing (RemoteProcess.B3). */
  #pauseMs(): number {
    const pauseMs = Math.min(REDIAL_MS_MAX, REDIAL_MS * 2 ** Math.max(0, this.#shortCount - 1));
    return Math.max(0, this.#dialedAtMs + pauseMs - this.#host.clock.nowMs());
  }

  #newOutgoing(delayMs: number): void {
    this.#dialedAtMs = this.#host.clock.nowMs() + delayMs;
    const outgoing = this.#host.newOutgoing(this, { up: (up) => this.#up(up), down: (down, cause) => this.#down(down, cause), delayMs });
    this.#setOutgoing(outgoing);
    for (const meta of this.#held) this.primary?.sendMessage(meta);
  }

  #setOutgoing(outgoing: OutgoingConnection | undefined): void {
    this.#outgoing = outgoing;
    for (const conversation of this.conversations.values()) conversation.outgoing = outgoing;
  }

  #up(outgoing: OutgoingConnection): void {
    if (outgoing !== this.#outgoing) return;
    this.#isGone = false;
    this.#upAtMs = this.#host.clock.nowMs();
    this.#held = [];
    for (const { resolve } of this.#attempts.splice(0)) resolve();
    this.#host.connected(this);
  }

  #down(outgoing: OutgoingConnection, cause: Error | undefined): void {
    if (outgoing !== this.#outgoing) return;
    const wasUp = outgoing.wasUp;
    this.#setOutgoing(undefined);
    for (const { reject } of this.#attempts.splice(0)) reject(cause ?? new Error("the connection was closed"));
    if (wasUp) this.#shortCount = this.#host.clock.nowMs() - this.#upAtMs < SHORT_MS ? this.#shortCount + 1 : 0;
    if (wasUp) this.#host.disconnected(this, cause);
    if (this.#isKept && this.#outgoing === undefined) this.#newOutgoing(Math.max(REDIAL_MS, this.#pauseMs()));
    this.#checkGone();
  }

  /** RemoteProcess.B2 */
  #checkGone(): void {
    const isDialing = this.#outgoing !== undefined && !this.#outgoing.isDown && !this.#outgoing.isPending;
    if (this.isPresent || this.#isGone || isDialing) return;
    this.#isGone = true;
    this.#host.gone(this);
  }
}
