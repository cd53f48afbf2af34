// postoffice — a node in ps-lite's words: its rank, the other nodes, barriers (ps-lite: Postoffice, Start, Finalize).
// The node itself belongs to worker, server or scheduler. No singleton: several nodes can live in one process.

import type { Clock } from "../../base/clock.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { ClusterNode, FinalizeOptions } from "../../cluster/cluster-node.ts";
import { groupMembers } from "../../cluster/group-members.ts";
import { simpleRequest } from "../../contracts/kv.ts";
import { evenRanges, type Range } from "../../keys/key-range.ts";
import { AppRegistry } from "../../peer/app-registry.ts";
import type { Channel } from "../../peer/channel.ts";
import type { PeerMetrics } from "../../peer/channel-host.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import type { Server } from "../../server/server.ts";
import { GROUP_MAX, idOf, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { deadNodes, type RosterView } from "../../wire/roster.ts";
import type { Worker } from "../../worker/worker.ts";

/** @internal A WorkerNode, a ServerNode or a SchedulerNode, with the engine of its role. */
export type OfficeNode = ClusterNode & { readonly scheduler?: Scheduler; readonly worker?: Worker | undefined; readonly server?: Server };

/** A node of the job, for applications of the kv face (ps-lite: Postoffice). */
export class Postoffice {
  /** @internal */
  readonly node: OfficeNode;
  readonly role: Role;
  /** @internal */
  readonly clock: Clock;
  /** @internal */
  readonly log: Log;
  /** @internal */
  readonly metrics: PeerMetrics;
  /** @internal The engine of a scheduler and of a server; undefined on nodes of other roles. */
  readonly scheduler: Scheduler | undefined;
  /** @internal */
  readonly server: Server | undefined;
  readonly workerRankToId = (rank: number): number => idOf("worker", rank);
  readonly serverRankToId = (rank: number): number => idOf("server", rank);
  readonly idToRank: (node: number) => number = rankOf;
  readonly isScheduler: boolean;
  readonly isServer: boolean;
  readonly isWorker: boolean;
  /** @internal The applications that serve requests of this face, on workers each with its customers. */
  readonly applications: AppRegistry;

  /** @internal For a node that has not started: requests to its applications may arrive at once. */
  constructor(node: OfficeNode) {
    this.node = node;
    this.role = node.role;
    this.clock = node.clock;
    this.log = node.log;
    this.metrics = node.metrics;
    this.scheduler = node.scheduler;
    this.server = node.server;
    this.isScheduler = this.role === "scheduler";
    this.isServer = this.role === "server";
    this.isWorker = this.role === "worker";
    this.applications = new AppRegistry({ clock: this.clock, byCustomer: this.isWorker });
    node.peer.serveFrames(simpleRequest, this.applications);
    node.closeWith(this.applications);
  }

  /** How many servers and workers the job began with. */
  get numServers(): number {
    return this.node.serverCount;
  }

  get numWorkers(): number {
    return this.node.workerCount;
  }

  /** @internal The engine of a worker, once it has registered. */
  get worker(): Worker | undefined {
    return this.node.worker;
  }

  /** This node's number among all nodes: 1, or 8 + 2 · rank for servers, 9 + 2 · rank for workers. */
  get nodeId(): number {
    return this.node.id;
  }

  /** This node's number within its role, from 0. */
  get myRank(): number {
    return this.node.rank;
  }

  /** True if this node replaced one that died; on a scheduler, if the job was running before it started. */
  get isRecovery(): boolean {
    return this.node.isRecovery;
  }

  /** The error that ended the job, if one did. */
  get failure(): WeighbridgeError | undefined {
    return this.node.failure;
  }

  /** @internal */
  get roster(): RosterView {
    return this.node.roster;
  }

  /** Range i belongs to the i-th server of the placement, by rank: to server i, while all servers take part. */
  serverKeyRanges(): readonly Range[] {
    return evenRanges(this.roster.placement?.servers.length ?? this.numServers);
  }

  /** The nodes of a group (1 to 7) that have not left: workers, servers, scheduler; a node id stands for itself. */
  nodeIds(groupOrNode: number): readonly number[] {
    return groupOrNode > GROUP_MAX ? [groupOrNode] : groupMembers(this.roster, groupOrNode);
  }

  /** The nodes that the scheduler has declared dead and that were not restarted. */
  deadNodes(): readonly number[] {
    return deadNodes(this.roster);
  }

  /** Waits until every member of the group has entered this customer's barrier. NODE_DEAD if one dies meanwhile. */
  async barrier(customerId: number, group: number, options?: WaitOptions): Promise<void> {
    await this.node.barrier(group, customerId, options);
  }

  /** Runs `callback` once, when this node is finalized: after the others are done, before the links close. */
  registerExitCallback(callback: () => void): void {
    this.node.registerExitCallback(callback);
  }

  /** Leaves the cluster; with the barrier (the default) together with all other nodes. See ClusterNode. */
  async finalize(options: FinalizeOptions = {}): Promise<void> {
    await this.node.finalize(options);
  }

  /** Reports that this node leaves: calls to it fail from then on. For a process that ends afterwards; never throws. */
  async leave(): Promise<void> {
    await this.node.leave();
  }

  /** Leaves the cluster without waiting for the others; a `finalize` that waits for them fails with ABORTED. */
  async close(): Promise<void> {
    await this.node.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal For SimpleApp: the channel to a node of another role. Throws NO_ROUTE or NODE_DEAD. */
  channelTo(node: number): Channel {
    if (node !== SCHEDULER_ID && roleOf(node) === this.role && this.roster.nodes.some((entry) => entry.node === node))
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is of this node's own role; requests of applications go to other roles`);
    return this.node.channelTo(node);
  }
}
