// peer-options — the options of a peer, and the events that it reports to its node. Types alone.

import type { Clock } from "../base/clock.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { Hello, MemberKind } from "../wire/hello.ts";
import type { Call } from "./call.ts";
import type { Channel } from "./channel.ts";
import type { ChannelLimits } from "./channel-host.ts";
import type { ReadBuffers } from "./connection.ts";
import type { FaultOptions } from "./faults.ts";
import type { Gateway } from "./gateway.ts";

export type PeerOptions = {
  readonly transport: Transport;
  /** Set where the nodes speak another protocol than ours: they are reached through it, and not over the transport. */
  readonly gateway?: Gateway | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly readBuffers: ReadBuffers;
  readonly limits?: Partial<ChannelLimits>;
  readonly faults?: FaultOptions | undefined;
  readonly resendTimeoutMs?: number;
  readonly connectDeadlineMs?: number;
  /** Whether nodes without an id may talk to this one: they may register with the scheduler, and request its status. */
  readonly acceptsAnonymous?: boolean;
  /** What this node is, before it has a number that says so. Defaults to "tool". */
  readonly kind?: MemberKind | undefined;
  /** Of the package, for messages. */
  readonly packageVersion?: string | undefined;
};

/** See `Peer.dial`. */
export type DialOptions = {
  readonly others?: readonly Address[];
  readonly continues?: number | undefined;
  readonly returns?: boolean | undefined;
};

/** The events of a node's channels. */
export type PeerEvents = {
  /** The link of this channel is gone; it may come back. */
  linkDown?(channel: Channel): void;
  linkUp?(channel: Channel): void;
  /** The other node has a new incarnation; `again` are the calls that may be sent again, in order. */
  restarted?(channel: Channel, again: readonly Call[]): void;
  /** The other node refuses to talk to us, for good. */
  refused?(channel: Channel, error: WeighbridgeError): void;
  /** A try to reach the other node failed; the next one comes soon. */
  unreachable?(channel: Channel, error: Error): void;
  /** A node dialed us: number 0 for one that has none. Throws to refuse it. A gateway's nodes have no token. */
  hello?(hello: AcceptedNode): void;
};

/** What a node that dialed us says about itself. */
export type AcceptedNode = Pick<Hello, "job" | "node" | "incarnation"> & Partial<Hello>;
