// answering-servers — whether all servers of a job that serves still answer, before the job ends in order. They stand
// at the last barrier from the start, so the entry of a server there does not show that it lives.
//
// Invariants:
//   AnsweringServers.S1. All servers have answered since the question, each in the incarnation that it had then, and
//       none has died meanwhile whose state no other process has.

import type { Clock } from "../base/clock.ts";
import { sleep, waitFor } from "../base/deferred.ts";
import { reasonOf } from "../base/errors.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { nameOf, roleOf } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";

/** How long a server has to answer before it is asked again, and how soon that is. */
const ANSWER_MS = 2000;
const ASK_AGAIN_MS = 200;
/** A verdict on a silent server takes one heartbeat timeout, and has come after two. */
const VERDICT_TIMEOUTS = 2;

export type AnsweringServersOptions = {
  readonly peer: Pick<Peer, "channel">;
  readonly clock: Clock;
  readonly heartbeatTimeoutMs: number;
  readonly roster: () => RosterView;
};

export class AnsweringServers {
  readonly #options: AnsweringServersOptions;
  /** How many servers have died whose state no other process has. */
  #lostCount = 0;

  constructor(options: AnsweringServersOptions) {
    this.#options = options;
  }

  /** An incarnation of this node is over. `goesOn`: another process has its state. */
  died(node: number, { goesOn }: { readonly goesOn: boolean }): void {
    if (roleOf(node) === "server" && !goesOn) this.#lostCount++;
  }

  /** Resolves with "" once all have answered, and else with what keeps the job from an orderly end. */
  async problem(): Promise<string> {
    const { clock, heartbeatTimeoutMs } = this.#options;
    const timeoutMs = (heartbeatTimeoutMs || ANSWER_MS) * VERDICT_TIMEOUTS;
    const untilMs = clock.nowMs() + timeoutMs;
    return await waitFor(this.#look(untilMs), "its servers to answer", clock, { timeoutMs }).catch(reasonOf);
  }

  /** AnsweringServers.S1 */
  async #look(untilMs: number): Promise<string> {
    const { peer, clock, roster } = this.#options;
    const lostBefore = this.#lostCount;
    while (clock.nowMs() < untilMs) {
      const { nodes } = roster();
      const keeping = nodes.find(({ role, state }) => state !== "left" && (role === "worker" || state === "dead"));
      if (keeping !== undefined) return `${nameOf(keeping.node)} ${keeping.state === "dead" ? "is dead" : "has not left"}`;
      if (this.#lostCount > lostBefore) return "a server has died, and another one without its state has its rank";
      const alive = nodes.filter(({ state }) => state === "alive");
      const answers = await Promise.all(alive.map(({ node }) => this.#answers(node)));
      const isSame = alive.every(({ node, incarnation }) => peer.channel(node)?.incarnation === incarnation);
      if (answers.every(Boolean) && isSame && this.#lostCount === lostBefore) return "";
      await sleep(clock, ASK_AGAIN_MS); // one that is silent is about to be declared dead
    }
    return "not all of its servers answer";
  }

  async #answers(node: number): Promise<boolean> {
    const channel = this.#options.peer.channel(node);
    if (channel === undefined) return false;
    return await callJson(channel, HEARTBEAT, {}, this.#options.clock, { timeoutMs: ANSWER_MS }).then(
      () => true,
      () => false,
    );
  }
}
