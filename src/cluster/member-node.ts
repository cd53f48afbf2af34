// member-node — a node that registers with the scheduler: what servers and workers have in common beyond every node.

import type { WaitOptions } from "../base/deferred.ts";
import { asError, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { PeerOptions } from "../peer/peer-options.ts";
import type { Address } from "../transport/transport.ts";
import type { Role } from "../wire/node-id.ts";
import type { ResumeClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";
import { ClusterNode } from "./cluster-node.ts";
import { Membership, type ProcessEnding } from "./membership.ts";
import type { MemberOptions } from "./node-options.ts";
import { reportStartFailure } from "./start-failure.ts";

/** A container that is ended gets ten seconds. */
export const LEAVE_DEADLINE_MS = 2000;

export abstract class MemberNode extends ClusterNode {
  readonly #options: MemberOptions;
  #membership: Membership | undefined;
  /** Of a node that comes back with state of a process before it; set before it registers. */
  protected claim: ResumeClaim | undefined;
  /** Whether another process goes on with the state that this node leaves. */
  protected returns: boolean | undefined;

  constructor(role: Role, options: MemberOptions, peer: Pick<PeerOptions, "readBuffers" | "limits">) {
    super(role, options, peer);
    this.#options = options;
  }

  get roster(): RosterView {
    return this.#membership?.roster ?? { version: 0, nodes: [] };
  }

  get isRecovery(): boolean {
    return this.#membership?.recovery ?? false;
  }

  override async leave(): Promise<void> {
    await super.leave();
    await this.#membership?.leave({ timeoutMs: this.leaveMs }, { returns: this.returns });
  }

  /** How long it waits for the scheduler to hear that it leaves. */
  protected get leaveMs(): number {
    return LEAVE_DEADLINE_MS;
  }

  /** Whether somebody may wait for something of this node: it starts, leaves, or has a call open. */
  get isBusy(): boolean {
    return this.isFinalizing || this.#membership?.isBusy !== false;
  }

  /** As Membership.processEnds. */
  processEnds(how: ProcessEnding): void {
    this.#membership?.processEnds(how);
  }

  /** As what this node registers. */
  protected get registersAs(): Role {
    return this.role;
  }

  /** Does what must work before this node registers. */
  protected async prepare(): Promise<void> {}

  /** The node is about to register: what follows the roster is made now. */
  protected abstract registering(membership: Membership): void;

  /** The node has its rank. When this throws, the cluster that starts with the node ends with that reason. */
  protected abstract registered(membership: Membership): Promise<void>;

  protected missing(): string | Promise<string> {
    return this.#membership?.missing() ?? "";
  }

  protected missingAtEnd(): string | Promise<string> {
    return this.#membership?.missingAtEnd() ?? "";
  }

  protected async enterBarrier(group: number, customer: number, wait: WaitOptions, outlivesDeaths: boolean): Promise<void> {
    await this.#membership?.barrier(group, customer, wait, outlivesDeaths);
  }

  protected async depart(_wait: WaitOptions & { readonly isTogether: boolean }): Promise<void> {
    await this.#membership?.leave(undefined, { returns: this.returns });
  }

  protected async release(): Promise<void> {
    this.#membership?.close();
  }

  protected async join(): Promise<void> {
    const { rank, label = "", schedulerAddress, otherSchedulers, linkTimeoutMs, copy, returns, hasNoClock, pulse } = this.#options;
    const { peer, clock, log, registersAs: role, serverCount, workerCount, startTimeoutMs, waits } = this;
    const address = await this.#listen();
    // PlannedStop.P4
    if (peer.isLeaving) throw new WeighbridgeError("CLOSED", "this node was stopped while it prepared");
    const common = { peer, clock, log, role, rank, address, label, serverCount, workerCount, copy, returns, hasNoClock, pulse };
    const membership = new Membership({ ...common, schedulerAddress, otherSchedulers, startTimeoutMs, linkTimeoutMs, waits });
    this.#membership = membership;
    membership.onRoster((roster) => this.follow(roster));
    membership.onFatal((error) => this.fail(error));
    this.registering(membership);
    await membership.join(this.claim);
    if (role !== "guest") ({ serverCount: this.serverCount, workerCount: this.workerCount } = membership.counts);
    try {
      await this.registered(membership);
    } catch (thrown) {
      const { code, message } = asError(thrown, "HANDLER_FAILED");
      // the others wait at the start barrier
      await membership.leave({ timeoutMs: LEAVE_DEADLINE_MS }, { failure: { code, message } });
      throw thrown;
    }
  }

  /** Returns this node's address; "" if it does not listen. Reports a failure to the scheduler, for the others. */
  async #listen(): Promise<Address> {
    const { rank, label = "", schedulerAddress, otherSchedulers, listenAddress, advertise = (bound) => bound } = this.#options;
    const { peer, clock, log, registersAs: role, serverCount, workerCount } = this;
    try {
      await this.prepare();
      return listenAddress === undefined ? "" : advertise(await peer.listen(listenAddress));
    } catch (thrown) {
      const node = { role, rank, label, serverCount, workerCount };
      if (isWeighbridgeError(thrown)) await reportStartFailure({ peer, clock, log, schedulerAddress, otherSchedulers, node }, thrown);
      throw thrown;
    }
  }
}
