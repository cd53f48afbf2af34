// chain-member — a replicated server as a node: it follows what the roster says about the chain of its rank
// (docs/decisions/0060). Not what is repeated (log-repeater.ts), nor who decides (scheduler/chains.ts).
//
//   head      dials its standby and sends it the log, until the roster says that there is none; fills one that comes
//             later, and reports when it has everything; once it is stopped (planned-stop.ts), it fills nobody
//   standby   refuses workers, until the roster has its own token on the rank of its head: then it is the head; leaves
//             when its head is gone before it has everything
//
// A copy that is stopped asks the scheduler to let it go (Chains.C4), and does what the answer says (PlannedStop.P5):
//
//   standby ── let go ──► ends            standby ── needed: it takes over ──► head without a standby
//   head ── its standby takes over ──► ends         head without a standby, or needed ──► leaves its state, and ends
//
// Invariants:
//   ChainMember.I6. A head that was replaced acknowledges nothing that its standby lacks: its log reaches nobody.
//       The same roster ends its link, as every link of an incarnation that is over (ClusterNode.follow), a hello of it
//       is FENCED, and a server that has taken over repeats no log (StandbyLog.repeat).

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { reasonOf, unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Membership } from "../../cluster/membership.ts";
import { nodeDeadError } from "../../peer/call.ts";
import type { Channel } from "../../peer/channel.ts";
import { PausableLink } from "../../peer/pausable-link.ts";
import type { Peer } from "../../peer/peer.ts";
import type { HeartbeatRequest } from "../../wire/control.ts";
import { idOf, nameOf, rankOf, roleOf } from "../../wire/node-id.ts";
import { isAwaited, type RosterEntry, type RosterView } from "../../wire/roster.ts";
import { LET_GO_MS, SCHEDULER_BACK_MS } from "../stop-bounds.ts";
import { standbySink } from "./log-call.ts";
import { isClient, type Replica } from "./replica.ts";
import type { ReplicaLog } from "./replica-log.ts";

/** Throws UNSUPPORTED for what a replicated server does not do so far, BAD_CONFIG for a standby of none. */
export function checkReplication(options: {
  readonly replicas?: number | undefined;
  readonly isStandby?: boolean | undefined;
  readonly restoreFrom?: unknown;
  readonly gateway?: unknown;
  readonly durable?: unknown;
}): void {
  const { replicas = 1, isStandby = false, restoreFrom, gateway, durable } = options;
  if (replicas !== 1 && replicas !== 2) throw unsupported(`a server rank is held by 1 or 2 processes, not by ${replicas}`);
  if (replicas === 1) {
    if (isStandby) throw new WeighbridgeError("BAD_CONFIG", "a standby belongs to a cluster with replicas 2");
    if (durable === undefined) return;
  } else if (durable !== undefined) throw unsupported("a server is replicated or durable, not both so far");
  const kind = durable === undefined ? "replicated" : "durable";
  if (restoreFrom !== undefined && durable !== undefined) throw unsupported("a durable server does not restore checkpoints so far");
  if (gateway !== undefined) throw unsupported(`servers behind ps-lite's protocol are not ${kind}`);
}

/** How long a standby may be without a link before its head tells the scheduler. */
const LINK_GRACE_MS = 50;

export type ChainNode = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether the job goes on when no worker is left. */
  readonly serves: boolean;
  leave(): Promise<void>;
  close(): Promise<void>;
  /** Why it ends, if it does. */
  readonly failure: WeighbridgeError | undefined;
  /** Ends this node with an error. */
  replaced(error: WeighbridgeError): void;
  whenOver(ended: () => void): () => boolean;
};

export class ChainMember {
  readonly #node: ChainNode;
  readonly #replica: Replica;
  #membership: Membership | undefined;
  /** False until the scheduler has said which copy of the rank this is. */
  #isPlaced = false;
  /** The channel to the standby. */
  #channel: Channel | undefined;
  /** Its incarnation. */
  #standby = 0;
  /** How often a link to it was lost. */
  #lossCount = 0;
  /** Whether the scheduler is to hear that the standby cannot be reached. */
  #isStandbyLost = false;
  /** The incarnation of the standby that this head fills, or has filled or given up. */
  #filled = 0;
  /** Whether the scheduler is to hear that it has everything. */
  #isStandbyFilled = false;
  /** Of a standby that is being filled: the incarnation of its head. */
  #filledBy = 0;
  /** A standby that cannot go on, and leaves. */
  #isOrphan = false;
  /** Whether this node has ended. */
  #isOver = false;
  /** Resolves with the next roster, standby that is given up, or end of this node; then there is another. */
  #news = new Deferred<void>();

