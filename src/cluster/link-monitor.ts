// link-monitor — notices that another node cannot be reached: it is silent although calls wait for it, or there is no
// link to it. Heartbeats watch the link to the scheduler (heartbeat.ts). As long as the scheduler is there, it decides
// who is dead.
//
//   calls wait, silence for a tick                 ──► a HEARTBEAT tests whether the other node still reads
//   silence for `heartbeatTimeoutMs`               ──► a warning; the link is closed and opened anew
//   … and for `linkTimeoutMs`, or `successorMs`    ──► the calls fail with LINK_LOST (but see LinkMonitor.A7)
//   … or for `heartbeatTimeoutMs`, while the scheduler is away ──► the calls fail with NODE_DEAD: nobody else decides
//
// Invariants:
//   LinkMonitor.A1. Silence is counted in ticks, after the input that has arrived: a node that was itself held up takes
//       nobody for silent.
//   LinkMonitor.A2. A call that waits at the other node (a parked read, a slow function) is no silence: that node
//       answers the HEARTBEAT meanwhile.
//   LinkMonitor.A3. Only frames end a silence. A new link alone does not: one that carries nothing must not keep calls
//       waiting.
//   LinkMonitor.A4. The data plane pays one flag for each read of a link, nothing for each call.
//   LinkMonitor.A5. While the scheduler is away all links are tested, also those without calls: nobody else notices a
//       node that stops.
//   LinkMonitor.A6. Without heartbeats (a timeout of 0) an open link is neither tested nor taken for silent.
//   LinkMonitor.A7. Calls to a server that another process may go on for last as long as a caller waits by its own
//       deadline: as long as the latest one that was under way when their time was over. So none waits for ever.
//   LinkMonitor.A8. A node that is silent itself, because what it writes is held back, takes nobody for silent.
//   LinkMonitor.A9. A node of which the scheduler, or the pulse of its process, says that its loop is busy has a whole
//       timeout more from then on: its links stay open, and calls to it wait. This node asks at half of the timeout.
//   LinkMonitor.A10. A node that refuses a link for now (QUEUE_FULL) is there: calls to it wait by their deadlines.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { OpenWaits } from "../base/open-waits.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { callJson, serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import type { Link } from "../transport/transport.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { HeartbeatRules } from "./heartbeat.ts";

export type LinkMonitorOptions = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly linkTimeoutMs: number;
  /** Whether nobody can decide now who is dead. */
  readonly isSchedulerAway: () => boolean;
  /** Whether the roster says that the node answers, now or later: calls to others have failed already. */
  readonly isAwaited: (node: number) => boolean;
  /**
   * How long calls wait for a server that another process may go on for; undefined where none may. It may wait for the
   * scheduler's word, or be replaced, so that no node judges for itself.
   */
  readonly successorMs?: (node: number) => number | undefined;
  /** Until when callers of this node wait by their deadlines. */
  readonly waits?: Pick<OpenWaits, "untilMs">;
  /** There are new nodes among the `suspects`. */
  readonly suspected?: () => void;
};

/** The precision with which a silence is noticed. */
const TICKS_PER_TIMEOUT = 10;
const TICK_MS_MIN = 10;
/** The part of the timeout after which a silent node is a suspect (LinkMonitor.A9). */
const SUSPECT_AFTER = 0.5;
/** Without heartbeats. */
const TICK_MS = 1000;

/** What is known of one channel. With a count of n, the silence has lasted n ticks and less than one more. */
class Silence {
  /** Since the last input; -1: there was nothing to wait for at the last tick. */
  ticks = -1;
  /** The part of it that this link was there. */
  linkTicks = -1;
  link: Link | undefined;
  /** Of the other node's incarnation. */
  incarnation: number;
  isProbing = false;
  isSuspect = false;
  isReported = false;
  /** Until when a caller waited whose deadline is longer than the limit (LinkMonitor.A7); -1: nobody looked yet. */
  callersUntilMs = -1;
  /** Why the last try to reach the node failed. */
  problem = "it is silent";

  constructor({ incarnation }: Channel) {
    this.incarnation = incarnation;
  }

  end(link: Link | undefined, { isHeard }: { readonly isHeard: boolean }): void {
    this.ticks = isHeard ? 0 : -1;
    this.linkTicks = this.ticks;
    this.link = link;
    this.isReported = false;
    this.isSuspect = false;
    this.callersUntilMs = -1;
    this.problem = "it is silent";
  }

  count(link: Link | undefined): void {
    this.ticks++;
    this.linkTicks = link === this.link ? this.linkTicks + 1 : 0;
    this.link = link;
  }
}

export class LinkMonitor {
  readonly #options: LinkMonitorOptions;
  readonly #silences = new WeakMap<Channel, Silence>();
  #cancelTimer: CancelTimer = () => {};
  #tickMs = TICK_MS;
  #timeoutMs = 0;
  #isClosed = false;

  constructor(options: LinkMonitorOptions) {
    this.#options = options;
    options.peer.serve(serveJson(HEARTBEAT, () => ({})));
  }

  /** Begins, or goes on by other rules. A timeout of 0: a link that is there is never taken for silent. */
  start({ heartbeatIntervalMs, heartbeatTimeoutMs }: HeartbeatRules): void {
    this.#cancelTimer();
    const intervalMs = heartbeatIntervalMs === 0 ? TICK_MS : heartbeatIntervalMs;
    this.#timeoutMs = heartbeatTimeoutMs;
    this.#tickMs =
      heartbeatTimeoutMs === 0 ? intervalMs : Math.max(TICK_MS_MIN, Math.min(intervalMs, heartbeatTimeoutMs / TICKS_PER_TIMEOUT));
    this.#next();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
  }

