// gateway — how a peer reaches nodes that speak another protocol than ours (src/pslite). It replaces transport and
// handshake; channels and everything above them are the same: a gateway hands a channel the messages that came
// (`Channel.frame`), and a batch of its own takes those that leave (`Channel.attach`). No byte of our own frames is
// written for it.

import type { JsonContract } from "../contracts/contract.ts";
import type { Address, Link, LinkReader, Listener } from "../transport/transport.ts";
import type { Channel } from "./channel.ts";
import type { PeerMetrics } from "./channel-host.ts";
import type { ReadBuffers } from "./connection.ts";
import type { PagePool } from "./frame-batch.ts";

/** A connection as the peer sees it, of either protocol. */
export type PeerConnection = {
  readonly link: Link;
  /** Undefined before the other side has said who it is. */
  readonly channel: Channel | undefined;
};

/** The peer, as a gateway sees it. */
export type GatewayHost = {
  readonly metrics: PeerMetrics;
  readonly pages: PagePool;
  readonly readBuffers: ReadBuffers;
  /** Somebody that connected speaks our own protocol. Throws QUEUE_FULL when too many do. */
  acceptLink(link: Link): LinkReader;
  /**
   * This connection is with the node of that id and incarnation, 0 for one without an id. Returns its channel; throws
   * to refuse the node.
   */
  adopt(connection: PeerConnection, node: number, incarnation: number): Channel;
  /** Serves a control function of our own node in the name of that channel's. Rejects with what went wrong. */
  serveControl<Q, R>(channel: Channel, fn: JsonContract<Q, R>, request: Q): Promise<R>;
  /** The connection ended; it is detached from its channel. */
  ended(connection: PeerConnection, cause: Error | undefined): void;
};

export type Gateway = {
  /** Called once, before anything else. */
  attach(host: GatewayHost): void;
  /** Throws as Transport's `listen` does. Closing the listener closes the gateway. */
  listen(address: Address): Promise<Listener>;
  /**
   * Reaches the node at this address; `opened` is called before the connection is adopted. Throws NO_ROUTE when nobody
   * answers there.
   */
  connect(address: Address, opened: (connection: PeerConnection) => void): Promise<void>;
  /** This node is done, and so are the others: connections that end from now on are expected. */
  leaving(): void;
  /** What to do about a scheduler that is gone for good, where it must not be started again; undefined where it may. */
  readonly schedulerLoss: string | undefined;
  /** Why a node that speaks our own protocol cannot join. */
  readonly joinRefusal: string;
};
