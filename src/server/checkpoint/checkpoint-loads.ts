// checkpoint-loads — loads a whole checkpoint into a server without parameters: read first, then shown to everybody at
// once. The checkpoint service saves, and decides when a load may begin.
//
//   load ──► loaded: answered ──► activate
//
// Invariants:
//   CheckpointLoads.L1. A server without parameters loads a checkpoint, and shows it to nobody before it is activated.
//       Every worker may request the same load: all get the same answer, and one that gives up stops no other.

import { badArgument, WeighbridgeError } from "../../base/errors.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { Loaded } from "../../contracts/checkpoints.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { type RestoreCatalogue, restoreServer } from "./server-restore.ts";

export type LoadTarget = { readonly parameters: Parameters; readonly vectorClock: VectorClock; readonly ownership: Ownership };

/** The files and the job of a load, as the checkpoint service knows them. */
export type LoadSource = {
  /** The checkpoint of this step, by default the newest; `directory`: not among the job's own. */
  open(step: number | undefined, directory?: string): Promise<SnapshotSource>;
  /** Resolves when a load may begin (CheckpointService.V7); rejects if this server loads nothing. */
  mayBegin(): Promise<void>;
  /** Throws QUEUE_FULL before the server has a rank. */
  job(): { readonly run: string; readonly catalogue: RestoreCatalogue };
};

type Loading = {
  /** The callers that requested it and have not discarded it. */
  readonly owners: Set<string>;
  /** As requested, until the answer names it. */
  step: number | undefined;
  readonly done: Promise<Loaded>;
  activate: (() => Promise<void>) | undefined;
  /** While it is being activated. */
  activating: Promise<void> | undefined;
  isActive: boolean;
};

export class CheckpointLoads {
  readonly #target: LoadTarget;
  readonly #source: LoadSource;
  #loading: Loading | undefined;
  /** Whether a checkpoint was activated. Nobody else writes it. */
  isRestored = false;

  constructor({ parameters, vectorClock, ownership }: LoadTarget, source: LoadSource) {
    this.#target = { parameters, vectorClock, ownership };
    this.#source = source;
  }

  /** Whether a load is not activated yet. */
  get isPending(): boolean {
    return this.#loading?.isActive === false;
  }

  /** Loads the checkpoint of this step, by default the newest. */
  async loadStep(step: number | undefined, owner: string): Promise<Loaded> {
    return await this.load(async () => await this.#source.open(step), { step, owner });
  }

  /** Loads what `open` opens, until `activate` shows it (CheckpointLoads.L1). `step` identifies it. */
  async load(
    open: () => Promise<SnapshotSource>,
    { step, owner }: { readonly step?: number | undefined; readonly owner: string },
  ): Promise<Loaded> {
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
   * Shows the loaded checkpoint to everybody. Throws BAD_REQUEST if it is another one, BAD_ARGUMENT if the clocks are
   * past it, and what the catalogue throws (server-restore.ts).
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
    this.isRestored = true;
    this.#target.parameters.isRestoring = false;
    return {};
  }

  /** Discards what nobody has seen and nobody else wants: another worker may be about to activate it. */
  async discard(owner: string): Promise<Record<never, never>> {
    const loading = this.#loading;
    if (loading?.owners.delete(owner) !== true) return {};
    await loading.done.catch(() => {});
    await loading.activating?.catch(() => {});
    if (loading !== this.#loading || loading.isActive || loading.owners.size > 0) return {};
    this.#loading = undefined;
    this.#target.parameters.clearAll();
    this.#target.parameters.isRestoring = false;
    return {};
  }

  async #load(loading: Loading, open: () => Promise<SnapshotSource>): Promise<Loaded> {
    const { parameters, vectorClock, ownership } = this.#target;
    await this.#source.mayBegin();
    const { run, catalogue } = this.#source.job();
    if (parameters.all.length > 0) {
      const names = parameters.all.map(({ spec }) => JSON.stringify(spec.name)).join(", ");
      throw badArgument(
        `a checkpoint is restored before there are parameters; server ${ownership.rank} has ${names}; to go back to one, start the servers anew with --restore`,
      );
    }
    const owned = [...parameters.sums.all].find(([, store]) => store.keyCount > 0);
    if (owned !== undefined) {
      const what = owned[0] === "data" ? "data of pushData" : `values of kv application ${owned[0]}`;
      throw badArgument(`a checkpoint is restored before anything is pushed; server ${ownership.rank} has ${what}`);
    }
    parameters.isRestoring = true;
    try {
      const source = await open();
      try {
        const { path, manifest } = source;
        const { step, clock } = manifest;
        const { clockMin } = parameters.pacer;
        if (clockMin > clock) throw badArgument(`${path} is of clock ${clock}, and the workers are at ${clockMin}`);
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
}
