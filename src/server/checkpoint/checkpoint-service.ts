// checkpoint-service — a server's part in checkpoints: what contracts/checkpoints.ts lists. One save at a time, and training before saving:
// when memory runs out the save is given up, not a push.
//
//   cut ──► waits for the clock ──► frozen: answered ──► write ──► written: answered
//   load ──► loaded: answered ──► activate
//
// Invariants:
//   CheckpointService.V1. A save that its owner abandons, whose owner dies, or that fails, gives back all it holds, and removes its files.
//   CheckpointService.V2. Only what `begin` named is written to or committed, and only by its owner.
//   CheckpointService.V3. A checkpoint is loaded by a server without parameters, and seen by nobody before it is activated. Asked again for the same one, the
//       server answers the same: every worker may ask, and one that gives up takes nothing from the others.
//   CheckpointService.V4. One directory is made or removed at a time. What was given up while it was being made is gone before the next one is begun: a directory of
//       checkpoints has one writer (CheckpointDirectory.K3).
//   CheckpointService.V5. There is one cut at a time: who asks for another is told QUEUE_FULL, retryable.
//   CheckpointService.V7. The placement does not change between a load and its activation, nor between stage and replace: what was read is what was this server's own then. A
//       server that loads is not prepared for a change, and one that is prepared begins no load until the change is over.
//   CheckpointService.V8. A cut is of one placement: a part that leaves or comes later is written as it was, or not at all. Whoever takes the checkpoint sees to it that all servers
//       made theirs in the same epoch.
//   CheckpointService.V9. What an application cut itself stays where it is: a server that has any is prepared for no placement with other servers.
//   CheckpointService.V10. A server whose rank held sums in an earlier incarnation, and that was not restored, has lost them: it takes part in no checkpoint of the job.
//   CheckpointService.V6. A save has everything that existed at its cut: what is cleared or replaced meanwhile is written as it was.