  /** How many calls of this monitor are open there. */
  openCount(channel: Channel): number {
    return this.#silences.get(channel)?.isProbing === true ? 1 : 0;
  }

  /** Nodes that are silent, of which this node asks whether they are only busy; undefined: there are none. */
  suspects(): readonly number[] | undefined {
    const found = [...this.#options.peer.channels()].filter((channel) => this.#silences.get(channel)?.isSuspect === true);
    return found.length === 0 ? undefined : found.map(({ id }) => id);
  }

  /** The processes of these nodes run, while their loops are busy (LinkMonitor.A9). */
  busy(nodes: readonly number[]): void {
    for (const node of nodes) {
      const channel = this.#options.peer.channel(node);
      if (channel !== undefined) this.#silences.get(channel)?.end(channel.link, { isHeard: true });
    }
  }

  /** A try to reach the other node failed. */
  unreachable(channel: Channel, error: Error): void {
    const silence = this.#silenceOf(channel);
    if (isWeighbridgeError(error, "QUEUE_FULL")) silence.end(undefined, { isHeard: true }); // LinkMonitor.A10
    silence.problem = error.message;
  }

  #next(): void {
    const tick = (): void => {
      if (this.#isClosed) return;
      for (const channel of [...this.#options.peer.channels()]) this.#look(channel);
      this.#next();
    };
    // LinkMonitor.A1
    this.#cancelTimer = this.#options.clock.after(this.#tickMs, () => this.#options.clock.afterInput(tick), true);
  }

  #look(channel: Channel): void {
    const { isSchedulerAway, isAwaited, peer } = this.#options;
    if (channel.id === SCHEDULER_ID) return;
    const silence = this.#silenceOf(channel);
    const { link } = channel;
    const isHeard = channel.takeHeard();
    // LinkMonitor.A5
    const isIdle = !channel.isAwaiting && (link === undefined ? !this.#isDialed(channel) : !isSchedulerAway());
    const isNewHolder = channel.incarnation !== silence.incarnation;
    const isUnwatched = link !== undefined && this.#timeoutMs === 0; // LinkMonitor.A6
    silence.incarnation = channel.incarnation;
    if (isHeard || isIdle || isUnwatched || isNewHolder || !isAwaited(channel.id) || peer.isMuteTo(channel.id)) {
      if (isHeard && silence.isReported) this.#options.log.info("a node answers again", { node: channel.name });
      silence.end(link, { isHeard });
      return;
    }
    silence.count(link);
    if (link !== undefined) this.#probe(channel, silence);
    if (!silence.isSuspect && this.#isReached(silence.ticks, SUSPECT_AFTER * this.#timeoutMs)) {
      silence.isSuspect = true;
      this.#options.suspected?.();
    }
    if (link !== undefined && this.#isReached(silence.linkTicks, this.#timeoutMs)) this.#giveUpLink(channel, link, silence);
    this.#judge(channel, silence);
  }

  /** LinkMonitor.A2 */
  #probe(channel: Channel, silence: Silence): void {
    if (silence.isProbing) return;
    silence.isProbing = true;
    const ended = (): void => {
      silence.isProbing = false;
    };
    callJson(channel, HEARTBEAT, {}, this.#options.clock).then(ended, ended); // a failure is an answer, too
  }

  #giveUpLink(channel: Channel, link: Link, silence: Silence): void {
    const { peer, log } = this.#options;
    const fields = { from: nameOf(peer.id), to: channel.name, link: link.remote, silentMs: Math.round(silence.linkTicks * this.#tickMs) };
    log.warn("a link with unanswered calls is silent, opening it anew", fields);
    link.destroy();
  }

  /** Fails the calls to a node that has been unreachable for too long; logs it once. */
  #judge(channel: Channel, silence: Silence): void {
    const { peer, clock, log, linkTimeoutMs, isSchedulerAway, successorMs, waits } = this.#options;
    const successor = successorMs?.(channel.id);
    const isJudge = isSchedulerAway() && this.#timeoutMs > 0 && successor === undefined;
    const limitMs = isJudge ? Math.min(this.#timeoutMs, linkTimeoutMs) : (successor ?? linkTimeoutMs);
    if (!this.#isReached(silence.ticks, limitMs)) return;
    if (successor !== undefined && silence.callersUntilMs < 0) silence.callersUntilMs = waits?.untilMs ?? 0;
    if (clock.nowMs() < silence.callersUntilMs) return; // LinkMonitor.A7
    silence.callersUntilMs = -1;
    const link = peer.addressOf(channel) ?? silence.link?.remote ?? "any link";
    const reason = `${channel.name} could not be reached over ${link} for ${Math.round(silence.ticks * this.#tickMs)} ms (${silence.problem})`;
    if (!silence.isReported) log.warn("a node cannot be reached", { from: nameOf(peer.id), to: channel.name, link, reason });
    silence.isReported = true;
    if (channel.isAwaiting)
      channel.failLost(isJudge ? "NODE_DEAD" : "LINK_LOST", isJudge ? `${reason}, and the scheduler is away` : reason);
  }

  /** A node that dials us is missed only by calls that wait for it. */
  #isDialed(channel: Channel): boolean {
    return this.#options.peer.addressOf(channel) !== undefined;
  }

  /** Whether the limit passes before the next tick: nothing is noticed late, and at most a tick early. */
  #isReached(ticks: number, limitMs: number): boolean {
    return limitMs > 0 && (ticks + 1) * this.#tickMs >= limitMs;
  }

  #silenceOf(channel: Channel): Silence {
    let silence = this.#silences.get(channel);
    if (silence === undefined) {
      silence = new Silence(channel);
      this.#silences.set(channel, silence);
    }
    return silence;
  }
}
