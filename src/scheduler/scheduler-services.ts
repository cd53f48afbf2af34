// scheduler-services — serves what the nodes of a running job call beside REGISTER: barriers, rendezvous, units of an
// epoch, generations of workers, the catalogue. Each is decided in a file of its own, and learns of the roster here.

import type { Clock } from "../base/clock.ts";
import { badRequest, type WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { catalogueClear, catalogueFind, catalogueList, catalogueOpen, catalogueReserve, catalogueTell } from "../contracts/catalogue.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { BARRIER } from "../contracts/control.ts";
import { GATHER, RENDEZVOUS, UNITS } from "../contracts/coordination.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import type { ServedFunction } from "../peer/served-function.ts";
import type { CatalogueListRequest, CataloguePage } from "../wire/catalogue.ts";
import type { GatherReply, GatherRequest } from "../wire/collective-frame.ts";
import type { BarrierReply, BarrierRequest, Empty, RendezvousReply, RendezvousRequest } from "../wire/control.ts";
import { FIRST_SERVER_ID, rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import type { UnitsReply, UnitsRequest } from "../wire/units.ts";
import { BarrierService } from "./barrier-service.ts";
import { CatalogueService } from "./catalogue-service.ts";
import { CollectiveService, checkGather } from "./collective-service.ts";
import { DeadNodeWait, type DeadNodeWaitOptions } from "./dead-node-wait.ts";
import type { PendingRegistration } from "./pending-registrations.ts";
import { RendezvousService } from "./rendezvous-service.ts";
import type { Roster } from "./roster.ts";
import type { Decision } from "./roster-decision.ts";
import type { StateJournal } from "./state-journal.ts";
import { UnitService } from "./unit-service.ts";

export type SchedulerServicesOptions = DeadNodeWaitOptions & {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly workerCount: number;
  /** As SchedulerOptions.serves. */
  readonly serves?: boolean | undefined;
  readonly journal: StateJournal;
  readonly roster: Roster<PendingRegistration>;
  /** A member has sent something. */
  readonly heard: (channel: Channel) => void;
  /** Carries out what the roster decides, and reviews the services unless told otherwise. */
  readonly carryOut: (decisions: readonly Decision<PendingRegistration>[], options?: { readonly isReviewed: boolean }) => void;
};

export class SchedulerServices {
  readonly #options: SchedulerServicesOptions;
  readonly #roster: Roster<PendingRegistration>;
  readonly #barriers: BarrierService;
  readonly #deadWait: DeadNodeWait;
  readonly #collectives = new CollectiveService();
  readonly #units: UnitService;
  readonly #rendezvous: RendezvousService;
  readonly #catalogue: CatalogueService;
  #isStartTold = false;

  constructor(options: SchedulerServicesOptions) {
    this.#options = options;
    this.#roster = options.roster;
    this.#barriers = new BarrierService(
      () => [{ node: SCHEDULER_ID, role: "scheduler", state: "alive" }, ...this.#roster.view().nodes],
      options,
    );
    this.#deadWait = new DeadNodeWait(options.serves === true ? { ...options, giveUp: (error) => this.#giveUpDead(error) } : options);
    this.#units = new UnitService(options);
    this.#rendezvous = new RendezvousService(options);
    this.#catalogue = new CatalogueService(options);
  }

  serve(): void {
    const catalogue = this.#catalogue;
    this.#serve(BARRIER, ({ id }, request) => this.enterBarrier(id, request));
    this.#serve(UNITS, (channel, request) => this.#lend(channel, request));
    this.#serve(RENDEZVOUS, (channel, request) => this.#meet(channel, request));
    this.#serve(catalogueOpen, (_, request) => catalogue.open(request));
    this.#serve(catalogueReserve, (_, request) => catalogue.reserve(request));
    this.#serve(catalogueFind, (_, request) => catalogue.find(request));
    this.#serve(catalogueClear, (_, request) => catalogue.clear(request));
    this.#serve(catalogueTell, (channel, page) => this.#recallCatalogue(channel, page));
    const { peer, journal, heard } = this.#options;
    const list = (channel: Channel, request: CatalogueListRequest): Promise<CataloguePage> => {
      if (channel.id >= FIRST_SERVER_ID) heard(channel); // programs of the command line are no nodes
      return catalogue.list(request);
    };
    peer.serve(serveDurably(journal, catalogueList, list));
    peer.serve(serveDurably(journal, GATHER, (channel, request) => this.#gather(channel, request)));
  }

  /** The nodes that stand at the last barrier. */
  get leaving(): ReadonlySet<number> {
    return this.#barriers.leaving;
  }

  /** Whether everybody has passed the barrier of the start. */
  get hasStarted(): boolean {
    return this.#barriers.hasStarted(this.#roster.isResumed);
  }

  /** A node, or the scheduler itself, stands at a barrier. */
  async enterBarrier(node: number, request: BarrierRequest): Promise<BarrierReply> {
    const entered = this.#barriers.enter(node, request);
    this.#collectives.review(this.#there);
    this.#reviewDead();
    this.#tellStart();
    return await entered;
  }

  /** The roster has changed. */
  review(): void {
    const roster = this.#roster;
    this.#barriers.review();
    this.#units.follow(roster.view(), { isSettled: roster.hasHeardWorkers });
    this.#rendezvous.follow(roster.view());
    this.#catalogue.follow(roster.view(), roster.hasHeardEverybody);
    this.#collectives.review(this.#there);
    this.#endGenerations();
    this.#reviewDead();
    this.#tellStart();
  }

  /** The process of a worker has ended; unless another one comes for its rank, nobody waits for it. */
  unclosed({ node, isAwaited, exitCode }: { readonly node: number; readonly isAwaited: boolean; readonly exitCode: number }): void {
    if (!isAwaited && exitCode !== 0) this.#deadWait.ended(node, exitCode);
  }

  died(node: number, how: { readonly goesOn: boolean }): void {
    this.#barriers.died(node, how);
    if (roleOf(node) === "worker") this.#units.died(rankOf(node));
    this.#collectives.died(node);
  }

  /** What a node reports after a restart of the scheduler. One that was there from the start knows better. */
  recall(node: number, incarnation: number, { role, passed, units, rendezvous, catalogue, gathered }: PendingRegistration): void {
    this.#barriers.recall(node, passed);
    this.#collectives.recall(gathered, this.#roster.view().endedGeneration);
    if (!this.#roster.isResumed) return;
    if (role === "worker") this.#units.recall(rankOf(node), units);
    this.#rendezvous.recall(rendezvous);
    this.#catalogue.resumed(node, incarnation, catalogue);
  }

  /** Nobody waits any more. */
  close(error: WeighbridgeError): void {
    this.#deadWait.close();
    this.#barriers.close(error);
    this.#units.close(error);
    this.#rendezvous.close(error);
    this.#catalogue.close(error);
  }

  #serve<Q, R>(fn: JsonContract<Q, R>, answer: (channel: Channel, request: Q) => R | Promise<R>): void {
    const { peer, journal, heard } = this.#options;
    const serve = (channel: Channel, request: Q): R | Promise<R> => {
      heard(channel);
      return answer(channel, request);
    };
    peer.serve(serveDurably(journal, fn, serve));
  }

  #lend({ id, name }: Channel, request: UnitsRequest): UnitsReply | Promise<UnitsReply> {
    if (roleOf(id) !== "worker") throw badRequest(`units are lent to workers, not to ${name}`);
    return this.#units.request(rankOf(id), request);
  }

  #meet({ id, incarnation, name }: Channel, request: RendezvousRequest): RendezvousReply | Promise<RendezvousReply> {
    if (roleOf(id) !== "worker") throw badRequest(`a rendezvous is for workers, and ${name} is none`);
    return this.#rendezvous.come({ rank: rankOf(id), incarnation }, request);
  }

  #recallCatalogue({ id, incarnation }: Channel, page: CataloguePage): Empty {
    if (this.#roster.isResumed) this.#catalogue.tell(id, incarnation, page);
    this.#catalogue.follow(this.#roster.view(), this.#roster.hasHeardEverybody);
    return {};
  }

  async #gather(channel: Channel, request: GatherRequest): Promise<GatherReply> {
    const { clock, carryOut, heard } = this.#options;
    checkGather(channel, request);
    const { id: node, incarnation } = channel;
    const { step, address, generation } = request;
    const service = this.#collectives;
    if (step === "leave") service.leave(node);
    if (step === "look") heard(channel);
    else carryOut(this.#roster.listens(node, incarnation, step === "enter" ? address : "", clock.nowMs()));
    if (step === "look") return { ...service.standing, roster: this.#roster.view() };
    const entered = step === "enter" ? service.enter({ node, incarnation, generation }, this.#there) : undefined;
    if (entered === undefined) service.review(this.#there);
    this.#endGenerations();
    return { ...(entered === undefined ? service.standing : await entered), roster: this.#roster.view() };
  }

  get #there(): { readonly nodes: readonly RosterEntry[]; readonly leaving: ReadonlySet<number> } {
    return { nodes: this.#roster.view().nodes, leaving: this.leaving };
  }

  #endGenerations(): void {
    this.#options.carryOut(this.#roster.endGeneration(this.#collectives.ended), { isReviewed: true });
  }

  /** Guests wait for the barrier of the start (GuestDoor.G1): the roster looks at them once that is over. */
  #tellStart(): void {
    if (this.#isStartTold || !this.hasStarted) return;
    this.#isStartTold = true;
    this.#options.carryOut(this.#roster.tick(this.#options.clock.nowMs()));
  }

  /** In a job that serves, workers alone wait for dead ones (BarrierService.B1), and the job outlasts them. */
  #reviewDead(): void {
    const roster = this.#roster.view();
    const { leaving } = this.#barriers;
    if (this.#options.serves !== true || this.#roster.isOver) this.#deadWait.review(roster, leaving);
    else {
      const nodes = roster.nodes.filter(({ role }) => role === "worker");
      this.#deadWait.review({ ...roster, nodes }, new Set([SCHEDULER_ID, ...leaving]));
    }
  }

  #giveUpDead({ message }: WeighbridgeError): void {
    this.#options.log.warn("dead workers are given up, and the cluster serves on", { reason: message });
    this.#options.dismiss();
  }
}

/** Serves a function whose answers, failures too, leave when what was decided before them is durable (Scheduler.D5). */
export function serveDurably<Q, R>(
  journal: StateJournal,
  fn: JsonContract<Q, R>,
  serve: (channel: Channel, request: Q) => R | Promise<R>,
): ServedFunction<Channel> {
  return serveJson(fn, (channel, request) => {
    try {
      return journal.answer(serve(channel, request));
    } catch (thrown) {
      const durable = journal.whenDurable();
      if (durable === undefined) throw thrown;
      return durable.then(() => Promise.reject(thrown));
    }
  });
}
