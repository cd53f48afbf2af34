// postoffice — a node in ps-lite's words: who am I, who is there, are we all here (ps-lite: Postoffice and Start/Finalize). Not the node itself, which is started
// through it: that is the worker's, the server's or the scheduler's room's. An object: several nodes can live in one process.

import type { Clock } from "../../base/clock.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { ClusterNode, FinalizeOptions } from "../../cluster/cluster-node.ts";
import { simpleRequest } from "../../contracts/applications.ts";
import { evenRanges, type Range } from "../../keys/key-range.ts";
import type { Channel } from "../../peer/channel.ts";
import type { PeerMetrics } from "../../peer/channel-host.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import type { Server } from "../../server/server.ts";
import { GROUP_MAX, idOf, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { deadNodes, groupMembers, type RosterView } from "../../wire/roster.ts";
import type { Worker } from "../../worker/worker.ts";
import type { Customer } from "./customer.ts";
import { SimpleApps, type SimpleServe } from "./simple-apps.ts";

/** A WorkerNode, a ServerNode or a SchedulerNode. */
export type OfficeNode = ClusterNode & {
  /** The engine of the scheduler. */
  readonly scheduler?: Scheduler;
  /** The engine of a worker. */
  readonly worker?: Worker | undefined;
  /** The engine of a server. */
  readonly server?: Server;
};

export class Postoffice {
  readonly node: OfficeNode;
  readonly role: Role;
  readonly clock: Clock;
  readonly log: Log;
  readonly numServers: number;
  readonly numWorkers: number;
  readonly #simpleApps: SimpleApps;

  /** Of a node that has not started: requests to its applications may come at once. */
  constructor(node: OfficeNode) {
    const { role, clock, log, serverCount, workerCount, peer } = node;
    this.node = node;
    this.role = role;
    this.clock = clock;
    this.log = log;
    this.numServers = serverCount;
    this.numWorkers = workerCount;
    this.#simpleApps = new SimpleApps({ clock, byCustomer: role === "worker" });
    peer.serveFrames(simpleRequest, this.#simpleApps);
    node.closeWith(this.#simpleApps);
  }

  /** Starts the node and waits for the rest of the cluster. Throws what went wrong, with everything closed again. */
  static async start(node: OfficeNode): Promise<Postoffice> {
    const office = new Postoffice(node);
    await node.start();
    return office;
  }

  /** The engine of a scheduler; undefined on other nodes. */
  get scheduler(): Scheduler | undefined {
    return this.node.scheduler;
  }

  /** The engine of a worker; undefined on other nodes. */
  get worker(): Worker | undefined {
    return this.node.worker;
  }

  /** The engine of a server; undefined on other nodes. */
  get server(): Server | undefined {
    return this.node.server;
  }

  get isScheduler(): boolean {
    return this.role === "scheduler";
  }

  get isServer(): boolean {
    return this.role === "server";
  }

  get isWorker(): boolean {
    return this.role === "worker";
  }

  /** How long a wait for a request lasts when its caller sets no deadline. */
  get requestTimeoutMs(): number | undefined {
    return this.node.requestTimeoutMs;
  }

  /** This node's number among all nodes: 1, or 8 + 2 · rank for servers, 9 + 2 · rank for workers. */
  get nodeId(): number {
    return this.node.id;
  }

  /** This node's number within its role, from 0. */
  get myRank(): number {
    return this.node.rank;
  }

  /** True when this node took the place of one that died; a scheduler, when the job was running before it came. */
  get isRecovery(): boolean {
    return this.node.isRecovery;
  }

  /** The error that ended the job, if one did. */
  get failure(): WeighbridgeError | undefined {
    return this.node.failure;
  }

  get metrics(): PeerMetrics {
    return this.node.metrics;
  }

  get roster(): RosterView {
    return this.node.roster;
  }

  /** Range i of the keys is that of the i-th server of the placement, in the order of ranks; server i's, while all servers take part. */
  serverKeyRanges(): readonly Range[] {
    return evenRanges(this.roster.placement?.servers.length ?? this.numServers);
  }

  /** The nodes of a group (1 to 7) that have not left: workers, servers, then the scheduler; a node id gives itself. */
  nodeIds(groupOrNode: number): readonly number[] {
    if (groupOrNode > GROUP_MAX) return [groupOrNode];
    return groupMembers(this.roster, groupOrNode);
  }

  /** The nodes that the scheduler has declared dead and nobody has replaced. */
  deadNodes(): readonly number[] {
    return deadNodes(this.roster);
  }

  workerRankToId(rank: number): number {
    return idOf("worker", rank);
  }

  serverRankToId(rank: number): number {
    return idOf("server", rank);
  }

  idToRank(node: number): number {
    return rankOf(node);
  }

  /** Waits until every member of the group stands at the barrier of this customer. Rejects with NODE_DEAD when one dies meanwhile. */
  async barrier(customerId: number, group: number, wait?: WaitOptions): Promise<void> {
    await this.node.barrier(group, customerId, wait);
  }

  /** Called once, when this node is finalized, after the others are done and before the links close. */
  registerExitCallback(callback: () => void): void {
    this.node.registerExitCallback(callback);
  }

  /** Leaves the cluster, with the barrier (the default) together with all other nodes; see ClusterNode. */
  async finalize(options: FinalizeOptions = {}): Promise<void> {
    await this.node.finalize(options);
  }

  /** Tells the others that this node leaves: calls to it fail from then on. For a process that ends right after it; never throws. */
  async leave(): Promise<void> {
    await this.node.leave();
  }

  /** Leaves the cluster without waiting for the others, also when a `finalize` waits for them: that one fails with ABORTED. */
  async close(): Promise<void> {
    await this.node.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** For the applications of this room: where requests for them go. */
  addSimpleApp({ appId, customerId }: Customer, serve: SimpleServe): void {
    this.#simpleApps.add(appId, customerId, serve);
  }

  /** For the applications of this room: the way to a node of another role. Throws NO_ROUTE or NODE_DEAD. */
  channelTo(node: number): Channel {
    if (node !== SCHEDULER_ID && roleOf(node) === this.role && this.roster.nodes.some((entry) => entry.node === node))
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is of this node's own role; requests of applications go to other roles`);
    return this.node.channelTo(node);
  }
}
