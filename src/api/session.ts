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
import type { ListenOptions } from "../base/event-listeners.ts";
import { refuseFormer } from "../base/former-members.ts";
import { checkWaitOptions, moreThanOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { Log } from "../base/log.ts";
import type { LeaveBarrier } from "../cluster/cluster-node.ts";
import type { Contract } from "../contracts/contract.ts";
import { checkWorkerFunction } from "../contracts/known-function.ts";
import type { WorkerFunction, WorkerHandler } from "../contracts/worker-function.ts";
import type { RowElement } from "../kernel/row-element.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { Group } from "../wire/node-id.ts";
import { serverRanks } from "../wire/roster.ts";
import type { CatalogueClient } from "../worker/catalogue-client.ts";
import type { Collective } from "../worker/collective.ts";
import type { Embedding } from "../worker/embedding.ts";
import type { FunctionClient } from "../worker/function-client.ts";
import type { HeldUpdates } from "../worker/held-updates.ts";
import type { LongWaits } from "../worker/long-waits.ts";
import type { ParameterEngine } from "../worker/parameter-engine.ts";
import type { RendezvousClient } from "../worker/rendezvous-client.ts";
import type { FunctionCallSettings, FunctionLoad, FunctionRequest } from "../worker/router/function-request.ts";
import type { SessionEventMap, SessionEventName, SessionEvents } from "../worker/session-events.ts";
import type { Tensor } from "../worker/tensor.ts";
import type { UnitClient } from "../worker/unit-client.ts";
import type { UnitFeed } from "../worker/unit-feed.ts";
import type { UnitOptions, Units } from "../worker/units.ts";
import { CLOCK_MAX, type WorkerClock } from "../worker/worker-clock.ts";
import type { WorkerServices } from "../worker/worker-services.ts";
import type { Checkpoint, CheckpointOptions, RestoredCheckpoint, RestoreOptions, ServerCalls, TakenCheckpoint } from "./checkpoint.ts";
import { checkCheckpointOptions, checkStep, restoreCheckpoint, takeCheckpoint } from "./checkpoint.ts";
import { serverCalls } from "./checkpoint-calls.ts";
import { checkCall, type FunctionTarget, routeOf, withFate } from "./function-target.ts";
import { type CutWatch, OpenCheckpoint } from "./open-checkpoint.ts";
import { describeParameter, type ParameterDescription } from "./parameter-description.ts";
import { ParameterFiles } from "./parameter-files.ts";
import type {
  DtypeOption,
  ElementOf,
  EmbeddingOptions,
  OpenEmbeddingOptions,
  OpenTensorOptions,
  TensorOptions,
} from "./parameter-options.ts";
import { wantedEmbedding, wantedTensor } from "./parameter-options.ts";
import type { SessionNode } from "./session-node.ts";

/** What the bytes of saving one parameter are counted as. */
const PARAMETER_SAVE = "wb/parameter/save";
const UNIT_OPTIONS: readonly string[] = ["epoch", "batchCount", "partCount", "assignment", "partsMax", "idleMs", ...WAIT_NAMES];
const CLOSE_OPTIONS: readonly string[] = ["barrier", ...WAIT_NAMES];

/**
 * A worker's or a guest's place in a job, made by connect(): it opens parameters by name, calls functions, and ends
 * iterations.
 */
export class Session {
  readonly #node: SessionNode;
  readonly #engine: ParameterEngine;
  readonly #functions: FunctionClient;
  readonly #units: UnitClient;
  /** @internal Where the workers of a job wait for each other, each with a small value. Nobody waits for the dead. */
  readonly rendezvous: RendezvousClient;
  /** @internal Says in the log what this worker waits for when a wait for clocks lasts long. */
  readonly longWaits: Pick<LongWaits, "describeOwn" | "tell">;
  /** @internal What faces keep back of their updates, to be sent when the process ends without `close()`. */
  readonly held: HeldUpdates;
  readonly #events: SessionEvents;
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
    this.#events = sessions.events;
    this.longWaits = sessions.longWaits;
    this.held = sessions.held;
    this.#catalogue = sessions.catalogue;
    this.#engine = sessions.open({ rank, clock, log });
    this.#functions = this.#engine.functions;
    this.#clock = this.#engine.clock;
    this.clock = node.role === "guest" ? () => this.#refuse("clock()") : this.#clock.advance;
  }

  /**
   * @internal Joins the clock set of every server. Throws BAD_ARGUMENT on a node that is no worker, or without servers,
   * and UNSUPPORTED on one of the kv face alone.
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

  /** How many servers the job has now. */
  get serverCount(): number {
    return this.#functions.servers.length;
  }

  /** @internal Where its node says what is worth knowing. */
  get log(): Log {
    return this.#node.log;
  }

  /** @internal What its deadlines go by. */
  get time(): Clock {
    return this.#node.clock;
  }

  /** How many clocks this worker has finished. */
  get clocks(): number {
    return this.#clock.value;
  }

  // Those that make a parameter come last: the compiler explains a call by the last one, such as a missing optimizer.

  /** Opens a tensor that was made already. Throws UNKNOWN_PARAMETER if there is none of this name. */
  async tensor(name: string, options?: OpenTensorOptions): Promise<Tensor>;
  /**
   * Opens the tensor of this name, or makes it. Throws SPEC_MISMATCH if another worker described it differently
   * (Session.S1).
   *
   * @example
   * const w = await session.tensor("dense1/w", { shape: [128, 784], optimizer: { type: "adam" } });
   */
  async tensor(name: string, options: TensorOptions): Promise<Tensor>;
  async tensor(name: string, options: TensorOptions | OpenTensorOptions = {}, more?: unknown): Promise<Tensor> {
    if (more !== undefined) throw moreThanOptions(more, `tensor ${name}`);
    const { timeoutMs, signal } = options ?? {};
    return await this.#engine.tensor(wantedTensor(name, options), { timeoutMs, signal });
  }

  /**
   * Opens an embedding that was made already, with rows of this dtype. Throws UNKNOWN_PARAMETER if there is none of
   * this name, SPEC_MISMATCH if its rows are made of something else.
   *
   * @example
   * const counts = await session.embedding("counts", { dtype: "i64" });
   */
  async embedding<T extends DtypeOption>(
    name: string,
    options: OpenEmbeddingOptions<T> & { readonly dtype: T },
  ): Promise<Embedding<ElementOf<T>>>;
  /**
   * Opens an embedding that was made already, whatever its rows are made of: `dtype` of what is returned says it.
   * Throws UNKNOWN_PARAMETER if there is none of this name, UNSUPPORTED for rows of a psRowType(), which has to be
   * given as the `dtype`.
   */
  async embedding(name: string, options?: OpenEmbeddingOptions): Promise<Embedding<RowElement>>;
  /**
   * Opens the embedding of this name, or makes it. Its rows are of f32 unless a `dtype` says otherwise. Throws
   * SPEC_MISMATCH if another worker described it differently.
   *
   * @example
   * const users = await session.embedding("users", { dim: 16, optimizer: { type: "adagrad" } });
   */
  async embedding<T extends DtypeOption = "f32">(name: string, options: EmbeddingOptions<T>): Promise<Embedding<ElementOf<T>>>;
  async embedding(
    name: string,
    options: EmbeddingOptions<DtypeOption> | OpenEmbeddingOptions<DtypeOption | undefined> = {},
    more?: unknown,
  ): Promise<Embedding<RowElement>> {
    if (more !== undefined) throw moreThanOptions(more, `embedding ${name}`);
    const { timeoutMs, signal, dtype } = options ?? {};
    return await this.#engine.embedding(wantedEmbedding(name, options), { timeoutMs, signal }, dtype);
  }

  /**
   * Calls a function that the servers were started with, on one of them. Its errors come back as errors.
   *
   * @example
   * const { rows } = await session.call(rowCount, { server: 0 }, { table: "users" }, { timeoutMs: 1000 });
   * const { similar } = await session.call(nearest, { key: "user:5" }, { count: 10 }); // the server that has this key
   */
  async call<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    target: FunctionTarget,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>> {
    checkCall(fn, options);
    return await withFate(fn, () => this.#functions.call(fn, routeOf(target, this.#functions.servers), request, options));
  }

  /**
   * Calls a function of every server; the answers in the order of their ranks.
   *
   * @example
   * const counts = await session.callAll(rowCount, { table: "users" });
   * const total = counts.reduce((sum, { rows }) => sum + rows, 0);
   */
  async callAll<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>[]> {
    checkCall(fn, options);
    return await withFate(fn, () => this.#functions.callAll(fn, request, options));
  }

  /**
   * Serves a function, which servers call over the connections that this worker has opened (`context.workers`): with
   * `handler`, or with the one that the function brings. Returns how to end that. A caller that asks a server to call
   * it serves it first. Throws BAD_ARGUMENT when it is served already, and for two handlers or none.
   *
   * @example
   * const stop = session.serve(progress, () => ({ step }));
   * stop(); // when servers need it no more
   */
  serve<Q extends Fields, R extends Fields>(fn: WorkerFunction<Q, R>, handler?: WorkerHandler<Q, R>): () => void {
    const { worker } = this.#node;
    assert(worker !== undefined, "a session has a worker");
    checkWorkerFunction(fn);
    return worker.serve(fn, handler);
  }

  /**
   * @internal Waits for something of this session, as long as `wait` allows; it goes on even when nobody waits any
   * more.
   */
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
   * @internal Calls a function of the owners of these keys, as tables place them; `shareOf` says what the owner of
   * those at some positions is asked for.
   */
  async callOwners<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    keys: BigUint64Array,
    shareOf: (positions: readonly number[]) => Pick<FunctionRequest<Q, R>, "request" | "answered">,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<void> {
    checkCall(fn, options);
    await withFate(fn, () => this.#functions.callOwners(fn, keys, shareOf, options));
  }

  /** @internal Counts the payload bytes of every function from now on. */
  startRecord(): void {
    this.#functions.startRecord();
  }

  /** @internal What was counted since `startRecord`, or since the last time, by the functions' names. */
  takeLoads(): ReadonlyMap<string, Readonly<FunctionLoad>> {
    return this.#functions.takeLoads();
  }

  /** @internal Ends all clocks before this one, if this worker stands below it. Throws OUT_OF_RANGE as `clock` does. */
  advanceTo(clock: number): number {
    if (this.#node.role === "guest") this.#refuse("advanceTo()");
    return this.#clock.advanceTo(clock);
  }

  /**
   * Whether the job is to have fewer workers and this one was asked to leave: end what is under way, then close. The
   * event "leaving" comes when it is asked.
   */
  get isLeaving(): boolean {
    return this.#events.isLeaving;
  }

  /**
   * Calls `listener` whenever the event comes, until `removeEventListener`, until `signal` fires, or once. A listener
   * that throws, or whose promise rejects, is logged as an error and changes nothing else. Only a listener for
   * "leaving" keeps the process alive. Throws BAD_ARGUMENT for an event that does not exist.
   *
   * @example
   * session.addEventListener("serverlost", ({ server, isAwaited }) => report(server, isAwaited));
   * session.addEventListener("leaving", () => units.retire(), { once: true });
   */
  addEventListener<K extends SessionEventName>(
    type: K,
    listener: (event: SessionEventMap[K]) => unknown,
    options: ListenOptions = {},
  ): void {
    this.#events.add(type, listener, options);
  }

  /** Ends what `addEventListener` began with the same event and function; one that does not listen is ignored. */
  removeEventListener<K extends SessionEventName>(type: K, listener: (event: SessionEventMap[K]) => unknown): void {
    this.#events.remove(type, listener);
  }

  /**
   * Calls `listener` with the error that the next call gets when this worker was taken for dead, while others went on,
   * as soon as that is known. Returns the function that stops it. For the tables face; users listen for "rejoined".
   * @internal
   */
  onClockLost(listener: (error: WeighbridgeError) => void): () => void {
    return this.#clock.onLost(listener);
  }

  /**
   * Joins the clock set again: of what this worker pushed to parameters with sync updates, the clock that it had not
   * ended is dropped, so that its work can be done again after a failure, and counts once on every server. Never moves
   * this worker's clock back.
   */
  async rejoin(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    if (this.#node.role === "guest") this.#refuse("rejoin()");
    await this.wait(this.#clock.rejoin(), "the clock set", options);
  }

  /**
   * Leaves the clock set until `rejoin`, as often as it likes: this worker has ended its clock, and under BSP and SSP
   * no worker waits for it. What it pushes meanwhile fails with NOT_JOINED.
   */
  async leaveClocks(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    if (this.#node.role === "guest") this.#refuse("leaveClocks()");
    await this.#clock.leave(options);
  }

  /**
   * Saves all parameters as they are when every worker has finished the clocks before this one's, while training
   * continues. One worker calls it. Returns two promises: `cut`, for a caller that must not change the parameters
   * before, and `saved`. They reject with QUEUE_FULL while another checkpoint is being taken, UNSUPPORTED when the
   * servers have no checkpoint directory, CHECKPOINT_IO, ARENA_FULL; earlier checkpoints stay as they are. Throws
   * BAD_ARGUMENT.
   *
   * @example
   * const { path } = await session.checkpoint({ keep: 3 }).saved;
   */
  checkpoint(options?: CheckpointOptions): Checkpoint;
  checkpoint(options: CheckpointOptions = {}, more?: unknown): Checkpoint {
    if (more !== undefined) throw moreThanOptions(more, "checkpoint");
    const { clock = this.clocks } = checkCheckpointOptions(options);
    if (!(Number.isSafeInteger(clock) && clock >= this.clocks && clock <= CLOCK_MAX)) {
      const why = clock > CLOCK_MAX ? `clocks end at ${CLOCK_MAX}` : `this worker has finished ${this.clocks} already`;
      throw badArgument(`a checkpoint at clock ${showValue(clock)}: ${why}`);
    }
    return new OpenCheckpoint((watch) => this.#save({ ...options, clock }, watch));
  }

  /**
   * Saves one parameter, apart from the checkpoints of the job, in a directory below the servers' checkpoint directory.
   * It replaces what was saved there before. Rejects as `checkpoint` does, and with UNKNOWN_PARAMETER.
   */
  async saveParameter(name: string, directory: string, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    if (this.#saving !== undefined) throw isSavingAlready(); // the servers would give that one up for this
    await this.#files.save(this.#serverCalls(options, PARAMETER_SAVE), name, directory, () => this.clocks);
  }

  /**
   * Brings a parameter to where `saveParameter` saved it, for all workers, while training continues; by any number of
   * servers. Rejects with CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO, which name the file, and with UNSUPPORTED for one
   * whose consistency is not "asp"; it is then as it was.
   */
  async loadParameter(name: string, directory: string, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    await this.#files.load(this.#serverCalls(options), name, directory);
  }

  /**
   * Brings servers without parameters to where a checkpoint (the newest, or that of `step`) left off, however many
   * servers took it, and this worker to its clock. Every worker of the cluster calls it. Rejects with
   * CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO, which name the file.
   */
  async restore(options?: RestoreOptions): Promise<RestoredCheckpoint>;
  async restore(options: RestoreOptions = {}, more?: unknown): Promise<RestoredCheckpoint> {
    if (more !== undefined) throw moreThanOptions(more, "restore");
    checkWaitOptions(options, ["step", ...WAIT_NAMES], "the options of a restore");
    const { step, ...wait } = options;
    checkStep("step", step);
    const restored = await restoreCheckpoint(this.#serverCalls(wait), step);
    this.#clock.raise(restored.clock);
    return restored;
  }

  /** Waits until every worker stands here. Rejects with NODE_DEAD when one dies meanwhile. */
  async barrier(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    if (this.#node.role === "guest") this.#refuse("barrier()");
    void this.#clock.forCall; // WorkerClock.J12
    await this.#node.barrier(Group.WORKERS, 0, options);
  }

  /**
   * The units of an epoch that the scheduler lends to this worker, as a loop: every unit is done once by some worker,
   * again only if a worker died with it. All workers describe the epoch alike; the second that does not gets
   * SPEC_MISMATCH. While there is no unit for this worker, the loop ends clocks, so that no worker waits for it. In
   * rounds it ends all clocks. Leaving the loop gives back what is not done. `timeoutMs` bounds the wait for each unit.
   *
   * @example
   * const epoch = { epoch: 0, batchCount: 937, partCount: session.workerCount, assignment: "even" } as const;
   * for await (const unit of session.units("train", epoch)) {
   *   await w.push(gradientOf(unit.batch, unit.part));
   *   session.clock();
   *   unit.done();
   * }
   */
  units(name: string, options: UnitOptions): Units;
  units(name: string, options: UnitOptions, more?: unknown): Units {
    if (more !== undefined) throw moreThanOptions(more, `units ${showValue(name)}`);
    checkWaitOptions(options, UNIT_OPTIONS, `the options of units ${showValue(name)}`);
    if (this.#node.role === "guest") this.#refuse("units()");
    const isBoundByClocks = (): boolean => this.#engine.isBoundByClocks;
    return this.#units.loop(name, options, { clock: this.#clock, isBoundByClocks, events: this.#events });
  }

  /** @internal The same for a face, which ends clocks itself. */
  async openUnits(name: string, options: UnitOptions): Promise<UnitFeed> {
    checkWaitOptions(options, UNIT_OPTIONS, `the options of units ${showValue(name)}`);
    return await this.#units.open(name, { ...options, firstClock: this.clocks });
  }

  /**
   * @internal The first epoch, from `epoch` on, in which nothing is left for this worker. Infinity if there is none.
   */
  nextEpochOver(name: string, epoch: number): number {
    return this.#units.nextOver(name, epoch);
  }

  /**
   * Operations among the workers, without servers: sums, exchanges, broadcasts. Waits until all workers that live have
   * called it; one that is open is given again. Throws UNSUPPORTED over ps-lite's protocol, DEADLINE with the names of
   * those that are missing.
   *
   * @example
   * const collective = await session.collective();
   * await collective.allReduce(gradient); // every worker's `gradient` is now the sum of all
   */
  async collective(options: WaitOptions = {}): Promise<Collective> {
    const { mesh } = this.#node;
    checkWaitOptions(options);
    if (mesh === undefined) throw unsupported("this worker is not joined with the others");
    if (this.#collective?.isClosed === false) return this.#collective;
    this.#openingCollective ??= this.#engine.openCollective(mesh, options).finally(() => {
      this.#openingCollective = undefined;
    });
    this.#collective = await this.wait(this.#openingCollective, "the other workers", options);
    return this.#collective;
  }

  /**
   * @internal As `collective`, for workers that make every step together. One that comes while the others make their
   * steps is outside the clock set until they admit it, and returns at their clock. No worker spends a clock by coming.
   */
  async stepCollective(options: WaitOptions = {}): Promise<Collective> {
    const { mesh } = this.#node;
    if (mesh === undefined || this.#collective?.isClosed === false) return await this.collective(options);
    const { generation } = await this.wait(mesh.look(), "the scheduler", options);
    if (generation === 0) return await this.collective(options); // it waits for every worker: none makes steps yet
    await this.#clock.stepAside(options);
    const collective = await this.collective(options);
    await this.rejoin(options);
    return collective;
  }

  /** All parameters there are, as the scheduler knows them, in the order in which they were first made. */
  async parameters(options: WaitOptions = {}): Promise<readonly ParameterDescription[]> {
    checkWaitOptions(options);
    return (await this.#catalogue.list(options)).map(describeParameter);
  }

  /**
   * Flushes what caches hold and top-k has kept, and leaves the clock set and the cluster; by default together with all
   * other nodes, so that servers stay until the last worker is done, and once the checkpoints and parameters are
   * written that this worker saves. Dead nodes are waited for as long as a start may take since they died; with
   * `barrier: "living"` this worker leaves at once when one is dead. Without the barrier what is being saved is given
   * up, and rejects with CLOSED; so may a checkpoint that waits for a clock which this worker has not ended. Called
   * again once it is closed, or while it closes, it does nothing more: `await using` may follow.
   */
  async close(options: { readonly barrier?: LeaveBarrier | undefined } & WaitOptions = {}): Promise<void> {
    checkWaitOptions(options, CLOSE_OPTIONS, "the options of a close");
    this.#closing ??= this.#flushAndLeave({ ...options, barrier: options.barrier ?? !this.isLeaving }).catch((thrown: unknown) => {
      this.#closing = undefined; // it may be tried otherwise, without the barrier for instance
      throw thrown;
    });
    await this.#closing;
  }

  /** Closes the session, as `close()` does. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #save(
    { timeoutMs, signal, ...options }: CheckpointOptions & { readonly clock: number },
    watch: CutWatch,
  ): Promise<TakenCheckpoint> {
    if (this.#saving !== undefined || this.#files.isSaving) throw isSavingAlready();
    const createdAt = new Date().toISOString();
    const taken = takeCheckpoint(this.#serverCalls({ timeoutMs, signal }), { ...options, ...watch, createdAt });
    this.#saving = { clock: options.clock, ended: taken.catch(() => {}) }; // its caller gets the error
    try {
      return await taken;
    } finally {
      this.#saving = undefined;
    }
  }

  async #flushAndLeave(options: { readonly barrier?: LeaveBarrier | undefined } & WaitOptions): Promise<void> {
    try {
      if (options.barrier !== false) await this.#endSaves(options);
      const { timeoutMs, signal } = options;
      await this.#units.close({ timeoutMs, signal });
      await this.#collective?.close();
      await this.#engine.flush(options);
    } finally {
      await this.#leave(options);
    }
  }

  async #endSaves({ timeoutMs, signal }: WaitOptions): Promise<void> {
    const saving = this.#saving !== undefined && this.#saving.clock <= this.clocks ? this.#saving.ended : undefined;
    await this.wait(Promise.all([saving, this.#files.ended]), "what is being saved", { timeoutMs, signal });
  }

  async #leave(options: { readonly barrier?: LeaveBarrier | undefined } & WaitOptions): Promise<void> {
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
    return serverCalls(this.#functions, this, { servers: serverRanks(this.#node.roster), wait, countedAs });
  }
}

refuseFormer(Session, {
  leaving: 'session.isLeaving, and session.addEventListener("leaving", listener) for the moment',
  onTakenOut: 'session.addEventListener("rejoined", listener)',
  unitFeed: "for await (const unit of session.units(name, options))",
});

function isSavingAlready(): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", "this worker is taking a checkpoint; there is one at a time", { retryable: true });
}
