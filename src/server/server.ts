// server — a server's engine: the arena its state and its sockets share, the vector clock that makes updates count
// once, the applications of the kv face, and the PS functions on its parameters. What the state means is the functions'
// business.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, unsupported, WeighbridgeError } from "../base/errors.ts";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { VectorClock } from "../consistency/vector-clock.ts";
import type { WorkerIncarnation } from "../consistency/worker-incarnations.ts";
import type { Contract } from "../contracts/contract.ts";
import { KV_CONTRACTS } from "../contracts/kv.ts";
import { clockAwaited } from "../contracts/long-waits.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { AppRegistry } from "../peer/app-registry.ts";
import type { FunctionHandler } from "../peer/channel.ts";
import { CHANNEL_LIMITS, type ChannelLimits } from "../peer/channel-host.ts";
import type { ReadBuffers } from "../peer/connection.ts";
import { FunctionHost, ServedCall } from "../peer/function-host.ts";
import { PartialRequests } from "../peer/partial-requests.ts";
import type { Peer } from "../peer/peer.ts";
import type { RequestMemory, RequestRoom } from "../peer/request-assembly.ts";
import { type PlugInModule, PlugIns } from "../store/plug-ins.ts";
import type { SnapshotFiles } from "../store/snapshot/snapshot-files.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { PrepareRequest } from "../wire/control.ts";
import { FrameHeader } from "../wire/frame.ts";
import { READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { isGuest, nameOf, rankOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { ArenaWatch } from "./arena-watch.ts";
import { CheckpointService, ownerName } from "./checkpoint/checkpoint-service.ts";
import { PartsDeparture } from "./copy/parts-departure.ts";
import { EpochWait } from "./epoch-wait.ts";
import { GuestList } from "./guest-list.ts";
import { BUILT_IN_FUNCTIONS } from "./handlers/built-in-functions.ts";
import { KvApplication } from "./kv/kv-application.ts";
import { StoreHandle } from "./kv/store-handle.ts";
import type { PartialRequest } from "./kv/whole-requests.ts";
import { Ownership } from "./ownership.ts";
import { Parameters } from "./parameters/parameters.ts";
import { WorkerGroups } from "./parameters/worker-groups.ts";
import { PlacementPrepare } from "./placement-prepare.ts";
import { refusedError } from "./replication/log-policy.ts";
import { LoggedRequests } from "./replication/logged-requests.ts";
import { checkRepeatable, OwnState, repeatedFunctions, StoppableFunctions } from "./replication/repeated-function.ts";
import { Replica, type ReplicaOptions } from "./replication/replica.ts";
import { RunAhead } from "./replication/run-ahead.ts";
import { RequestGate } from "./request-gate.ts";
import { ScalingPart } from "./scaling-part.ts";
import { type FunctionState, ServerContext } from "./server-context.ts";
import { WorkerCalls } from "./worker-calls.ts";

/** Several blocks fit, so that the end of one frame and the next one are read together and handled where they lie. */
const SERVER_READ_BYTES = 2 * READ_BUFFER_BYTES;

/** A guest has one: another connection of its process is another guest. */
const GUEST_INCARNATION = 1;

/** Who calls what no worker has asked for. */
const NOBODY: WorkerIncarnation = { worker: SCHEDULER_ID, incarnation: 0 };

/** A link with less room would wait for every answer. */
const LINK_BYTES_MIN = 64 * 1024;

export type ServerOptions = {
  readonly arena: Arena;
  readonly clock: Clock;
  /** How many workers there are in the beginning; more may come. */
  readonly workerCount: number;
  /** PS functions of the user's own, beside the built-in ones. */
  readonly functions?: readonly PsFunction[];
  /** Modules with row types and updaters of the user's own. */
  readonly plugIns?: readonly PlugInModule[] | undefined;
  /** For parameters whose links ask for it. */
  readonly compression?: GeneralCompression | undefined;
  /** Where checkpoints are; left out, none can be taken. */
  readonly checkpointFiles?: SnapshotFiles | undefined;
  /** Left out by a server that is not replicated. */
  readonly replica?: ReplicaOptions | undefined;
  readonly log?: Log;
};

export class Server {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly clock: VectorClock = new VectorClock();
  /** What is this server's own. */
  readonly ownership: Ownership;
  /** What has left with the last placement. */
  readonly departure: PartsDeparture;
  /** Requests that were cut by a placement which this server has not heard of. */
  readonly epochWait: EpochWait;
  readonly apps: AppRegistry;
  /** Pushes of all applications that are served whole, and have not come whole. */
  readonly unfinishedRequests: PartialRequests<PartialRequest>;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly checkpoints: CheckpointService;
  readonly functions: ServerFunctions;
  /** What users' functions keep of their own. */
  readonly ownState: OwnState;
  /** The functions of workers, for handlers. */
  readonly workers: WorkerCalls = new WorkerCalls();
  readonly guests: GuestList = new GuestList();
  /** Its part in the chain of its rank; undefined where servers are not replicated, nor saved when they are stopped. */
  readonly replica: Replica | undefined;
  /** Its part in changes of the servers of the job. */
  readonly scaling: ScalingPart;
  /** Whether it does nothing that a standby, or the server itself when it comes back, could not repeat. */
  readonly isRepeated: boolean;
  /** Of a server that is repeated only when it is stopped. */
  readonly #stoppable: StoppableFunctions | undefined;
  readonly #watch: ArenaWatch;
  readonly #placement: PlacementPrepare;
  /** The incarnation of each worker that the roster told last. */
  readonly #incarnations = new Map<number, number>();
  /** Of a standby, by application. */
  readonly #sumHandles = new Map<number, FunctionHandler>();

  constructor(options: ServerOptions) {
    this.arena = options.arena;
    this.kernels = new SimdKernels(options.arena);
    this.#watch = new ArenaWatch(options.arena, options.log ?? SILENT_LOG);
    this.ownership = new Ownership(options.arena);
    this.departure = new PartsDeparture({
      ownership: this.ownership,
      parameters: () => this.parameters,
      groups: () => this.groups,
      clock: options.clock,
    });
    this.apps = new AppRegistry({ clock: options.clock, checkAgain: ({ epoch, flags }) => this.ownership.checkKept(epoch, flags) });
    this.unfinishedRequests = new PartialRequests({ clock: options.clock });
    const { arena, kernels } = this;
    const { clock, workerCount, functions = [], compression, checkpointFiles: files, log = SILENT_LOG } = options;
    const secret = crypto.getRandomValues(new BigUint64Array(1))[0]!;
    const { ownership } = this;
    this.isRepeated = options.replica !== undefined && options.replica.isForStops !== true;
    if (this.isRepeated) checkRepeatable(options.plugIns ?? []);
    const plugIns = new PlugIns(options.plugIns);
    this.parameters = new Parameters({ arena, kernels, clock, workerCount, secret, compression, ownership, plugIns, log });
    this.groups = new WorkerGroups(clock, workerCount);
    const onLongWait = (worker: number, waits: string): void => this.#tellLongWait(worker, waits, log);
    this.parameters.pacer.lot.onLongWait = onLongWait;
    this.groups.ssp.onLongWait = onLongWait;
    this.#placement = new PlacementPrepare(ownership, clock);
    const saved = { parameters: this.parameters, vectorClock: this.clock, ownership, placement: this.#placement, files };
    this.checkpoints = new CheckpointService({ ...saved, log, clock });
    this.epochWait = new EpochWait(ownership, clock); // behind it: a cut comes before what waited for parts
    this.#stoppable = options.replica === undefined || this.isRepeated ? undefined : new StoppableFunctions(functions);
    const users = this.isRepeated ? repeatedFunctions(functions) : (this.#stoppable?.all ?? functions);
    this.replica = options.replica && new Replica(this, { ours: BUILT_IN_FUNCTIONS, users }, options.replica);
    if (this.#stoppable !== undefined) this.#stoppable.isRepeating = () => this.replica?.isRepeating === true;
    this.scaling = new ScalingPart(this, log);
    const { parameters, groups, checkpoints, workers, replica, departure, scaling } = this;
    const state = { arena, kernels, parameters, groups, checkpoints, ownership, departure, workers, replica, scaling };
    const own = new Map<string, object>();
    this.functions = serverFunctions(state, clock, own);
    for (const fn of [...BUILT_IN_FUNCTIONS, ...users]) this.functions.add(fn);
    this.ownState = new OwnState(users, () => new ServerContext(state, NOBODY, own));
  }

  /** The worker logs what it waits for, or this server if the worker does not serve this. A standby's head tells it. */
  #tellLongWait(worker: number, waits: string, log: Log): void {
    if (this.replica?.isStandby === true) return;
    this.workers.call(rankOf(worker), clockAwaited, { waits }).catch((thrown: unknown) => {
      if (isWeighbridgeError(thrown, "UNKNOWN_FUNCTION")) log.warn("a worker waits long for clocks", { worker: nameOf(worker), waits });
    });
  }

  /** Serves the functions of applications on this peer. */
  serve(peer: Pick<Peer, "serveFrames" | "hostFunctions">): void {
    const { arena, clock, ownership, epochWait } = this;
    const { replica } = this;
    const gate = { arena, clock, watch: this.#watch, ownership, epochWait, refusals: replica };
    const ahead = replica && new RunAhead(replica.log, this);
    const kv =
      replica === undefined
        ? new RequestGate(this.apps, gate, this.apps.served)
        : new RequestGate(new LoggedRequests(this.apps, replica, { isKv: true, ahead }), gate);
    for (const fn of KV_CONTRACTS) peer.serveFrames(fn, kv);
    const functions = replica === undefined ? this.functions : new LoggedRequests(this.functions, replica, { isKv: false, ahead });
    peer.hostFunctions(new RequestGate(functions, gate));
  }

  /**
   * Calls a function of this server as `holder`, without a frame. Throws UNKNOWN_FUNCTION, and what its handler throws.
   */
  async callItself<Q extends Fields, R extends Fields>(
    holder: WorkerIncarnation,
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
  ): Promise<FieldValues<R>> {
    const served = this.functions.find(fn as unknown as Contract);
    if (served === undefined) throw new WeighbridgeError("UNKNOWN_FUNCTION", `this server does not serve ${fn.name}`);
    const context = new ServerContext(this, holder, new Map());
    // By the same contract.
    return (await served.handle(context, request, new ServedCall(new FrameHeader()))) as FieldValues<R>;
  }

  /** Opens an application of the kv face. Throws BAD_ARGUMENT when it exists already. */
  openKv(appId: number): KvApplication {
    return new KvApplication(this, appId);
  }

  /**
   * Serves kv frames of a standby's log, also before a program has opened the application: the sums are the server's.
   */
  kvHandlerOf(app: number): FunctionHandler {
    const known = this.apps.served.get(app) ?? this.#sumHandles.get(app);
    if (known !== undefined) return known;
    const handle = new StoreHandle(this.arena, this.parameters.sums.of(app), this.checkpoints.pressure);
    this.#sumHandles.set(app, handle);
    return handle;
  }

  /** Takes note of who is there. */
  follow({ nodes, guests }: RosterView): void {
    const gone = new Set(this.guests.follow(guests));
    // also those that only the head knew of which this standby took over
    for (const [node] of this.clock.entries()) if (isGuest(node) && !this.guests.has(node)) gone.add(node);
    if (this.replica !== undefined) this.replica.follow(nodes, [...gone]);
    else {
      this.followWorkers(nodes);
      this.forgetGuests([...gone]);
    }
  }

  /** GuestList.L1. Their conversations have ended, or end now. */
  forgetGuests(gone: readonly number[]): void {
    for (const node of gone) {
      const holder = { worker: node, incarnation: GUEST_INCARNATION };
      this.clock.forget(node);
      this.parameters.pacer.pushes.forgetWorker(holder);
      this.#forget(holder);
    }
  }

  /** What dead workers left unfinished goes, and nobody waits for their clocks. */
  followWorkers(nodes: readonly RosterEntry[]): void {
    const { pacer } = this.parameters;
    for (const { node, role, state, incarnation, hasNoClock } of nodes) {
      if (role !== "worker") continue;
      const holder = { worker: node, incarnation };
      if ((this.#incarnations.get(node) ?? incarnation) !== incarnation) this.parameters.forgetPulls(node);
      this.#incarnations.set(node, incarnation);
      this.groups.follow(holder, state === "alive");
      if (state === "alive") pacer.revived(holder);
      else if (state === "dead") pacer.died(holder);
      else pacer.leaveJob(holder);
      if (state === "alive") {
        if (hasNoClock === true) pacer.leave(holder); // it never joins
        continue;
      }
      this.#forget(holder);
    }
  }

  #forget(holder: WorkerIncarnation): void {
    const { worker } = holder;
    this.functions.forgetNode(worker);
    this.unfinishedRequests.forgetWorker(worker);
    this.parameters.forgetWorker(worker);
    this.checkpoints.forget(ownerName(holder));
  }

  /** Why the state of this server cannot be saved now when it is stopped; "": it can. */
  get stopProblem(): string {
    if (this.ownership.isSettling) return "parts of it are moving";
    const isOwn = [...this.apps.served.values()].some((handler) => !(handler instanceof StoreHandle));
    return isOwn ? "it has a handle of its own for kv" : (this.#stoppable?.problem ?? "");
  }

  /** This server has begun: what a standby could not repeat is refused from now on. */
  begun(): void {
    if (this.isRepeated) this.checkpoints.loadRefusal = refusedError("a load of a checkpoint into a running job");
  }

  /**
   * This server is about to stop, and saves its state: nothing is loaded meanwhile. Resolves when no parts come or go,
   * and none are about to (PlannedStop.P6).
   */
  async stopping(): Promise<void> {
    this.checkpoints.loadRefusal = refusedError("a load of a checkpoint while a server stops");
    while (this.#placement.released !== undefined) await this.#placement.released;
  }

  /** Whether this server leaves its state for the next process of its rank. */
  get isStopping(): boolean {
    return this.replica?.isLeaving === true;
  }

  /** The scheduler prepares this server for another placement. Throws as PlacementPrepare.take; UNSUPPORTED. */
  prepare(request: PrepareRequest): void {
    if (this.isStopping && request.holdMs > 0)
      throw new WeighbridgeError("QUEUE_FULL", `server ${this.ownership.rank} is being stopped`, { retryable: true });
    if (request.servers !== undefined && request.holdMs > 0) this.#checkKv();
    this.#placement.take(request, this.checkpoints);
  }

  /** Parts of placements up to this epoch are with their owners. */
  handedOver(epoch: number): void {
    this.#placement.handedOver(epoch);
  }

  /** Throws UNSUPPORTED: raw keys of kv lie in even ranges over the servers, and do not move. */
  #checkKv(): void {
    for (const [owner, { keyCount }] of this.parameters.sums.all) {
      if (owner === "data" || keyCount === 0) continue;
      const why = `application ${owner} of the kv face has ${keyCount} keys on server ${this.ownership.rank}, which do not move`;
      throw unsupported(`the servers of this job cannot change: ${why}`);
    }
  }

  close(): void {
    this.replica?.close();
    this.epochWait.close();
    this.apps.close();
    this.unfinishedRequests.close();
    this.#placement.close();
    this.checkpoints.close();
    this.parameters.close();
    this.groups.close();
    this.functions.close();
  }
}

/**
 * What may wait and be under way on one link: of all workers' together it fits the half of what is kept for answers
 * when the arena is full.
 */
export function serverLimits(arena: Arena, workerCount: number, limits: Partial<ChannelLimits>): Partial<ChannelLimits> {
  const { answerBytesMax, inFlightBytesMax } = { ...CHANNEL_LIMITS, ...limits };
  const share = Math.max(LINK_BYTES_MIN, arena.reserveBytes / (8 * Math.max(1, workerCount)));
  return { ...limits, answerBytesMax: Math.min(answerBytesMax, share), inFlightBytesMax: Math.min(inFlightBytesMax, share) };
}

export type ServerFunctions = FunctionHost<ServerContext>;

/** Its handlers know the server's state, its requests are put together in the arena. */
export function serverFunctions(state: FunctionState, clock: Clock, own: Map<string, object> = new Map()): ServerFunctions {
  return new FunctionHost<ServerContext>({
    clock,
    memory: new ArenaMemory(state.arena),
    ownership: state.ownership,
    contextOf: ({ id: worker, incarnation }) => new ServerContext(state, { worker, incarnation }, own),
    pressure: state.checkpoints.pressure,
  });
}

/**
 * Read buffers inside the arena: kernels work on a frame where the socket put it. On the heap when there is no room;
 * handlers copy those frames.
 */
export class ArenaReadBuffers implements ReadBuffers {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  take(): Uint8Array {
    const address = this.#arena.tryAllocateBeyond(SERVER_READ_BYTES) || this.#arena.tryAllocateState(SERVER_READ_BYTES);
    if (address === 0) return new Uint8Array(SERVER_READ_BYTES);
    return this.#arena.bytes.subarray(address, address + SERVER_READ_BYTES);
  }

  give(buffer: Uint8Array): void {
    if (buffer.buffer === this.#arena.bytes.buffer) this.#arena.release(buffer.byteOffset, SERVER_READ_BYTES);
  }
}

const BYTES_MAX = 2 ** 30;

/** The arena as memory for requests of several frames: kernels work on a request where it lies. */
class ArenaMemory implements RequestMemory {
  readonly requestBytesMax: number = BYTES_MAX;
  readonly bytesMax: number = BYTES_MAX;
  readonly nodeBytesMax: number = BYTES_MAX;
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  allocate(byteCount: number): RequestRoom {
    const arena = this.#arena;
    const size = Math.max(1, byteCount);
    const at = arena.allocate(size);
    return { bytes: arena.bytes, at, release: () => arena.release(at, size) };
  }

  holds(bytes: Uint8Array): boolean {
    return bytes.buffer === this.#arena.bytes.buffer;
  }
}
