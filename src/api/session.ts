// session — what the program of a worker or a guest works with: it turns names of parameters into tensors and
// embeddings, and `clock` ends an iteration. Not the node itself, which is started first (node/connect.ts) and passed
// in.
//
// Invariants:
//   Session.S1. If two workers describe a parameter differently, the second gets SPEC_MISMATCH with the differences,
//       and nothing changes.
//   Session.S2. A handle never silently continues with a parameter that a restarted server has lost and somebody has
//       made again (worker/parameter-handle.ts): its calls fail with UNKNOWN_PARAMETER until the parameter is made
//       again through this session, or restored.
//   Session.S3. A guest joins no clock set: it reads what is there, and calls that only workers may make throw
//       UNSUPPORTED.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { Log } from "../base/log.ts";
import type { LeaveBarrier } from "../cluster/cluster-node.ts";
import { checkpointSave } from "../contracts/checkpoints.ts";
import { type Contract, checkWorkerFunction, isContract, isWorkerFunction } from "../contracts/contract.ts";
import type { WorkerFunction, WorkerHandler } from "../contracts/worker-function.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { Group } from "../wire/node-id.ts";
import { type RosterView, serverRanks } from "../wire/roster.ts";
import type { CatalogueClient } from "../worker/catalogue-client.ts";
import type { Collective } from "../worker/collective.ts";
import type { Embedding } from "../worker/embedding.ts";
import type { FunctionClient } from "../worker/function-client.ts";
import type { ParameterEngine } from "../worker/parameter-engine.ts";
import type { RendezvousClient } from "../worker/rendezvous-client.ts";
import type { FunctionCallSettings, FunctionLoad, FunctionRequest } from "../worker/router/function-request.ts";
import type { Tensor } from "../worker/tensor.ts";
import type { UnitClient, UnitOptions } from "../worker/unit-client.ts";
import type { UnitFeed } from "../worker/unit-feed.ts";
import type { Worker } from "../worker/worker.ts";
import { CLOCK_MAX, LAST_PRIORITY, type WorkerClock } from "../worker/worker-clock.ts";
import type { WorkerMesh } from "../worker/worker-mesh.ts";
import type { WorkerServices } from "../worker/worker-services.ts";
import type { CheckpointOptions, RestoredCheckpoint, ServerCalls, TakenCheckpoint } from "./checkpoint.ts";
import { checkCheckpointOptions, checkStep, restoreCheckpoint, takeCheckpoint } from "./checkpoint.ts";
import { type FunctionTarget, routeOf } from "./function-target.ts";
import { ParameterFiles } from "./parameter-files.ts";
import type { ElementOf, EmbeddingOptions, RowTypeOption, TensorOptions } from "./parameter-options.ts";
import { embeddingSpec, tensorSpec, whateverIs } from "./parameter-options.ts";

const CALL_OPTIONS: readonly string[] = ["priority", "scope", "into", "passing", "countedAs", ...WAIT_NAMES];
/** What the bytes of saving one parameter are counted as. */
const PARAMETER_SAVE = "wb/parameter/save";
const CLOSE_OPTIONS: readonly string[] = ["barrier", ...WAIT_NAMES];

/** The node under a session: a WorkerNode. */
export type SessionNode = {
  /** Undefined on a node of another role. */
  readonly worker?: Worker | undefined;
  /** Its links with the other workers. */
  readonly mesh?: WorkerMesh | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: string;
  readonly rank: number;
  readonly workerCount: number;
  readonly roster: RosterView;
  barrier(group: number, customer: number, wait?: WaitOptions): Promise<void>;
  finalize(options?: { readonly barrier?: LeaveBarrier } & WaitOptions): Promise<void>;
};

