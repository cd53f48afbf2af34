// tools — the programs of the command line that are there, for `status` to list beside the guests. They are guests that
// know no counts, take no rank and no number, and stand in no barrier: nothing waits for one (docs/decisions/0069). Not
// what they call: function-relay.ts, scaling-service.ts.
//
// Invariants:
//   Tools.T1. A tool is there from its first notice until its link ends, and not a moment longer.
//   Tools.T2. One that is silent for the heartbeat timeout is forgotten like any guest: its link ends, and so does what
//       it began. Time is judged after the input that has arrived (Scheduler.D2).

import type { CancelTimer, Clock } from "../base/clock.ts";
import type { ToolNotice, ToolReply } from "../contracts/tools.ts";
import type { Channel } from "../peer/channel.ts";
import type { GuestStatus } from "../wire/control.ts";

export type ToolsOptions = {
  readonly clock: Clock;
  /** 0, as a timeout of 0: only the end of its link shows that a tool is gone. */
  readonly heartbeatIntervalMs: number;
  readonly heartbeatTimeoutMs: number;
  /** Ends the link of a tool that is silent. */
  readonly end: (channel: Channel) => void;
};

type Tool = ToolNotice & { readonly cameAtMs: number; readonly heardAtMs: number; readonly cancel: CancelTimer };

export class Tools {
  readonly #options: ToolsOptions;
  readonly #tools = new Map<Channel, Tool>();

  constructor(options: ToolsOptions) {
    this.#options = options;
  }

  here(channel: Channel, { label, command }: ToolNotice): ToolReply {
    const { clock, heartbeatIntervalMs, heartbeatTimeoutMs } = this.#options;
    const known = this.#tools.get(channel);
    known?.cancel();
    const nowMs = clock.nowMs();
    const isWatched = heartbeatIntervalMs > 0 && heartbeatTimeoutMs > 0;
    const cancel = isWatched ? clock.after(heartbeatTimeoutMs, () => this.#overdue(channel, nowMs)) : () => {};
    this.#tools.set(channel, { label, command, cameAtMs: known?.cameAtMs ?? nowMs, heardAtMs: nowMs, cancel });
    return { heartbeatIntervalMs: isWatched ? heartbeatIntervalMs : 0 };
  }

  /** Its link has ended (Tools.T1). */
  forget(channel: Channel): void {
    this.#tools.get(channel)?.cancel();
    this.#tools.delete(channel);
  }

  status(nowMs: number): GuestStatus[] {
    const ago = (atMs: number): number => Math.max(0, Math.round(nowMs - atMs));
    return [...this.#tools.values()].map(({ label, command, cameAtMs, heardAtMs }) => {
      return { kind: "tool", command, label, hereMs: ago(cameAtMs), heartbeatAgeMs: ago(heardAtMs), linked: true };
    });
  }

  close(): void {
    for (const channel of [...this.#tools.keys()]) this.forget(channel);
  }

  /** Tools.T2 */
  #overdue(channel: Channel, heardAtMs: number): void {
    this.#options.clock.afterInput(() => {
      if (this.#tools.get(channel)?.heardAtMs === heardAtMs) this.#options.end(channel);
    });
  }
}
