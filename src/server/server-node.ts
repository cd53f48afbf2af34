// server-node — a server of the cluster: its arena, its engine, and the checkpoint that it restores before it serves.

import { Deferred, sleep, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { randomToken } from "../base/random.ts";
import { CatalogueCalls, rememberCatalogue } from "../cluster/catalogue-calls.ts";
import { REENTER_MS } from "../cluster/last-barrier.ts";
import { MemberNode } from "../cluster/member-node.ts";
import type { Membership } from "../cluster/membership.ts";
import type { MemberOptions } from "../cluster/node-options.ts";
import { checkSender } from "../cluster/scheduler-calls.ts";
import type { Contract } from "../contracts/contract.ts";
import { PREPARE } from "../contracts/control.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import { Arena } from "../kernel/arena.ts";
import { nodeDeadError } from "../peer/call.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { ChannelLimits } from "../peer/channel-host.ts";
import type { PlugInModule } from "../store/plug-ins.ts";
import type { SnapshotFiles, SnapshotSource } from "../store/snapshot/snapshot-files.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { PrepareReply, PrepareRequest } from "../wire/control.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { Group, idOf, type Role, rankOf, roleOf } from "../wire/node-id.ts";
import type { CopyClaim, ResumeClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";
import { PartsExchange } from "./copy/parts-exchange.ts";
import { ChainMember, checkReplication } from "./replication/chain-member.ts";
import { exchangeLogOf } from "./replication/exchange-entries.ts";
import type { DurableLog } from "./replication/log-sink.ts";
import { PlannedStop, type PlannedStopFiles } from "./replication/planned-stop.ts";
import { isClient } from "./replication/replica.ts";
import { partFrom } from "./retirement.ts";
import { ArenaReadBuffers, Server, serverLimits } from "./server.ts";
import { SCHEDULER_BACK_MS } from "./stop-bounds.ts";

/** The default size: a GiB of addresses stays for updates and checkpoints of a full server (Arena.A5). */
const ARENA_BYTES = 3 * 2 ** 30;

/** How long a server that is stopped waits for the whole job to end with it: processes of one get signals together. */
const TOGETHER_MS = 300;

/** The highest, which no barrier of a program is likely to have. */
const END_CUSTOMER = 0xffff;

export type ServerNodeOptions = MemberOptions & {
  readonly arenaBytesMax?: number | undefined;
  /** False: the pages of tables that grow are not touched before they are needed. Defaults to true. */
  readonly touchesAhead?: boolean | undefined;
  /** Called once, with their memory, when the first parameter or the first sums are made. Must not throw. */
  readonly onState?: ((arena: Arena) => void) | undefined;
  /** PS functions of the user's own, beside the built-in ones. */
  readonly functions?: readonly PsFunction[];
  /** Modules with row types and updaters of the user's own. */
  readonly plugIns?: readonly PlugInModule[] | undefined;
  /** For parameters whose links need it. Without it they cannot be made. */
  readonly compression?: GeneralCompression | undefined;
  /** The files of checkpoints. Without them none can be taken. */
  readonly checkpointFiles?: SnapshotFiles | undefined;
  /** By how many processes each server rank is held: 1, or 2 for a head and a standby. Defaults to 1. */
  readonly replicas?: number | undefined;
  /** Where this node runs, and what its twin must have in common with it; left out, it runs by itself. */
  readonly copyOf?: Omit<CopyClaim, "replicas"> | undefined;
  /** Asks to be a standby. Left out, the scheduler decides which of two copies of a rank leads. */
  readonly isStandby?: boolean | undefined;
  /** After how many entries a head and its standby compare what they have. */
  readonly digestEntries?: number | undefined;
  /** How much of its state a standby that comes later gets in one turn. */
  readonly fillBytes?: number | undefined;
  /** Where its log goes, so that it comes back with all that it acknowledged (docs/decisions/0071). */
  readonly durable?: DurableLog | undefined;
  /** How large that log grows before the state is written anew. */
  readonly refillBytes?: number | undefined;
  /**
   * Where a server that is not durable leaves its state when it is stopped and has no standby (docs/decisions/0070).
   */
  readonly stops?: PlannedStopFiles | undefined;
  /** The checkpoint that the server restores first. */
  readonly restoreFrom?: (() => Promise<SnapshotSource>) | undefined;
  /** The server begins empty where `restoreFrom` finds none. */
  readonly mayBeginEmpty?: boolean | undefined;
  /** Whether the job may end while servers alone are there, when its scheduler is told to (SchedulerOptions.serves). */
  readonly serves?: boolean | undefined;
};

export class ServerNode extends MemberNode {
  readonly server: Server;
  /**
   * Called when all nodes are done, before this one leaves. If it throws, the job was not saved: this node leaves, ends
   * with that error, and a durable one keeps its log.
   */
  beforeEnd: () => Promise<void> = async () => {};
  readonly #restoreFrom: (() => Promise<SnapshotSource>) | undefined;
  readonly #mayBeginEmpty: boolean;
  readonly #limits: Partial<ChannelLimits>;
  /** Whether it asks to be a standby. */
  readonly #isStandby: boolean;
  readonly #chain: ChainMember | undefined;
  readonly #durable: DurableLog | undefined;
  readonly #stop: PlannedStop | undefined;
  #hasBegun = false;
  #isClosedToClients = false;
  #leaving: Promise<void> | undefined;
  /** Whether it has, or had, values of the kv face or data of pushData. */
  #holdsSums = false;
  /** It has left, and the other process of its rank has what it had. */
  #isHandedOver = false;
  /** Resolves when it has begun, or failed to, with what a process before has left. */
  readonly #cameBack = new Deferred<void>();
  /** Whether no part is its own any more, and it is to leave. */
  #isRetired = false;
  #membership: Membership | undefined;
  /** Parts that come and go with the placement. */
  readonly exchange: PartsExchange;
  readonly #serves: boolean;
  /** All nodes have passed the last barrier. */
  #isTogether = false;
  readonly #together = new Deferred<void>();
  /** What servers take note of once parts that come or go have settled (PartsExchange.E2). */
  #laterRoster: RosterView | undefined;
  /** How many workers share the links' part of the arena. */
  #sharerCount: number;

  constructor(options: ServerNodeOptions) {
    const arena = new Arena({ bytesMax: options.arenaBytesMax ?? ARENA_BYTES, reserve: true, touchesAhead: options.touchesAhead });
    const { workerCount, functions = [], plugIns, compression, checkpointFiles, limits = {} } = options;
    checkReplication(options);
    super(
      "server",
      { ...options, copy: copyClaim(options), returns: options.durable === undefined ? undefined : true },
      { readBuffers: new ArenaReadBuffers(arena), limits: serverLimits(arena, workerCount, limits) },
    );
    const { clock, log } = this;
    this.#restoreFrom = options.restoreFrom;
    this.#serves = options.serves === true;
    this.#mayBeginEmpty = options.mayBeginEmpty === true;
    this.#limits = limits;
    this.#sharerCount = workerCount;
    const { isStandby = false, replicas = 1, durable, digestEntries, fillBytes, refillBytes, stops } = options;
    const isAlone = replicas === 1 && durable === undefined;
    const isForStops = isAlone && stops !== undefined;
    const host = this.peer;
    const replica = isAlone && !isForStops ? undefined : { clock, log, durable, digestEntries, fillBytes, refillBytes, isForStops, host };
    this.server = new Server({ arena, clock, workerCount, functions, plugIns, compression, checkpointFiles, replica, log });
    this.#isStandby = isStandby;
    this.#chain = this.server.replica === undefined ? undefined : new ChainMember(this, this.server.replica);
    this.#durable = durable;
    if (stops !== undefined && durable === undefined && this.server.replica !== undefined) {
      const problem = (): string => this.server.stopProblem;
      this.#stop = new PlannedStop({
        ...stops,
        log,
        replica: this.server.replica,
        plugIns: plugIns ?? [],
        serves: () => this.serves,
        problem,
      });
    }
    if (durable !== undefined) durable.onFailed = (error) => this.#diskFailed(error);
    const { ownership, parameters, groups, departure, checkpoints } = this.server;
    const onLeft = (error: WeighbridgeError): void => checkpoints.left(error);
    const journal = this.server.replica && exchangeLogOf(this.server.replica.log);
    this.exchange = new PartsExchange({ ownership, parameters, groups, departure, clock, log, node: this, onLeft, journal });
    if (this.server.replica !== undefined) this.server.replica.repeater.exchange = this.exchange;
    checkpoints.beforeCut = () => departure.dropAll(); // PartsDeparture.D3
    ownership.onChange(() => this.#catchUp());
    this.server.serve(this.peer);
    this.server.workers.node = this;
    let { onState } = options;
    this.server.parameters.onState = () => {
      onState?.(arena);
      onState = undefined;
    };
  }

  /** Resolves when no part is this server's any more, and it is to leave (ScalingPart.P2). */
  get retired(): Promise<void> {
    return this.server.scaling.retired;
  }

  /** Whether the job goes on without workers: by its own options, or as its scheduler says. */
  get serves(): boolean {
    return this.#serves || this.#membership?.serves === true;
  }

  /** Its standby has taken over. */
  replaced(error: WeighbridgeError): void {
    this.fail(error);
  }

  /** What the disk has, the next process goes on with. */
  #diskFailed(error: WeighbridgeError): void {
    this.returns = true;
    this.fail(error);
  }

  override get hasSuccessor(): boolean {
    return this.returns === true || this.#isHandedOver;
  }

  /** A server whose state is on a disk by then is waited for. Once, also if it is told so again. */
  override async leave(): Promise<void> {
    this.#leaving ??= this.#leave();
    await this.#leaving;
  }

  async #leave(): Promise<void> {
    if (await this.#endsWithJob()) return;
    // PlannedStop.P4: the scheduler may have let it go on already.
    if (this.claim !== undefined && !this.#hasBegun) await Promise.race([this.#cameBack.promise, sleep(this.clock, SCHEDULER_BACK_MS)]);
    const membership = this.#hasBegun ? this.#membership : undefined;
    if (membership !== undefined && !this.#isRetired) {
      const isAlone = await this.#chain?.giveWay();
      this.#isHandedOver = isAlone === false && this.failure === undefined;
      if (isAlone === true) await this.#save(membership);
    }
    if ((this.#durable !== undefined && !this.#isRetired) || this.#stop?.isSaved === true) this.returns = true;
    await super.leave();
    if (this.#isRetired) await this.#durable?.remove(); // another server has what it had
    if (this.returns !== true) return;
    this.server.replica?.close(); // nothing more is acknowledged
    await this.#durable?.close();
    await this.#stop?.close();
  }

  /**
   * Of a job that serves: whether it ends in order, as when the signal was for all of its processes. Then this server
   * saves and leaves with the others.
   */
  async #endsWithJob(): Promise<boolean> {
    if (this.serves) await Promise.race([this.#together.promise, sleep(this.clock, TOGETHER_MS)]);
    if (!this.#isTogether) return false;
    await this.closed;
    return true;
  }

  /** Nobody takes over: leaves the state for the next process of the rank, or says that it is lost. */
  async #save({ job, node, incarnation, roster }: Membership): Promise<void> {
    if (this.#stop !== undefined) {
      const wait = { timeoutMs: this.startTimeoutMs }; // the scheduler may be away: then nothing settles
      await waitFor(this.server.stopping(), "parts to settle", this.clock, wait).catch(() => {}); // `save` says so
      await this.#stop.save({ job, node, incarnation, roster }, this.rank);
    } else if (this.#durable === undefined && this.hasWorkers())
      this.log.warn("there is no standby that could take over: what this server has is lost with it");
  }

  /** Until the scheduler has heard that another process goes on for it, this one serves (PlannedStop.P7). */
  protected override get leaveMs(): number {
    return this.returns === true ? SCHEDULER_BACK_MS : super.leaveMs;
  }

  protected override get registersAs(): Role {
    return this.#isStandby ? "standby" : this.role;
  }

  protected override async prepare(): Promise<void> {
    // Only to check that it opens: which one is the newest may change until this node has its rank.
    await this.#unlessNone(async () => await (await this.#restoreFrom?.())?.close());
    await this.server.replica?.openDurable();
    await this.#stop?.open();
  }

  /** Undefined where no checkpoint is there and the server may begin without. */
  async #unlessNone<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (thrown) {
      if (this.#mayBeginEmpty && isWeighbridgeError(thrown, "CHECKPOINT_MISSING")) return undefined;
      throw thrown;
    }
  }

  /** Calls a function of a server of this job, of this one too. Rejects as `call`, UNKNOWN_FUNCTION. */
  async callServer<Q extends Fields, R extends Fields>(rank: number, fn: Contract<Q, R>, request: FieldValues<Q>): Promise<FieldValues<R>> {
    if (rank !== this.rank) return await this.call(idOf("server", rank), fn, request);
    return await this.server.callItself({ worker: this.id, incarnation: this.peer.incarnation }, fn, request);
  }

  /** What the disk of a durable server has, it claims from the scheduler. */
  #claimOf({ memory }: Membership): ResumeClaim | undefined {
    const identity = this.server.replica?.repeater.identity;
    return identity && { ...identity, passed: [], ...memory.claim(), isStored: true };
  }

  protected registering(membership: Membership): void {
    const { ownership, epochWait, parameters, checkpoints } = this.server;
    rememberCatalogue(membership, parameters, this.log);
    membership.guests = {
      check: (hello) => {
        if (this.#isClosedToClients) throw new WeighbridgeError("NO_ROUTE", "the job ends, and is being saved", { retryable: true });
        parameters.checkOpen();
        this.server.guests.check(hello);
      },
    };
    this.server.guests.onGone = (node) => {
      const channel = this.peer.channel(node);
      if (channel !== undefined) this.peer.drop(channel, nodeDeadError(node, "left")); // GuestList.L1
    };
    parameters.sums.onSums = () => {
      parameters.onState();
      if (this.#holdsSums) return;
      this.#holdsSums = true; // the next incarnation of its rank learns from the scheduler that they existed
      membership.beatNow();
    };
    membership.memory.heartbeat = () => ({ ...(this.#holdsSums ? { holdsSums: true } : {}), ...this.#chain?.standbyNews() });
    membership.onRoster(() => {
      const { node } = membership;
      const { sumsIncarnation = 0, incarnation = 0, continues = incarnation } = membership.entry(node) ?? {};
      if (sumsIncarnation < continues && sumsIncarnation > 0) checkpoints.noteLostSums({ node, incarnation, sumsIncarnation });
    });
    membership.onPlacement(() => this.#followPlacement(membership));
    // Also one that did not come from the scheduler.
    ownership.onChange(() => ownership.placement && membership.adoptPlacement(ownership.placement));
    this.peer.serve(
      serveJson(PREPARE, async (channel, request) => {
        checkSender(channel, "PREPARE");
        return await this.#prepare(request, membership);
      }),
    );
    this.server.scaling.waitOn = () => membership.waitOn();
    this.#chain?.registering(membership);
    this.#membership = membership;
    this.claim = this.#claimOf(membership);
    epochWait.requestPlacement = () => membership.fetchPlacement();
    if (this.#restoreFrom !== undefined && this.claim === undefined) parameters.isRestoring = true;
  }

  protected async registered(membership: Membership): Promise<void> {
    await this.#begin(membership).finally(() => this.#cameBack.resolve());
  }

  async #begin(membership: Membership): Promise<void> {
    if (this.claim !== undefined) membership.memory.resumed();
    const { checkpoints } = this.server;
    checkpoints.joined(membership.job, new CatalogueCalls({ membership, clock: this.clock }));
    if (this.#restoreFrom !== undefined && this.claim === undefined) await this.#restore(membership, this.#restoreFrom);
    if (this.claim !== undefined) await this.#stop?.begun();
    this.#hasBegun = true;
    this.server.begun();
    this.#chain?.follow(membership.roster);
  }

  /** A standby that came later gets what its head has instead, a server that was added what others give it. */
  async #restore({ node, recovery, placement }: Membership, from: () => Promise<SnapshotSource>): Promise<void> {
    const { checkpoints, parameters: own } = this.server;
    const isAdded = placement?.servers.includes(rankOf(node)) === false;
    if (isAdded || (roleOf(node) === "standby" && recovery)) {
      own.isRestoring = false;
      return;
    }
    const loaded = await this.#unlessNone(async () => await checkpoints.loads.load(from, { owner: "the start" }));
    if (loaded === undefined) {
      own.isRestoring = false;
      this.log.warn("there is no checkpoint to resume from yet: beginning empty");
      return;
    }
    const { path, step, clock, parameters } = loaded;
    await checkpoints.loads.activate(step);
    const fields = { path, clock, parameters: parameters.length };
    if (recovery) this.log.warn("going on from a checkpoint: what came after it is gone", fields);
    else this.log.info("restored a checkpoint", fields);
  }

  async #prepare(request: PrepareRequest, { roster }: Membership): Promise<PrepareReply> {
    const { epoch, holdMs, awaits, roster: version = 0 } = request;
    if (awaits === "arrival") await this.exchange.arrived(epoch);
    if (awaits === "service") await this.exchange.served(epoch);
    if (awaits !== undefined) return {};
    if (holdMs === 0) {
      this.server.prepare(request);
      return {};
    }
    if (roster.version < version)
      throw new WeighbridgeError("QUEUE_FULL", `server ${this.rank} has an older roster than ${version}`, { retryable: true });
    const reply = this.exchange.weigh(request);
    this.server.prepare(request);
    return reply;
  }

  /** A standby adopts the first placement, and those that its head has, as the log tells of them (PartsExchange.E4). */
  #followPlacement(membership: Membership): void {
    const { node, roster } = membership;
    const { placement, handedOver } = roster;
    const isFollowing = roleOf(node) === "standby" && (this.server.ownership.epoch > 0 || membership.entry(node)?.isFilling === true);
    if (placement !== undefined && !isFollowing) this.exchange.follow(placement, rankOf(node), handedOver);
  }

  /** PartsExchange.E2 */
  #catchUp(): void {
    const roster = this.#laterRoster;
    if (roster === undefined || this.server.ownership.isSettling) return;
    this.#laterRoster = undefined;
    this.server.follow(roster);
    this.#chain?.follow(roster); // a standby that has come meanwhile is filled
  }

  /**
   * Whether somebody else holds this server's rank: it is about to hear that it is FENCED (Membership). A head that
   * first read here that it has no standby any more would let answers go that only its log has (Availability.I1).
   */
  #isReplaced({ nodes }: RosterView): boolean {
    const { id, incarnation } = this.peer;
    return roleOf(id) === "server" && nodes.some((entry) => entry.node === id && entry.incarnation > incarnation);
  }

  protected override follow(roster: RosterView): void {
    if (this.#isReplaced(roster)) return;
    super.follow(roster);
    // Before it is taken note of who has died: until parts have settled that waits (PartsExchange.E2).
    if (this.#membership !== undefined) this.#followPlacement(this.#membership);
    this.server.handedOver(roster.handedOver ?? 0);
    this.#chain?.follow(roster);
    if (this.#membership !== undefined) this.#followPlacement(this.#membership); // it may have taken over just now
    this.#followRetirement(roster);
    if (this.#membership !== undefined) {
      const { job, node, incarnation } = this.#membership;
      this.server.replica?.identify({ job, node, incarnation, roster });
    }
    if (this.server.ownership.isSettling) this.#laterRoster = roster;
    else this.server.follow(roster);
    const workers = roster.nodes.filter(({ role }) => role === "worker").length;
    if (workers <= this.#sharerCount) return;
    this.#sharerCount = workers;
    this.peer.limits = { ...this.peer.limits, ...serverLimits(this.server.arena, workers, this.#limits) };
  }

  /** What it has refused by then its callers hear, also if they would have to wait for its standby (ReplicaLog.I1). */
  #followRetirement({ nodes }: RosterView): void {
    const own = nodes.find(({ node, incarnation }) => node === this.id && incarnation === this.peer.incarnation);
    if (own?.isRetired !== true || this.#isRetired) return;
    this.#isRetired = true;
    this.#part()
      .then(() => this.server.scaling.retire())
      .catch(() => {}); // It does not reject.
  }

  async #part(): Promise<void> {
    const { guests, ownership, replica } = this.server;
    const isThere = ({ id }: Channel): boolean =>
      guests.has(id) || this.roster.nodes.some(({ node, role, state }) => node === id && role === "worker" && state === "alive");
    const clients = [...this.peer.channels()].filter(isThere);
    if (ownership.placement !== undefined) await partFrom(clients, ownership.placement, this.clock);
    await replica?.log.whenCommitted();
  }

  /** The last barrier is not waited for by a server that is to leave before the others (ScalingPart.P2). */
  protected override async enterBarrier(group: number, customer: number, wait: WaitOptions, outlivesDeaths: boolean): Promise<void> {
    const isStandby = roleOf(this.id) === "standby";
    const entered = super.enterBarrier(group, customer, wait, outlivesDeaths);
    try {
      await (outlivesDeaths ? Promise.race([entered, this.server.scaling.retired]) : entered);
    } catch (thrown) {
      if (!isStandby || wait.signal?.aborted === true || !isWeighbridgeError(thrown, "ABORTED")) throw thrown;
      // The slot of a standby that takes over is free; it may hear that first. One that was given up is FENCED.
      if (outlivesDeaths) throw new WeighbridgeError("NODE_DEAD", thrown.message, { retryable: true, cause: thrown });
      await sleep(this.clock, REENTER_MS); // as the server that it is then
      this.checkAlive();
      await this.enterBarrier(group, customer, wait, outlivesDeaths);
    }
  }

  /**
   * Serves no client from now on, and waits until no other server does that takes part in the end: a barrier of servers
   * alone, and those that do not have left. One that is dead is not waited for. Throws DEADLINE.
   */
  async closeToClients(wait: WaitOptions): Promise<void> {
    this.#isClosedToClients = true;
    for (const channel of this.peer.channels()) if (isClient(channel.id)) channel.link?.destroy();
    await this.#membership?.barrier(Group.SERVERS, END_CUSTOMER, wait).catch((thrown: unknown) => {
      if (!isWeighbridgeError(thrown, "NODE_DEAD")) throw thrown;
    });
    this.server.parameters.pacer.rounds.end();
  }

  /** Whether it has a log on a disk. */
  get isDurable(): boolean {
    return this.#durable !== undefined;
  }

  /** Resolves when the server of this rank has left or died, as soon as this node hears of it. */
  async whenServerGone(rank: number): Promise<"left" | "dead"> {
    const gone = new Deferred<"left" | "dead">();
    const look = (): void => {
      const { state = "left" } = this.#membership?.entry(idOf("server", rank)) ?? {};
      if (state !== "alive") gone.resolve(state);
    };
    const stop = this.#membership?.onRoster(look);
    const forget = this.whenOver((error) => gone.reject(error));
    look();
    return await gone.promise.finally(() => {
      stop?.();
      forget();
    });
  }

  protected override async depart(wait: WaitOptions & { readonly isTogether: boolean }): Promise<void> {
    let unsaved: unknown;
    this.#isTogether = wait.isTogether;
    if (wait.isTogether) this.#together.resolve();
    const endsJob = wait.isTogether && !this.#isRetired; // one without parts leaves a job that continues
    if (endsJob && roleOf(this.id) === "server") await this.beforeEnd().catch((thrown: unknown) => (unsaved = thrown));
    await super.depart(wait);
    if (unsaved !== undefined) throw unsaved;
    const servesAgain = endsJob && this.serves; // its next start goes on from the log
    if (wait.isTogether && !servesAgain) await this.#durable?.remove();
  }

  protected override async release(): Promise<void> {
    this.exchange.close();
    await super.release();
    this.server.close();
    await this.#durable?.close();
    await this.#stop?.close();
  }

  protected override hasWorkers(): boolean {
    for (const { id, link } of this.peer.channels()) if (link !== undefined && roleOf(id) === "worker") return true;
    return false;
  }
}

/** A node of which it is not known where it runs shares its process with no other. */
function copyClaim({ replicas = 1, copyOf }: ServerNodeOptions): CopyClaim | undefined {
  if (replicas === 1) return undefined;
  const { host, process, settings } = copyOf ?? { host: "", process: randomToken(), settings: [] };
  return { replicas, host, process, settings };
}
