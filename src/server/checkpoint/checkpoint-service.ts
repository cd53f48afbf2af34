// checkpoint-service — a server's part in checkpoints: it freezes and writes what this server has. One save at a time,
// and training comes first: if memory runs out, the save is given up, not a push. pending-directory.ts makes and
// commits the directory, checkpoint-loads.ts and parameter-loads.ts load.
//
//   cut ──► waits for the clock ──► frozen: answered ──► write ──► written: answered
//
// Invariants:
//   CheckpointService.V1. A save that fails, or whose owner abandons it or dies, releases its memory and removes its
//       files.
//   CheckpointService.V2. Only the owner of a save goes on with it.
//   CheckpointService.V5. There is one cut at a time, and it is written once: another gets a retryable QUEUE_FULL.
//   CheckpointService.V6. A save has everything that existed at its cut, also what is cleared or replaced meanwhile.
//   CheckpointService.V7. The placement does not change between a load and its activation, nor between stage and
//       replace: the server has read the parts that it owned then. A server that loads is not prepared for a change;
//       one that is prepared begins no load until the change is over.
//   CheckpointService.V8. The cuts of all servers are of one placement, since all know the same clocks when it changes
//       (PlacementChanges.C1). One that the change finds at the clock that is under way is made anew behind it, on all
//       servers; what was cut at an earlier clock was cut before it, on all. A server that makes a cut is not prepared
//       for a change before the owner goes on, and one that is prepared answers no cut until the change is over: so no
//       owner goes on in between. A part that leaves or comes later is written as it was, or not at all.
//   CheckpointService.V10. A server whose rank held sums in an earlier incarnation, and that was not restored, has lost
//       them: it takes part in no checkpoint of the job.