import { assert } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { PlacementHold } from "../../cluster/placement-hold.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type * as contracts from "../../contracts/checkpoints.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { ServerReport, SnapshotFiles, SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import type { PrepareRequest } from "../../wire/control.ts";
import { nameOf } from "../../wire/node-id.ts";
import { ownerName } from "../handlers/checkpoints.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { CutPressure } from "./cut-pressure.ts";
import { ParameterLoads } from "./parameter-loads.ts";
import { type RestoreCatalogue, restoreServer } from "./server-restore.ts";
import { ServerSnapshot } from "./server-snapshot.ts";

export type CheckpointServiceOptions = {
  readonly parameters: Parameters;
  readonly vectorClock: VectorClock;
  readonly ownership: Ownership;
  /** Left out where the server was told no place for checkpoints. */
  readonly files: SnapshotFiles | undefined;
  readonly log: Log;
  readonly clock: Clock;
};

const IDLE_MS_MAX = 60_000;

type Saving = {
  readonly id: string;
  readonly owner: string;
  readonly snapshot: ServerSnapshot;
  readonly frozen: Deferred<contracts.Frozen>;
  /** Ends the patience with one that is frozen and not being written. */
  cancelIdle: CancelTimer | undefined;
  isWriting: boolean;
  isOver: boolean;
  error: WeighbridgeError | undefined;
};

/** A directory that was asked for; its name once it is there. */
type Begun = { pending: string; readonly owner: string };

/** This server, by its node: the roster comes before the placement, which says its rank elsewhere. */
type LostSums = { readonly node: number; readonly incarnation: number; readonly sumsIncarnation: number };

type Loading = {
  /** Who has asked for it, and not said that it is of no use. */
  readonly owners: Set<string>;
  /** As it was asked for, until the answer says which it is. */
  step: number | undefined;
  readonly done: Promise<contracts.Loaded>;
  activate: (() => Promise<void>) | undefined;
  /** While it is being activated. */
  activating: Promise<void> | undefined;
  isActive: boolean;
};

export class CheckpointService {
  /** What links wait for that bring updates while a cut is open. */
  readonly pressure: CutPressure;
  readonly #options: CheckpointServiceOptions;
  readonly #loads: ParameterLoads;
  #run: string | undefined;
  #catalogue: RestoreCatalogue | undefined;
  #saving: Saving | undefined;
  #begun: Begun | undefined;
  /** CheckpointService.V4: ends with the last directory that was to be made or removed; never rejects. */
  #directories: Promise<unknown> = Promise.resolve();
  #loading: Loading | undefined;
  /** CheckpointService.V10 */
  #lostSums: WeighbridgeError | undefined;
  #isRestored = false;
  /** CheckpointService.V7; undefined while no placement is about to come. */
  #hold: PlacementHold | undefined;

  constructor(options: CheckpointServiceOptions) {
    this.#options = options;
    this.#loads = new ParameterLoads(options.parameters);
    this.pressure = new CutPressure(options.parameters.host.arena, options.clock);
    options.ownership.onChange(() => {
      if (this.#hold !== undefined && options.ownership.epoch >= this.#hold.epoch) this.#hold.end();
    });
    options.parameters.host.arena.onFull = (use, byteCount) => {
      if (this.#saving?.snapshot.blocks(use, byteCount) !== true) return false;
      return this.#lose(new WeighbridgeError("ARENA_FULL", "the checkpoint was given up: pushes needed the memory", { retryable: true }));
    };
  }

  /** Which run of the job this is, and where its parameters get their numbers. Before that nothing can be saved or restored. */
  joined(run: string, catalogue: RestoreCatalogue): void {
    this.#run = run;
    this.#catalogue = catalogue;
  }

  /** An earlier incarnation of this server held sums, of which this one has nothing unless it is restored (CheckpointService.V10). */
  noteLostSums({ node, incarnation, sumsIncarnation }: LostSums): void {
    const what = `${nameOf(node)} was restarted (incarnation ${incarnation}) without the sums of incarnation ${sumsIncarnation}`;
    const message = `no checkpoint is taken: ${what}, values of the kv face or data of pushData; restore a checkpoint, or start the job anew`;
    this.#lostSums ??= new WeighbridgeError("UNKNOWN_PARAMETER", message);
  }

  /** The placement is about to change, or does not. Throws QUEUE_FULL while something is being loaded (CheckpointService.V7), and UNSUPPORTED (CheckpointService.V9), nothing held. */
  prepare(request: PrepareRequest): void {
    const { ownership, parameters, clock } = this.#options;
    const { epoch, holdMs, servers } = request;
    if (epoch <= ownership.epoch) return;
    if (holdMs === 0) {
      if (this.#hold?.epoch === epoch) this.#hold.end();
      return;
    }
    if (parameters.isRestoring || this.#loading?.isActive === false || this.#loads.isBusy)
      throw new WeighbridgeError("QUEUE_FULL", `server ${ownership.rank} is loading what was saved`, { retryable: true });
    if (servers !== undefined && ownership.hasAppCut) {
      const why = "an application of this job chose the servers of its requests itself (setSlicer, or a C++ worker)";
      throw new WeighbridgeError("UNSUPPORTED", `server ${ownership.rank} cannot go along with a change of the servers: ${why}`);
    }
    this.#hold ??= new PlacementHold(clock, () => {
      this.#hold = undefined;
      ownership.areServersChanging = false;
    });
    this.#hold.renew(request);
    ownership.areServersChanging = servers !== undefined; // Ownership.O4
  }

  /** Whoever this is asks for nothing any more (CheckpointService.V1). */
  forget(owner: string): void {
    const gone = new WeighbridgeError("NODE_DEAD", `${owner}, who was taking the checkpoint, is gone`);
    if (this.#saving?.owner === owner) this.#lose(gone);
    if (this.#begun?.owner === owner) void this.#removeBegun();
    void this.discard(owner);
    this.#loads.unstage(owner);
  }

  /** Loads the checkpoint of this step, the newest when it is left out. */
  async loadStep(step: number | undefined, owner: string): Promise<contracts.Loaded> {
    return await this.load(async () => this.#files.open(step), { step, owner });
  }

  /** Loads what `open` opens, for `activate` to show it (CheckpointService.V3). `step` tells checkpoints apart. */
  async load(
    open: () => Promise<SnapshotSource>,
    { step, owner }: { readonly step?: number | undefined; readonly owner: string },
  ): Promise<contracts.Loaded> {
    const known = this.#loading;
    if (known !== undefined && (step === undefined || known.step === undefined || known.step === step)) {
      known.owners.add(owner);
      const { isActive } = known;
      return { ...(await known.done), isActive };
    }
    const before: Promise<unknown> = known?.done ?? Promise.resolve();
    const done = before.catch(() => {}).then(() => this.#load(loading, open)); // one after the other
    const loading: Loading = { owners: new Set([owner]), step, done, activate: undefined, activating: undefined, isActive: false };
    this.#loading = loading;
    done.catch(() => {
      if (this.#loading === loading) this.#loading = undefined; // it may be tried again
    });
    return await done;
  }

  /**
   * What was loaded is everybody's. Throws BAD_REQUEST when it is another one, BAD_ARGUMENT when the clocks are past it, and what the catalogue throws
   * (server-restore.ts).
   */
  async activate(step: number): Promise<Record<never, never>> {
    const loading = this.#loading;
    const notLoaded = new WeighbridgeError("BAD_REQUEST", `the checkpoint of step ${step} is not loaded here`, { retryable: true });
    if (loading?.activate === undefined || loading.step !== step) throw notLoaded;
    if (loading.isActive) return {};
    loading.activating ??= loading.activate().finally(() => {
      loading.activating = undefined; // one that failed may be tried again
    });
    await loading.activating;
    loading.isActive = true;
    this.#isRestored = true;
    this.#options.parameters.isRestoring = false;
    return {};
  }

  close(): void {
    this.#hold?.end();
    this.#lose(new WeighbridgeError("CLOSED", "the server is closing"));
  }

  async survey(owner: string): Promise<contracts.Survey> {
    const { parameters } = this.#options;
    const gone = this.#saving?.owner === owner ? this.#saving.snapshot.gone : undefined;
    return { clockMin: parameters.pacer.clockMin, names: parameters.specs.map(({ name }) => name), gone };
  }

  async begin(request: contracts.Begin, owner: string): Promise<contracts.Begun> {
    if (this.#begun !== undefined && this.#begun.owner !== owner) throw busy(this.#begun.owner);
    void this.#removeBegun(); // one of its own that it forgot
    const begun: Begun = { pending: "", owner };
    this.#begun = begun;
    return await this.#inTurn(() => this.#make(begun, request));
  }

  async #make(begun: Begun, { step, stepMin, directory }: contracts.Begin): Promise<contracts.Begun> {
    try {
      const made = await this.#files.begin(stepMin, step, directory);
      begun.pending = made.pending;
      if (this.#begun === begun) return made;
      await this.#remove(made.pending); // it was given up meanwhile
    } catch (thrown) {
      if (this.#begun === begun) this.#begun = undefined;
      throw thrown;
    }
    throw new WeighbridgeError("ABORTED", "the checkpoint was given up");
  }

  async cut({ id, clock, isWhole }: contracts.Cut, owner: string): Promise<contracts.Frozen> {
    const { parameters, vectorClock, ownership } = this.#options;
    const run = this.#knownRun;
    void this.#files; // throws when there are none
    if (isWhole && this.#lostSums !== undefined && !this.#isRestored) throw this.#lostSums; // CheckpointService.V10
    if (this.#saving?.isOver === false && (this.#saving.owner !== owner || this.#saving.isWriting)) throw busy(this.#saving.owner); // CheckpointService.V5
    this.#lose(new WeighbridgeError("ABORTED", "its owner takes another checkpoint"));
    const snapshot = new ServerSnapshot({ parameters, vectorClock, ownership, withSums: isWhole });
    const [frozen, cancelIdle, error] = [new Deferred<contracts.Frozen>(), undefined, undefined];
    const saving: Saving = { id, owner, snapshot, frozen, cancelIdle, isWriting: false, isOver: false, error };
    saving.frozen.promise.catch(() => {}); // whoever asks is told
    parameters.pacer.rounds.cutAt(clock, () => {
      try {
        snapshot.freeze();
        this.#watch(saving);
        saving.frozen.resolve({ names: snapshot.names, run, epoch: ownership.epoch });
      } catch (thrown) {
        this.#end(saving, thrown);
      }
    });
    this.#saving = saving;
    if (!saving.isOver) {
      const isAwaitedOf = (holder: WorkerIncarnation): boolean => !saving.isWriting && saving.owner === ownerName(holder);
      this.pressure.begin({ keptBytes: () => snapshot.keptBytes, isAwaitedOf });
    }
    return await saving.frozen.promise;
  }

  async write({ id, pending, step, job, parameters }: contracts.Write, owner: string): Promise<ServerReport> {
    const saving = this.#saving;
    if (saving?.id !== id || saving.owner !== owner) throw unknown(id); // CheckpointService.V2
    if (saving.error !== undefined) throw saving.error;
    if (saving.isOver) throw unknown(id);
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
      return report;
    } catch (thrown) {
      throw this.#end(saving, thrown);
    }
  }

  /** What is frozen takes memory: who froze it has to go on. */
  #watch(saving: Saving): void {
    saving.cancelIdle = this.#options.clock.after(IDLE_MS_MAX, () => {
      this.#lose(new WeighbridgeError("DEADLINE", `${saving.owner} froze a checkpoint, and did not go on for ${IDLE_MS_MAX} ms`));
    });
  }

  /** What it was given up for is what its owner is told. */
  #end(saving: Saving, thrown: unknown): WeighbridgeError {
    saving.error ??= isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown), { cause: thrown });
    saving.isOver = true;
    this.pressure.end();
    saving.cancelIdle?.();
    saving.snapshot.close();
    saving.frozen.reject(saving.error);
    return saving.error;
  }

  /** Gives up what is being saved; false when nothing is. */
  #lose(error: WeighbridgeError): boolean {
    const saving = this.#saving;
    if (saving === undefined || saving.isOver) return false;
    this.#options.log.warn("a checkpoint was given up", { reason: error.message });
    this.#options.parameters.pacer.rounds.cancelCut();
    saving.snapshot.lose(error);
    this.#end(saving, error);
    return true;
  }

  async commit({ pending, manifest, keep }: contracts.Commit, owner: string): Promise<contracts.Committed> {
    if (this.#begun?.pending !== pending || this.#begun.owner !== owner) throw unknown(pending); // CheckpointService.V2
    const { path, warning } = await this.#files.commit(pending, manifest as unknown as CheckpointManifest);
    this.#begun = undefined;
    return { path, warning: (await this.#keep(keep, pending)) ?? warning };
  }

  /** The checkpoint is complete, whatever becomes of older ones: what goes wrong is returned. */
  async #keep(keep: number | undefined, pending: string): Promise<string | undefined> {
    try {
      if (keep !== undefined) await this.#files.keep(keep, pending);
      return undefined;
    } catch (thrown) {
      return `older checkpoints were to be removed: ${reasonOf(thrown)}`;
    }
  }

  async abandon({ id, pending }: contracts.Abandon, owner: string): Promise<Record<never, never>> {
    if (this.#saving?.id === id && this.#saving.owner === owner) this.#lose(new WeighbridgeError("ABORTED", "the checkpoint was given up"));
    // Who does not know the name has not heard the answer to its `begin`.
    if (this.#begun?.owner === owner && (pending === undefined || this.#begun.pending === pending)) await this.#removeBegun();
    return {};
  }

  async #removeBegun(): Promise<void> {
    const pending = this.#begun?.pending ?? "";
    this.#begun = undefined;
    if (pending !== "") await this.#inTurn(() => this.#remove(pending));
  }

  /** CheckpointService.V4 */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#directories.then(work);
    this.#directories = done.catch(() => {}); // whoever asked is told
    return await done;
  }

  async #remove(pending: string): Promise<void> {
    await this.#files.abandon(pending).catch((thrown: unknown) => {
      this.#options.log.warn("files of a checkpoint that was given up are left", { reason: reasonOf(thrown) });
    });
  }

  async #load(loading: Loading, open: () => Promise<SnapshotSource>): Promise<contracts.Loaded> {
    const { parameters, vectorClock, ownership } = this.#options;
    const { run, catalogue } = this.#restoring;
    await this.#hold?.released; // CheckpointService.V7
    if (parameters.all.length > 0) {
      const names = parameters.all.map(({ spec }) => JSON.stringify(spec.name)).join(", ");
      throw new WeighbridgeError(
        "BAD_ARGUMENT",
        `a checkpoint is restored before there are parameters; server ${ownership.rank} has ${names}; to go back to one, start the servers anew with --restore`,
      );
    }
    const owned = [...parameters.sums.all].find(([, store]) => store.keyCount > 0);
    if (owned !== undefined) {
      const what = owned[0] === "data" ? "data of pushData" : `values of kv application ${owned[0]}`;
      throw new WeighbridgeError(
        "BAD_ARGUMENT",
        `a checkpoint is restored before anything is pushed; server ${ownership.rank} has ${what}`,
      );
    }
    parameters.isRestoring = true;
    try {
      const source = await open();
      try {
        const { path, manifest } = source;
        const { step, clock } = manifest;
        const { clockMin } = parameters.pacer;
        if (clockMin > clock)
          throw new WeighbridgeError("BAD_ARGUMENT", `${path} is of clock ${clock}, and the workers are at ${clockMin}`);
        loading.activate = await restoreServer({ source, parameters, vectorClock, ownership, run, catalogue });
        loading.step = step;
        const namesOf = (isSums: boolean): string[] =>
          manifest.parameters.filter(({ kind }) => (kind === "sums") === isSums).map(({ name }) => name);
        return { path, step, clock, parameters: namesOf(false), sums: namesOf(true), isActive: false };
      } finally {
        await source.close();
      }
    } catch (thrown) {
      parameters.isRestoring = false;
      throw thrown;
    }
  }

  async stage(request: contracts.Stage, owner: string): Promise<contracts.Step> {
    const { step, directory } = request;
    await this.#hold?.released; // CheckpointService.V7
    return await this.#loads.stage(async () => this.#files.open(step, directory), request, owner, this.#options.ownership);
  }

  /** What was staged takes the place of the parameter that there is. */
  replace(step: number, owner: string): Record<never, never> {
    return this.#loads.replace(step, owner);
  }

  unstage(owner: string): Record<never, never> {
    return this.#loads.unstage(owner);
  }

  /** Forgets what nobody has seen and nobody else wants: another worker may be about to activate it. */
  async discard(owner: string): Promise<Record<never, never>> {
    const loading = this.#loading;
    if (loading?.owners.delete(owner) !== true) return {};
    await loading.done.catch(() => {});
    await loading.activating?.catch(() => {});
    if (loading !== this.#loading || loading.isActive || loading.owners.size > 0) return {};
    this.#loading = undefined;
    this.#options.parameters.clearAll();
    this.#options.parameters.isRestoring = false;
    return {};
  }

  get #files(): SnapshotFiles {
    const { files } = this.#options;
    if (files !== undefined) return files;
    throw new WeighbridgeError("UNSUPPORTED", "this server was given no place for checkpoints: start it with --checkpoint-dir");
  }

  get #restoring(): { readonly run: string; readonly catalogue: RestoreCatalogue } {
    const run = this.#knownRun;
    assert(this.#catalogue !== undefined, "it comes with the run");
    return { run, catalogue: this.#catalogue };
  }

  get #knownRun(): string {
    if (this.#run !== undefined) return this.#run;
    throw new WeighbridgeError("QUEUE_FULL", "this server has no rank yet", { retryable: true });
  }
}

function busy(owner: string): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", `${owner} is taking a checkpoint; there is one at a time`, { retryable: true });
}

function unknown(id: string): WeighbridgeError {
  const why = "it was given up, or this server was restarted";
  return new WeighbridgeError("BAD_REQUEST", `no checkpoint ${JSON.stringify(id)} of yours is being taken here: ${why}`, {
    retryable: true,
  });
}
