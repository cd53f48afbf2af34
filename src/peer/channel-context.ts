// channel-context — what a handler of a node without parameters knows beside its request: who asks, and for which application. Servers' handlers know more
// (server/server-context.ts).

import type { RequestLabel } from "../wire/frame.ts";
import type { Channel } from "./channel.ts";
import type { Held } from "./frame-batch.ts";

export class ChannelContext {
  readonly channel: Channel;
  /** Of the request: its application, customer and command, where it is for one. Valid until the handler returns. */
  readonly label: RequestLabel;

  constructor(channel: Channel, label: RequestLabel) {
    this.channel = channel;
    this.label = label;
  }

  /** Answers are made of memory of their own. */
  releaseAll(): void {}

  heldBy(): Held | undefined {
    return undefined;
  }
}