export class Session {
  readonly #node: SessionNode;
  readonly #engine: ParameterEngine;
  readonly #functions: FunctionClient;
  readonly #units: UnitClient;
  /** Where the workers of a job wait for each other, each with a small value. Nobody waits for the dead. */
  readonly rendezvous: RendezvousClient;
  /** Fires when the job is to have fewer workers and this one is asked to leave: end what is under way, then close. */
  readonly leaving: AbortSignal;
  readonly #catalogue: CatalogueClient;
  readonly #files = new ParameterFiles();
  readonly #clock: WorkerClock;
  /**
   * Ends this worker's iteration and begins the next one, whose number is returned (WorkerClock.J1). Throws
   * OUT_OF_RANGE above clock 2^32 - 1.
   */
  readonly clock: () => number;
  #collective: Collective | undefined;
  #openingCollective: Promise<Collective> | undefined;
  /** The checkpoint that is being taken: settles with it, and never rejects. */
  #saving: { readonly clock: number; readonly ended: Promise<unknown> } | undefined;
  #closing: Promise<void> | undefined;

  private constructor(node: SessionNode, sessions: WorkerServices) {
    const { rank, clock, log } = node;
    this.#node = node;
    this.#units = sessions.units;
    this.rendezvous = sessions.rendezvous;
    this.leaving = sessions.leaving;
    this.#catalogue = sessions.catalogue;
    this.#engine = sessions.open({ rank, clock, log });
    this.#functions = this.#engine.functions;
    this.#clock = this.#engine.clock;
    this.clock = node.role === "guest" ? () => this.#refuse("clock()") : this.#clock.advance;
  }

  /**
   * Joins the clock set of every server. Throws BAD_ARGUMENT on a node that is no worker, or without servers, and
   * UNSUPPORTED on one of the kv face alone.
   */
  static async open(node: SessionNode, wait: WaitOptions = {}): Promise<Session> {
    const { worker } = node;
    if (worker === undefined) throw badArgument(`a session needs a worker node, but this is the ${node.role}`);
    if (worker.router.servers.length === 0) throw badArgument("a session needs servers, and this cluster has none");
    if (worker.sessions === undefined)
      throw unsupported(`worker ${node.rank} was started for ps-lite's words alone: connect() of weighbridge opens sessions`);
    const session = new Session(node, worker.sessions);
    if (node.role !== "guest") await session.#engine.join(wait); // Session.S3
    return session;
  }

  /** This worker's number, from 0; a guest's own. */
  get rank(): number {
    return this.#node.rank;
  }

  /** How many the start waited for; a guest's is how many have come so far. */
  get workerCount(): number {
    const { role, roster, workerCount } = this.#node;
    return role === "guest" ? roster.nodes.filter((entry) => entry.role === "worker").length : workerCount;
  }

  get serverCount(): number {
    return this.#functions.servers.length;
  }

  /** Where its node says what is worth knowing. */
  get log(): Log {
    return this.#node.log;
  }

  /** What its deadlines go by. */
  get time(): Clock {
    return this.#node.clock;
  }

  /** How many clocks this worker has finished. */
  get clocks(): number {
    return this.#clock.value;
  }

  /**
   * Opens the tensor of this name, or makes it. Throws SPEC_MISMATCH if somebody described it differently (Session.S1).
   * Without options it opens what is there, and throws UNKNOWN_PARAMETER if nobody has made it.
   */
  async tensor(name: string, options?: TensorOptions, wait: WaitOptions = {}): Promise<Tensor> {
    checkWaitOptions(wait);
    return await this.#engine.tensor(options === undefined ? whateverIs("tensor", name) : tensorSpec(name, options), wait);
  }

  /**
   * The same for a table. One whose rows are not of f32 is opened without options as `embedding<"i64">(name)`; one with
   * a row type of a user's own throws UNSUPPORTED then, because this process has to have the type.
   */
  async embedding<T extends RowTypeOption = "f32">(
    name: string,
    options?: EmbeddingOptions<T>,
    wait: WaitOptions = {},
  ): Promise<Embedding<ElementOf<T>>> {
    checkWaitOptions(wait);
    const wanted = options === undefined ? whateverIs("table", name) : embeddingSpec(name, options);
    return await this.#engine.embedding<ElementOf<T>>(wanted, wait, typeof options?.rowType === "object" ? options.rowType : undefined);
  }

