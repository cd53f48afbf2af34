// channel-host — what a node gives to each of its channels.

import type { Clock } from "../base/clock.ts";
import type { FunctionHandler } from "./channel.ts";
import type { ChannelLimits } from "./channel-limits.ts";
import type { Complaints } from "./complaints.ts";
import type { PagePool } from "./frame-batch.ts";
import type { PeerMetrics } from "./metrics.ts";

/** What a channel shares with the others of its node. */
export type ChannelHost = {
  readonly clock: Clock;
  readonly pages: PagePool;
  readonly metrics: PeerMetrics;
  readonly complaints: Complaints;
  readonly limits: ChannelLimits;
  /** 0: only reconnects make calls leave again. */
  readonly resendTimeoutMs: number;
  nextStamp(): number;
  handlerOf(functionId: number): FunctionHandler | undefined;
};
