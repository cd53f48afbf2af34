// dialer — the nodes that a peer dials: connects to each, and again after a delay whenever that fails or its link ends.
//
// Invariants:
//   Dialer.P3. A dialed channel is redialed until it ends or gets another address. One of several addresses (the
//       scheduler's) is tried after the other; a round of all of them takes as long as one try would.
//   Dialer.P4. A try at an address where the node is not any more does not delay the next: who stopped there may never
//       answer. What comes of it is nobody's.

import type { Clock } from "../base/clock.ts";
import type { Address } from "../transport/transport.ts";
import type { Channel } from "./channel.ts";
import type { PeerConnection } from "./gateway.ts";

const REDIAL_DELAY_MS = 20;
const REDIAL_DELAY_MAX_MS = 1000;

/** A node that is dialed. */
export type Dial = {
  readonly channel: Channel;
  address: Address;
  /** Where else the node may be: tried next, in this order. */
  others: readonly Address[];
  /** How often it was tried since it was last reached. */
  attempt: number;
  isConnecting: boolean;
};

export type DialerOptions = {
  readonly clock: Clock;
  /** Opens a connection; calls `opened` before anything is read from it. Rejects when nobody answers there. */
  readonly connect: (dial: Dial, opened: (connection: PeerConnection) => void) => Promise<unknown>;
  /** A try failed; the next one comes soon. */
  readonly unreachable: (channel: Channel, error: Error) => void;
};

export class Dialer {
  readonly #options: DialerOptions;
  readonly #dials = new Map<Channel, Dial>();
  readonly #connections = new Map<PeerConnection, Dial>();

  constructor(options: DialerOptions) {
    this.#options = options;
  }

  /** Whether this channel's node is dialed, and does not dial us. */
  has(channel: Channel): boolean {
    return this.#dials.has(channel);
  }

  addressOf(channel: Channel): Address | undefined {
    return this.#dials.get(channel)?.address;
  }

  /** For whom this connection was opened; undefined for one that was accepted. */
  dialOf(connection: PeerConnection): Dial | undefined {
    return this.#connections.get(connection);
  }

  /** Dials this channel's node at this address or one of the others, and nowhere else any more. */
  dial(channel: Channel, address: Address, others: readonly Address[] = []): void {
    let dial = this.#dials.get(channel);
    const isElsewhere = dial?.address !== address && channel.link === undefined; // Dialer.P4
    if (dial === undefined || isElsewhere) dial = { channel, address, others, attempt: 0, isConnecting: false };
    this.#dials.set(channel, dial);
    if (dial.address !== address) {
      Object.assign(dial, { address, others });
      channel.link?.destroy();
    }
    this.#connect(dial);
  }

  drop(channel: Channel): void {
    this.#dials.delete(channel);
  }

  /** Nobody is dialed any more. */
  close(): void {
    this.#dials.clear();
  }

  isDropped(dial: Dial): boolean {
    return dial.channel.ended !== undefined || this.#dials.get(dial.channel) !== dial; // Dialer.P3
  }

  /** The connection has ended, or never was one. */
  ended(connection: PeerConnection, cause: Error | undefined): void {
    const dial = this.#connections.get(connection);
    this.#connections.delete(connection);
    if (dial === undefined || this.isDropped(dial)) return;
    dial.isConnecting = false;
    if (connection.channel === undefined && cause !== undefined) this.#options.unreachable(dial.channel, cause);
    this.#redial(dial);
  }

  /** Runs `adopt` for a connection as if it had been accepted: what it throws does not make us dial again. */
  adopt(connection: PeerConnection, adopt: (dial: Dial | undefined) => Channel): Channel {
    const dial = this.#connections.get(connection);
    this.#connections.delete(connection); // it is over if the node is refused
    const channel = adopt(dial);
    if (dial !== undefined) this.#connections.set(connection, dial);
    return channel;
  }

  #connect(dial: Dial): void {
    if (dial.isConnecting || dial.channel.link !== undefined || this.isDropped(dial)) return;
    dial.isConnecting = true;
    this.#options
      .connect(dial, (connection) => this.#connections.set(connection, dial))
      .catch((error: Error) => {
        dial.isConnecting = false;
        if (this.isDropped(dial)) return;
        this.#options.unreachable(dial.channel, error);
        this.#redial(dial);
      });
  }

  #redial(dial: Dial): void {
    const { clock } = this.#options;
    const { address, others } = dial;
    const [next = address, ...rest] = others;
    const addressCount = 1 + others.length;
    const round = Math.floor(dial.attempt++ / addressCount);
    const delayMs = Math.min(REDIAL_DELAY_MAX_MS, REDIAL_DELAY_MS * 2 ** Math.min(round, 10)) / addressCount;
    dial.address = next;
    if (others.length > 0) dial.others = [...rest, address];
    clock.after(delayMs, () => this.#connect(dial), true); // Dialer.P3
  }
}