  /** Calls a function that the servers were started with, on one of them. Its errors come back as errors. */
  async call<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    target: FunctionTarget,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>> {
    checkFunction(fn);
    checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
    return await this.#functions.call(fn, routeOf(target, this.#functions.servers), request, options);
  }

  /** Calls a function of every server; the answers in the order of their ranks. */
  async callAll<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>[]> {
    checkFunction(fn);
    checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
    return await this.#functions.callAll(fn, request, options);
  }

  /**
   * Serves a function, which servers call over the connections that this worker has opened (`context.workers`): with
   * `handler`, or with the one that the function brings. Returns how to end that. A caller that asks a server to call
   * it serves it first. Throws BAD_ARGUMENT when it is served already, and for two handlers or none.
   */
  serve<Q extends Fields, R extends Fields>(fn: WorkerFunction<Q, R>, handler?: WorkerHandler<Q, R>): () => void {
    const { worker } = this.#node;
    assert(worker !== undefined, "a session has a worker");
    checkWorkerFunction(fn);
    return worker.serve(fn, handler);
  }

  /** Waits for something of this session, as long as `wait` allows; it goes on even when nobody waits any more. */
  async wait<T>(promise: Promise<T>, what: string, wait: WaitOptions = {}): Promise<T> {
    try {
      checkWaitOptions(wait);
    } catch (thrown) {
      promise.catch(() => {}); // nobody waits for it
      throw thrown;
    }
    return await this.#functions.wait(promise, what, wait);
  }

  /**
   * Calls a function of the owners of these keys, as tables place them; `shareOf` says what the owner of those at some
   * positions is asked for.
   */
  async callOwners<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    keys: BigUint64Array,
    shareOf: (positions: readonly number[]) => Pick<FunctionRequest<Q, R>, "request" | "answered">,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<void> {
    checkFunction(fn);
    checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
    await this.#functions.callOwners(fn, keys, shareOf, options);
  }

  /** Counts the payload bytes of every function from now on. */
  startRecord(): void {
    this.#functions.startRecord();
  }

  /** What was counted since `startRecord`, or since the last time, by the functions' names. */
  takeLoads(): ReadonlyMap<string, Readonly<FunctionLoad>> {
    return this.#functions.takeLoads();
  }

