// channel-host — what the channels of a node share: limits, counters, the sequence of updates, the served functions.

import type { Clock } from "../base/clock.ts";
import type { Link } from "../transport/transport.ts";
import { REQUESTS_OPEN_MAX } from "../wire/frame.ts";
import type { Channel, FunctionHandler } from "./channel.ts";
import type { PagePool } from "./frame-batch.ts";
import type { Output } from "./frame-writer.ts";
import type { PeerLog } from "./peer-log.ts";

/** How much may be under way on one channel. */
export type ChannelLimits = {
  readonly inFlightBytesMax: number;
  /** One write takes about this much. */
  readonly writeBytesMax: number;
  readonly answerBytesMax: number;
  /** Calls that left and are not settled, or wait behind one that is not. */
  readonly pendingMax: number;
  /** Calls that wait to leave; beyond it `send` refuses. */
  readonly queuedMax: number;
};

export const CHANNEL_LIMITS: ChannelLimits = {
  inFlightBytesMax: 2 * 1024 * 1024,
  writeBytesMax: 1024 * 1024,
  answerBytesMax: 4 * 1024 * 1024,
  pendingMax: REQUESTS_OPEN_MAX,
  queuedMax: 1 << 16,
};

/** What a peer counts. Plain numbers that only rise, for exporters to read. */
export class PeerMetrics {
  framesReceived = 0;
  framesSent = 0;
  linksOpened = 0;
  /** Links that were not taken on, because too many without a node behind them are open. */
  linksRefused = 0;
  /** Links that ended with an error, ours or the system's. */
  linksBroken = 0;
  /** Links closed because the peer's bytes were not legal frames. */
  badFrames = 0;
  /** Links closed because the peer never said who it is, or said it wrongly. */
  badHellos = 0;
  /** Requests answered with a failure. */
  requestsFailed = 0;
  /** Requests that came again after they had been taken. */
  duplicates = 0;
  /** Requests refused because an earlier one was missing. */
  gaps = 0;
  /** Answers nobody waits for. */
  orphanAnswers = 0;
  /** Calls that were sent again. */
  resends = 0;
  /** Frames the fault injector dropped. */
  framesDropped = 0;
}

export type ChannelHost = {
  readonly clock: Clock;
  readonly pages: PagePool;
  readonly metrics: PeerMetrics;
  readonly limits: ChannelLimits;
  /** 0: only reconnects make calls leave again. */
  readonly resendTimeoutMs: number;
  /** The last number in this node's sequence of updates. */
  readonly stamps: { last: number };
  readonly peerLog: PeerLog;
  /** By the numbers in frames. */
  readonly handlers: readonly (FunctionHandler | undefined)[];
  /** What holds the writes of this channel's new link back; left out, or undefined: nothing does. */
  readonly outputOf?: ((channel: Channel, link: Link) => Output | undefined) | undefined;
};