  constructor(node: ChainNode, replica: Replica) {
    this.#node = node;
    this.#replica = replica;
    const { peer } = node;
    peer.outputOf = (channel, link) =>
      isClient(channel.id) ? replica.log.holdBack(link instanceof PausableLink ? link.inner : link) : undefined;
    peer.isMuteTo = (id) => isClient(id) && replica.log.isMute;
    replica.standbyLog.onDiverged = (error) => {
      const cause = error.cause === undefined ? {} : { cause: reasonOf(error.cause) };
      node.log.error("this standby cannot go on, and leaves", { reason: error.message, ...cause });
      this.#end();
    };
    node.whenOver(() => {
      this.#isOver = true;
      this.#tell();
    });
  }

  registering(membership: Membership): void {
    this.#membership = membership;
    membership.checkDialer = ({ node }) => {
      if (!isClient(node)) return;
      if (this.#node.failure !== undefined) {
        // It ends. A worker that it took in anew would find its calls forgotten, which the standby has (Channel.N7).
        throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} dialed a server that was replaced`, { retryable: true });
      }
      if (!this.#replica.isStandby) return;
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} dialed a standby, which does not serve`, { retryable: true });
    };
  }

  follow(roster: RosterView): void {
    const membership = this.#membership;
    if (membership === undefined) return;
    this.#follow(roster, membership);
    this.#tell();
  }

  /** What the scheduler is to hear of the standby and the log, with every heartbeat. */
  standbyNews(): Pick<HeartbeatRequest, "standbyLost" | "standbyFilled" | "heldMs"> {
    const { heldMs } = this.#replica.log;
    const held = heldMs === undefined ? {} : { heldMs };
    const lost = { ...held, ...(this.#isStandbyLost ? { standbyLost: this.#standby } : {}) };
    return this.#isStandbyFilled ? { ...lost, standbyFilled: this.#standby } : lost;
  }

  /** This standby is of no use. */
  #end(): void {
    const node = this.#node;
    node.leave().then(
      () => node.close(),
      () => node.close(),
    );
  }

  /** Something has happened that `giveWay` may wait for. */
  #tell(): void {
    const news = this.#news;
    this.#news = new Deferred();
    news.resolve();
  }

  #follow(roster: RosterView, membership: Membership): void {
    const { peer, log } = this.#node;
    const { log: replicaLog } = this.#replica;
    const rank = rankOf(peer.id);
    replicaLog.lateMs = membership.heartbeatTimeoutMs || replicaLog.lateMs;
    if (!this.#isPlaced && roleOf(peer.id) === "standby") this.#replica.standBy();
    this.#isPlaced = true;
    if (this.#replica.isStandby) {
      const head = roster.nodes.find(({ node }) => node === idOf("server", rank));
      if (head?.token !== peer.token) {
        const isOver = this.#isEnding(roster) || peer.isLeaving;
        if (head !== undefined && !isOver) this.#checkSource(head, roster.nodes.find(({ node }) => node === peer.id)?.isFilling === true);
        return;
      }
      if (this.#replica.standbyLog.hasFailed) return; // it leaves (StandbyLog.I1)
      log.warn("taking over", { node: nameOf(head.node), incarnation: head.incarnation, entries: this.#replica.repeater.applied });
      this.#replica.promote();
      membership.takeOver(head);
      return;
    }
    const standby = roster.nodes.find(({ node }) => node === idOf("standby", rank));
    if (standby === undefined) return; // a roster that came before the cluster was complete
    if (this.#replica.isLeaving) return; // one that comes now is filled by the next process of the rank
    if (standby.state !== "alive") {
      if (replicaLog.isOn) this.#goAlone(standby);
      return;
    }
    const isEmpty = standby.isFilling === true;
    if (isEmpty) {
      // The node follows again afterwards.
      if (standby.incarnation === this.#filled || this.#replica.isRestoring || this.#replica.isSettling) return;
      // The one before was given up, and this one has come in the same roster.
      if (replicaLog.isOn) this.#goAlone(standby);
    }
    this.#isStandbyFilled = false;
    this.#standby = standby.incarnation;
    if (isEmpty) this.#fill(standby);
    else this.#sendTo(peer.dial(standby.node, standby.address, standby.incarnation));
  }

  /**
   * This server is to leave, and stays as long as it alone has the state of its rank (PlannedStop.P5). Resolves with
   * whether that is so, and it is the head: from now on it fills nobody, and no standby counts. Otherwise it was let
   * go, or the scheduler could not be reached, or what it has is of no use.
   */
  async giveWay(): Promise<boolean> {
    const membership = this.#membership;
    if (membership === undefined || !this.#isUseful) return false;
    const isKept = async (): Promise<boolean> => await membership.leave({ timeoutMs: LET_GO_MS }, { unlessNeeded: true });
    if (this.#replica.isStandby && !((await isKept()) && (await this.#leads()))) return false;
    await this.#standbySettled(membership);
    if (!this.#isUseful) return false;
    this.#replica.isLeaving = true; // what the next line sees of the standby stays so
    const standby = membership.entry(idOf("standby", rankOf(this.#node.peer.id)));
    if (standby?.state !== "alive" || standby.isFilling === true) return true;
    if (!(await isKept())) return false;
    this.#goAlone(standby);
    return true;
  }

  /** False: somebody else has its rank, or it could not repeat what its head did, or does not have everything. */
  get #isUseful(): boolean {
    return this.#node.failure === undefined && !this.#isOver && !this.#replica.standbyLog.hasFailed && !this.#isOrphan;
  }

  /** Waits until this standby, which has taken over, has heard of it. False: it has not within SCHEDULER_BACK_MS. */
  async #leads(): Promise<boolean> {
    const { clock, log } = this.#node;
    let isLate = false;
    const cancel = clock.after(SCHEDULER_BACK_MS, () => {
      isLate = true;
      this.#tell();
    });
    while (this.#replica.isStandby && this.#isUseful && !isLate) await this.#news.promise;
    cancel();
    if (isLate) log.warn("this standby takes over, and the scheduler has not told it so");
    return !this.#replica.isStandby && this.#isUseful;
  }

  /**
   * While a standby is being filled, waits until it has everything and counts, or was given up. One that has everything
   * may count already: the log is on until the scheduler has said whether it does.
   */
  async #standbySettled(membership: Membership): Promise<void> {
    const standby = idOf("standby", rankOf(this.#node.peer.id));
    const isFilling = (): boolean => {
      const { state, isFilling: isEmpty } = membership.entry(standby) ?? {};
      return state === "alive" && isEmpty === true && this.#replica.log.isOn;
    };
    if (isFilling()) this.#node.log.info("leaving as soon as the standby has everything");
    while (isFilling() && !this.#isEnding(membership.roster) && this.#isUseful) await this.#news.promise;
  }

  /** The standby was given up: nothing waits for it any more. */
  #goAlone(standby: RosterEntry): void {
    const { node } = standby;
    const { peer, clock, log } = this.#node;
    const hadNone = standby.incarnation === 0 || this.#standby === 0; // of this process
    if (hadNone) log.info("there is no standby yet", { node: nameOf(node) });
    else clock.after(0, () => this.#logAlone(standby)); // The answer before this roster may have ended the job.
    this.#isStandbyFilled = false;
    this.#replica.endFill();
    this.#replica.log.stop();
    const channel = peer.channel(node);
    if (channel !== undefined) peer.drop(channel, nodeDeadError(node, "left"));
  }

  #logAlone({ node, state }: RosterEntry): void {
    const { peer, log } = this.#node;
    const isOver = peer.isLeaving || (this.#membership !== undefined && this.#isEnding(this.#membership.roster));
    if (isOver && state === "left") log.debug("the standby has left: the job ends", { node: nameOf(node) });
    else log.warn("the standby is gone: going on without one", { node: nameOf(node) });
  }

  /** A standby has come that has nothing (docs/decisions/0068). */
  #fill({ node, address, incarnation }: RosterEntry): void {
    const { peer, log } = this.#node;
    this.#filled = incarnation;
    this.#isStandbyLost = false;
    const before = peer.channel(node);
    if (before !== undefined) peer.drop(before, nodeDeadError(node, "left")); // of the one before
    const channel = peer.dial(node, address, incarnation);
    const failed = (error: unknown): void => this.#giveUpFill(channel, error);
    this.#logTo(channel).onRefused = (error) => this.#lost(channel, error);
    log.info("filling a standby", { node: nameOf(node), incarnation });
    try {
      this.#replica.fill(channel, { failed, filled: () => this.#reportFilled(incarnation) });
    } catch (thrown) {
      failed(thrown);
    }
    this.#watch(channel);
  }

  #reportFilled(incarnation: number): void {
    this.#node.log.info("the standby has everything", { incarnation, entries: this.#replica.log.position });
    this.#isStandbyFilled = true;
    this.#membership?.beatNow();
  }

  /** Nobody counts on it yet: its head goes on without it, and tells the scheduler. */
  #giveUpFill(channel: Channel, error: unknown): void {
    this.#node.log.warn("the standby could not be filled", { node: nameOf(channel.id), reason: reasonOf(error) });
    this.#replica.endFill();
    this.#replica.log.stop();
    this.#isStandbyLost = true;
    this.#membership?.beatNow();
    this.#tell();
  }

  /**
   * A standby whose head is gone before it has everything is of no use: the next head has another state, or none. So is
   * one of which the scheduler has not heard that it has everything, since it cannot lead, and one that was sent
   * nothing yet, unless its head comes back.
   */
  #checkSource(head: RosterEntry, isAwaitingFill: boolean): void {
    const { state, incarnation, node } = head;
    const { isFilling } = this.#replica.repeater;
    if (isFilling && this.#filledBy === 0) this.#filledBy = incarnation;
    const isGone = isFilling ? state !== "alive" || incarnation !== this.#filledBy : isAwaitingFill && !isAwaited(head);
    if (!isGone || this.#isOrphan) return;
    this.#isOrphan = true;
    if (state === "left") {
      this.#node.log.info(`${nameOf(node)} has left: this standby, which had not everything yet, leaves too`);
      this.#end();
      return;
    }
    this.#replica.standbyLog.onDiverged(new WeighbridgeError("NODE_DEAD", `${nameOf(node)} is gone, and had not given it everything`));
  }

  #sendTo(channel: Channel): void {
    if (this.#channel === channel) return;
    this.#logTo(channel).sendTo(standbySink(channel, this.#node.clock));
    this.#watch(channel);
  }

  /** The log, whose news are from now on those of this standby. */
  #logTo(channel: Channel): ReplicaLog {
    this.#channel = channel;
    const { log } = this.#replica;
    log.onLate = () => this.#lost(channel, "it does not answer");
    log.onReplaced = (error) => {
      if (!this.#replica.isLeaving) this.#node.replaced(error); // else it is about to hear that it may go
    };
    log.onAcknowledged = () => {
      this.#isStandbyLost = false;
    };
    return log;
  }

  /** A link that is closed for longer than it takes to dial again: its standby is gone, or cut off. */
  #watch(channel: Channel): void {
    channel.whenUnlinked(() => {
      if (this.#channel !== channel || !this.#replica.log.isOn) return;
      const loss = ++this.#lossCount;
      this.#watch(channel);
      this.#node.clock.after(LINK_GRACE_MS, () => {
        if (this.#channel !== channel) return; // another standby has come meanwhile
        if (this.#lossCount === loss && channel.link === undefined && this.#replica.log.isOn) this.#lost(channel, "there is no link to it");
      });
    });
  }

  #lost(channel: Channel, why: unknown): void {
    if (this.#replica.isLeaving) return; // the log does not go there any more
    if (this.#replica.isFillingStandby) {
      this.#giveUpFill(channel, why);
      return;
    }
    this.#isStandbyLost = true;
    this.#membership?.beatNow();
  }

  /** Whether nobody works any more, in a job that ends with its workers. */
  #isEnding({ nodes }: RosterView): boolean {
    return !this.#node.serves && nodes.every(({ role, state }) => role !== "worker" || state === "left");
  }
}