  /**
   * Joins the clock set anew: of what this worker pushed to parameters with sync updates, the clock that it had not
   * ended is dropped (spec/consistency.md, W5), so that its work can be done again after a failure, and counts once
   * on every server. Never moves this worker's clock back.
   */
  async rejoin(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#node.role === "guest") this.#refuse("rejoin()");
    await this.wait(this.#clock.rejoin(), "the clock set", wait);
  }

  /**
   * Leaves the clock set until `rejoin`, as often as it likes: this worker has ended its clock, and under BSP and SSP
   * nobody waits for it. What it pushes meanwhile fails with NOT_JOINED.
   */
  async leaveClocks(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#node.role === "guest") this.#refuse("leaveClocks()");
    await this.#clock.leave(wait);
  }

  /**
   * Saves all parameters as they are when every worker has finished the clocks before this one's, while training goes
   * on (spec/consistency.md, D1). One worker calls it. Rejects with QUEUE_FULL while another checkpoint is being taken,
   * UNSUPPORTED when the servers have no checkpoint directory, CHECKPOINT_IO, ARENA_FULL; earlier checkpoints stay as
   * they are.
   */
  async checkpoint(options: CheckpointOptions = {}, wait: WaitOptions = {}): Promise<TakenCheckpoint> {
    checkWaitOptions(wait);
    checkCheckpointOptions(options);
    const { clock = this.clocks } = options;
    if (!(Number.isSafeInteger(clock) && clock >= this.clocks && clock <= CLOCK_MAX)) {
      const why = clock > CLOCK_MAX ? `clocks end at ${CLOCK_MAX}` : `this worker has finished ${this.clocks} already`;
      throw badArgument(`a checkpoint at clock ${showValue(clock)}: ${why}`);
    }
    if (this.#saving !== undefined || this.#files.isSaving) throw isSavingAlready();
    const createdAt = new Date().toISOString();
    const taken = takeCheckpoint(this.#serverCalls(wait), { ...options, clock, createdAt });
    this.#saving = { clock, ended: taken.catch(() => {}) }; // its caller gets the error
    try {
      return await taken;
    } finally {
      this.#saving = undefined;
    }
  }

  /**
   * Saves one parameter, apart from the checkpoints of the job, in a directory below the servers' checkpoint directory.
   * It replaces what was saved there before. Rejects as `checkpoint` does, and with
   * UNKNOWN_PARAMETER.
   */
  async saveParameter(name: string, directory: string, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#saving !== undefined) throw isSavingAlready(); // the servers would give that one up for this
    await this.#files.save(this.#serverCalls(wait, PARAMETER_SAVE), name, directory, () => this.clocks);
  }

  /**
   * Brings a parameter to where `saveParameter` saved it, for all workers, while training goes on; by any number of
   * servers. Rejects with CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO, which name the file, and with UNSUPPORTED for one
   * whose consistency is not "asp"; it is then as it was.
   */
  async loadParameter(name: string, directory: string, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    await this.#files.load(this.#serverCalls(wait), name, directory);
  }

  /**
   * Brings servers without parameters to where a checkpoint (the newest, or that of `step`) left off, however many
   * servers took it, and this worker to its clock. Every worker of the cluster calls it. Rejects with
   * CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO, which name the file.
   */
  async restore(options: { readonly step?: number } = {}, wait: WaitOptions = {}): Promise<RestoredCheckpoint> {
    checkWaitOptions(wait);
    checkOptions(options, ["step"], "the options of a restore");
    const { step } = options;
    checkStep("step", step);
    const restored = await restoreCheckpoint(this.#serverCalls(wait), step);
    this.#clock.raise(restored.clock);
    return restored;
  }

  /** Waits until every worker stands here. Rejects with NODE_DEAD when one dies meanwhile. */
  async barrier(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#node.role === "guest") this.#refuse("barrier()");
    await this.#node.barrier(Group.WORKERS, 0, wait);
  }

  /**
   * The units of an epoch that the scheduler lends to this worker: every unit is done once by somebody, again only if a
   * worker died with it. All workers describe the epoch alike; the second that does not gets SPEC_MISMATCH. A feed per
   * epoch: `next`, and `done` once its updates are acknowledged.
   */
  async units(name: string, options: UnitOptions, wait: WaitOptions = {}): Promise<UnitFeed> {
    checkWaitOptions(wait);
    const known = ["epoch", "batchCount", "partCount", "assignment", "partsMax", "idleMs"] as const;
    checkOptions(options, known, `the options of units ${showValue(name)}`);
    return await this.#units.open(name, { ...options, firstClock: this.clocks }, wait);
  }

  /** The first epoch, from `epoch` on, in which nothing is left for this worker. Infinity if there is none. */
  nextEpochOver(name: string, epoch: number): number {
    return this.#units.nextOver(name, epoch);
  }

  /**
   * Operations among the workers, without servers: sums, exchanges, broadcasts. Waits until all workers that live have
   * called it; one that is open is given again. Throws UNSUPPORTED over ps-lite's protocol, DEADLINE with the names of
   * those that are missing.
   */
  async collective(wait: WaitOptions = {}): Promise<Collective> {
    const { mesh } = this.#node;
    checkWaitOptions(wait);
    if (mesh === undefined) throw unsupported("this worker is not joined with the others");
    if (this.#collective?.isClosed === false) return this.#collective;
    this.#openingCollective ??= this.#engine.openCollective(mesh, wait).finally(() => {
      this.#openingCollective = undefined;
    });
    this.#collective = await this.wait(this.#openingCollective, "the other workers", wait);
    return this.#collective;
  }

  /** The specs of all parameters there are, as the scheduler knows them, in the order in which they were first made. */
  async parameters(wait: WaitOptions = {}): Promise<readonly ParameterSpec[]> {
    checkWaitOptions(wait);
    return await this.#catalogue.list(wait);
  }

  /**
   * Flushes what caches hold and top-k has kept, and leaves the clock set and the cluster; by default together with all
   * other nodes, so that servers stay until the last worker is done, and once the checkpoints and parameters are
   * written that this worker saves. Dead nodes are waited for as long as a start may take since they died; with
   * `barrier: "living"` this worker leaves at once when one is dead. Without the barrier what is being saved is given
   * up, and rejects with CLOSED; so may a checkpoint that waits for a clock which this worker has not ended. Called
   * again once it is closed, or while it closes, it does nothing more: `await using` may follow.
   */
  async close(options: { readonly barrier?: LeaveBarrier } & WaitOptions = {}): Promise<void> {
    checkWaitOptions(options, CLOSE_OPTIONS, "the options of a close");
    this.#closing ??= this.#flushAndLeave({ ...(this.leaving.aborted ? { barrier: false } : {}), ...options }).catch((thrown: unknown) => {
      this.#closing = undefined; // it may be tried otherwise, without the barrier for instance
      throw thrown;
    });
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #flushAndLeave(options: { readonly barrier?: LeaveBarrier } & WaitOptions): Promise<void> {
    try {
      if (options.barrier !== false) await this.#endSaves(options);
      const { deadlineMs, signal } = options;
      await this.#units.close({ deadlineMs, signal });
      await this.#collective?.close();
      await this.#engine.flush(options);
    } finally {
      await this.#leave(options);
    }
  }

  async #endSaves({ deadlineMs, signal }: WaitOptions): Promise<void> {
    const saving = this.#saving !== undefined && this.#saving.clock <= this.clocks ? this.#saving.ended : undefined;
    await this.wait(Promise.all([saving, this.#files.ended]), "what is being saved", { deadlineMs, signal });
  }

  async #leave(options: { readonly barrier?: LeaveBarrier } & WaitOptions): Promise<void> {
    if (this.#node.role === "guest") return await this.#node.finalize({ ...options, barrier: false });
    try {
      await this.#clock.leave(options);
    } finally {
      await this.#node.finalize(options);
    }
  }

  /** Session.S3 */
  #refuse(what: string): never {
    const can = "a guest reads, pushes to parameters with async updates and calls functions";
    throw unsupported(`${what} is for workers, and this session is a guest's: ${can}; connect as a worker`);
  }

  #serverCalls(wait: WaitOptions, countedAs?: string): ServerCalls {
    return {
      servers: serverRanks(this.#node.roster),
      call: (server, fn, request) =>
        this.#functions.call(fn, { server }, request, { ...wait, countedAs, priority: checkpointPriority(fn.name) }),
    };
  }
}

/**
 * The cut comes behind everything else that was asked: what was pushed before is in it. What follows it comes first:
 * until then what changes is kept twice.
 */
function checkpointPriority(name: string): number {
  const { begin, write, commit, abandon } = checkpointSave;
  return [begin, write, commit, abandon].some((fn) => fn.name === name) ? -LAST_PRIORITY - 1 : LAST_PRIORITY;
}

function isSavingAlready(): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", "this worker is taking a checkpoint; there is one at a time", { retryable: true });
}

function checkFunction(fn: unknown): void {
  if (isWorkerFunction(fn))
    throw badArgument(`${fn.name} is a function of workers, which servers call: a worker calls functions of servers`);
  if (isContract(fn)) return;
  throw badArgument(`what is called is a function that psFunction() made, not ${showValue(fn)}`);
}
