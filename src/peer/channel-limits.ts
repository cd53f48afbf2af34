// channel-limits — how much may be under way on one channel.

import { REQUESTS_OPEN_MAX } from "../wire/frame.ts";

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