import { assert } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { asError, unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type * as contracts from "../../contracts/checkpoints.ts";
import type { ServerReport, SnapshotFiles } from "../../store/snapshot/snapshot-files.ts";
import { nameOf, roleOf } from "../../wire/node-id.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import type { PlacementPrepare } from "../placement-prepare.ts";
import { CheckpointLoads, type LoadSource } from "./checkpoint-loads.ts";
import { CutPressure } from "./cut-pressure.ts";
import { ParameterLoads } from "./parameter-loads.ts";
import { busyWith, PendingDirectory, unknownSave } from "./pending-directory.ts";
import type { RestoreCatalogue } from "./server-restore.ts";
import { ServerSnapshot } from "./server-snapshot.ts";

type CheckpointServiceOptions = {
  readonly parameters: Parameters;
  readonly vectorClock: VectorClock;
  readonly ownership: Ownership;
  /** Holds loads back while the placement is about to change (CheckpointService.V7). */
  readonly placement: Pick<PlacementPrepare, "released">;
  /** Undefined if the server has no directory for checkpoints. */
  readonly files: SnapshotFiles | undefined;
  readonly log: Log;
  readonly clock: Clock;
};

const IDLE_MS_MAX = 60_000;

type Saving = {
  readonly id: string;
  readonly owner: string;
  readonly clock: number;
  readonly isWhole: boolean;
  snapshot: ServerSnapshot;
  /** The placement at the cut; undefined before it. */
  placement: { readonly epoch: number; readonly servers: Uint32Array } | undefined;
  stamps: ReadonlyMap<number, string>;
  /** It is made when parts that come or go have settled (CheckpointService.V8). */
  isPutOff: boolean;
  readonly frozen: Deferred<contracts.Frozen>;
  /** Cancels the timer of a save that is frozen and not being written. */
  cancelIdle: CancelTimer | undefined;
  isWriting: boolean;
  isOver: boolean;
  error: WeighbridgeError | undefined;
};

/** This server, by its node: the roster comes before the placement, which has its rank. */
type LostSums = { readonly node: number; readonly incarnation: number; readonly sumsIncarnation: number };

export class CheckpointService {
  /** Why this server loads nothing from a checkpoint, if so. */
  loadRefusal: WeighbridgeError | undefined;
  /** Called before a cut is made. */
  beforeCut: () => void = () => {};
  /** What links with updates wait for while a cut is open. */
  readonly pressure: CutPressure;
  readonly directory: PendingDirectory;
  /** Loads of whole checkpoints, and of one parameter each. */
  readonly loads: CheckpointLoads;
  readonly parameterLoads: ParameterLoads;
  readonly #options: CheckpointServiceOptions;
  #run: string | undefined;
  #catalogue: RestoreCatalogue | undefined;
  #saving: Saving | undefined;
  /** What was written last: its step, and how far each worker's updates were. */
  #written: { readonly step: number; readonly stamps: ReadonlyMap<number, string> } | undefined;
  /** CheckpointService.V10 */
  #lostSums: WeighbridgeError | undefined;

  constructor(options: CheckpointServiceOptions) {
    this.#options = options;
    this.directory = new PendingDirectory(() => this.#files, options.log);
    const source: LoadSource = {
      open: async (step, directory) => await this.#files.open(step, directory),
      mayBegin: async () => await this.#mayLoad(),
      job: () => this.#job(),
    };
    this.loads = new CheckpointLoads(options, source);
    this.parameterLoads = new ParameterLoads(options, source);
    this.pressure = new CutPressure(options.parameters.host.arena, options.clock);
    options.ownership.onChange(() => this.#placementChanged());
    options.parameters.host.arena.onFull = (use, byteCount) => {
      if (this.#saving?.snapshot.blocks(use, byteCount) !== true) return false;
      return this.#lose(new WeighbridgeError("ARENA_FULL", "the checkpoint was given up: pushes needed the memory", { retryable: true }));
    };
  }

  /**
   * The run of the job, and the source of numbers for parameters. Before this call nothing can be saved or restored.
   */
  joined(run: string, catalogue: RestoreCatalogue): void {
    this.#run = run;
    this.#catalogue = catalogue;
  }

  /**
   * An earlier incarnation of this server held sums, which are lost unless this one is restored
   * (CheckpointService.V10).
   */
  noteLostSums({ node, incarnation, sumsIncarnation }: LostSums): void {
    const what = `${nameOf(node)} was restarted (incarnation ${incarnation}) without the sums of incarnation ${sumsIncarnation}`;
    const message = `no checkpoint is taken: ${what}, values of the kv face or data of pushData; restore a checkpoint, or start the job anew`;
    this.#lostSums ??= new WeighbridgeError("UNKNOWN_PARAMETER", message);
  }

  /** The step of the checkpoint that this server has written, if no update has come since its cut. */
  get savedStep(): number | undefined {
    const { step, stamps } = this.#written ?? {};
    return [...this.#stamps()].every(([worker, stamp]) => stamps?.get(worker) === stamp) ? step : undefined;
  }

  #stamps(): ReadonlyMap<number, string> {
    // Servers that take checkpoints call with stamps, too.
    const entries = [...this.#options.vectorClock.entries()].filter(([node]) => roleOf(node) !== "server");
    return new Map(entries.map(([worker, { incarnation, stamp }]) => [worker, `${incarnation}:${stamp}`]));
  }

  /** Whether a cut waits for its clock, or for its owner to go on (CheckpointService.V8). */
  get isCutting(): boolean {
    return this.#saving?.isOver === false && !this.#saving.isWriting;
  }

  /** Whether a load is going on that is not shown to everybody yet (CheckpointService.V7). */
  get isLoading(): boolean {
    return this.#options.parameters.isRestoring || this.loads.isPending || this.parameterLoads.isBusy;
  }

  /** This owner makes no further requests (CheckpointService.V1). */
  forget(owner: string): void {
    const gone = new WeighbridgeError("NODE_DEAD", `${owner}, who was taking the checkpoint, is gone`);
    if (this.#saving?.owner === owner) this.#lose(gone);
    void this.directory.abandon(undefined, owner);
    void this.loads.discard(owner);
    this.parameterLoads.unstage(owner);
  }

  /** This server is in no placement any more, and hears of no clock: a cut that waits for one is made without it. */
  left(error: WeighbridgeError): void {
    const { isOver = true, isWriting = false, cancelIdle } = this.#saving ?? {};
    if (!isOver && !isWriting && cancelIdle === undefined) this.#lose(error);
  }

  close(): void {
    this.#lose(new WeighbridgeError("CLOSED", "the server is closing"));
  }

  async survey(owner: string): Promise<contracts.Survey> {
    const { parameters } = this.#options;
    const { pacer } = parameters;
    const own = this.#saving?.owner === owner ? this.#saving : undefined;
    const isWaiting = own?.isOver === false && pacer.clockMin < own.clock;
    const waits = isWaiting ? `for the slowest to reach clock ${own.clock}: ${pacer.clocks.describeSlowest()}` : "";
    return { clockMin: pacer.clockMin, names: parameters.specs.map(({ name }) => name), gone: own?.snapshot.gone, waits };
  }

  async cut({ id, clock, isWhole }: contracts.Cut, owner: string): Promise<contracts.Frozen> {
    const { parameters, ownership } = this.#options;
    void [this.#knownRun, this.#files]; // both throw when there is none
    if (isWhole && this.#lostSums !== undefined && !this.loads.isRestored) throw this.#lostSums;
    if (ownership.placement?.servers.includes(ownership.rank) === false) throw ownership.wrongEpoch(ownership.epoch);
    // CheckpointService.V5
    if (this.#saving?.isOver === false && (this.#saving.owner !== owner || this.#saving.isWriting)) throw busyWith(this.#saving.owner);
    this.#lose(new WeighbridgeError("ABORTED", "its owner takes another checkpoint"));
    const [frozen, cancelIdle, error, placement] = [new Deferred<contracts.Frozen>(), undefined, undefined, undefined];
    const state = { snapshot: this.#snapshot(isWhole), placement, stamps: new Map(), isPutOff: false, isWriting: false, isOver: false };
    const saving: Saving = { id, owner, clock, isWhole, ...state, frozen, cancelIdle, error };
    saving.frozen.promise.catch(() => {}); // callers get the error
    parameters.pacer.rounds.cutAt(clock, () => this.#freeze(saving));
    this.#saving = saving;
    if (!saving.isOver) {
      const isAwaitedOf = (holder: WorkerIncarnation): boolean => !saving.isWriting && saving.owner === ownerName(holder);
      this.pressure.begin({ keptBytes: () => saving.snapshot.keptBytes, isAwaitedOf });
    }
    return await saving.frozen.promise;
  }

  #snapshot(withSums: boolean): ServerSnapshot {
    const { parameters, vectorClock, ownership } = this.#options;
    return new ServerSnapshot({ parameters, vectorClock, ownership, withSums });
  }

  /** The cut, or, while parts come or go, what is done when they have settled. */
  #freeze(saving: Saving): void {
    const { ownership } = this.#options;
    saving.isPutOff = ownership.isSettling;
    if (saving.isPutOff) return;
    try {
      this.beforeCut();
      saving.snapshot.freeze();
      saving.placement = { epoch: ownership.epoch, servers: ownership.servers };
      saving.stamps = this.#stamps();
      this.#watch(saving);
      void this.#answer(saving);
    } catch (thrown) {
      this.#end(saving, thrown);
    }
  }

  /** CheckpointService.V8 */
  async #answer(saving: Saving): Promise<void> {
    while (this.#options.placement.released !== undefined) await this.#options.placement.released;
    const { snapshot, placement } = saving;
    if (!saving.isOver && placement !== undefined) saving.frozen.resolve({ names: snapshot.names, run: this.#knownRun, ...placement });
  }

  /** CheckpointService.V8 */
  #placementChanged(): void {
    const saving = this.#saving;
    if (saving === undefined || !this.isCutting) return;
    const { ownership, parameters } = this.#options;
    const { placement, clock, isWhole } = saving;
    if (placement !== undefined && placement.epoch !== ownership.epoch && parameters.pacer.clockMin === clock) {
      saving.cancelIdle?.();
      saving.cancelIdle = undefined;
      saving.snapshot.close();
      saving.snapshot = this.#snapshot(isWhole);
      saving.placement = undefined;
      saving.isPutOff = true;
    }
    if (saving.isPutOff && !ownership.isSettling) this.#freeze(saving);
  }

  async write({ id, pending, step, job, parameters }: contracts.Write, owner: string): Promise<ServerReport> {
    const saving = this.#saving;
    if (saving?.id !== id || saving.owner !== owner) throw unknownSave(id); // CheckpointService.V2
    if (saving.error !== undefined) throw saving.error;
    if (saving.isOver) throw unknownSave(id);
    if (saving.isWriting) throw busyWith(owner); // CheckpointService.V5
    if (saving.placement === undefined) throw this.#options.ownership.wrongEpoch(this.#options.ownership.epoch);
    const { snapshot } = saving;
    saving.cancelIdle?.();
    saving.cancelIdle = undefined;
    saving.isWriting = true;
    try {
      snapshot.choose(parameters);
      const report = await snapshot.write(
        this.#files.shard(pending, { job, step, server: this.#options.ownership.rank }, snapshot.records),
      );
      saving.isOver = true;
      this.pressure.end();
      if (saving.isWhole) this.#written = { step, stamps: saving.stamps };
      return report;
    } catch (thrown) {
      throw this.#end(saving, thrown);
    }
  }

  /** A frozen save holds memory: its owner has to go on. */
  #watch(saving: Saving): void {
    saving.cancelIdle = this.#options.clock.after(IDLE_MS_MAX, () => {
      this.#lose(new WeighbridgeError("DEADLINE", `${saving.owner} froze a checkpoint, and did not go on for ${IDLE_MS_MAX} ms`));
    });
  }

  /** Its owner gets the reason for which it was given up. */
  #end(saving: Saving, thrown: unknown): WeighbridgeError {
    saving.error ??= asError(thrown, "HANDLER_FAILED");
    saving.isOver = true;
    this.pressure.end();
    saving.cancelIdle?.();
    saving.snapshot.close();
    saving.frozen.reject(saving.error);
    return saving.error;
  }

  /** Gives up the current save; false if there is none. */
  #lose(error: WeighbridgeError): boolean {
    const saving = this.#saving;
    if (saving === undefined || saving.isOver) return false;
    this.#options.log[error.code === "CLOSED" ? "info" : "warn"]("a checkpoint was given up", { reason: error.message });
    this.#options.parameters.pacer.rounds.cancelCut();
    saving.snapshot.lose(error);
    this.#end(saving, error);
    return true;
  }

  async abandon({ id, pending }: contracts.Abandon, owner: string): Promise<Record<never, never>> {
    if (this.#saving?.id === id && this.#saving.owner === owner) this.#lose(new WeighbridgeError("ABORTED", "the checkpoint was given up"));
    await this.directory.abandon(pending, owner);
    return {};
  }

  get #files(): SnapshotFiles {
    const { files } = this.#options;
    if (files !== undefined) return files;
    throw unsupported("this server has no directory for checkpoints: start it with --checkpoint-dir");
  }

  /** CheckpointService.V7 */
  async #mayLoad(): Promise<void> {
    if (this.loadRefusal !== undefined) throw this.loadRefusal;
    await this.#options.placement.released;
  }

  #job(): { readonly run: string; readonly catalogue: RestoreCatalogue } {
    const run = this.#knownRun;
    assert(this.#catalogue !== undefined, "it comes with the run");
    return { run, catalogue: this.#catalogue };
  }

  get #knownRun(): string {
    if (this.#run !== undefined) return this.#run;
    throw new WeighbridgeError("QUEUE_FULL", "this server has no rank yet", { retryable: true });
  }
}

/** The name of a worker that takes a checkpoint, which distinguishes owners. */
export function ownerName({ worker, incarnation }: WorkerIncarnation): string {
  return `${nameOf(worker)} (incarnation ${incarnation})`;
}
