// parameter-loads — restores one parameter while the others go on (Hetu: ParamLoad): reads this server's part of it
// beside the present one, and replaces that when every server is ready. Not a restore of the whole job
// (checkpoint-loads.ts).
//
// Invariants:
//   ParameterLoads.L1. Nobody sees a staged parameter before it replaces the other, in one step. A failure leaves the
//       parameter as it was.
//   ParameterLoads.L2. A staged parameter that its owner discards, or cannot use, releases its memory.
//   ParameterLoads.L3. Only the parameter that was saved is replaced: the same name, shape, optimizer and columns.

import { badRequest, unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { LoadStage, Step } from "../../contracts/checkpoints.ts";
import { requireSameModel } from "../../store/snapshot/same-model.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameter, Parameters } from "../parameters/parameters.ts";
import type { LoadSource, LoadTarget } from "./checkpoint-loads.ts";
import { explainedRoom } from "./expected-rows.ts";
import { restoreParameter } from "./parameter-restore.ts";
import { trainingOf } from "./server-restore.ts";

type Staged = { readonly step: number; readonly parameter: Parameter };
/** `staged` is undefined while it is being read. */
type Loading = { staged: Staged | undefined };

export class ParameterLoads {
  readonly #parameters: Parameters;
  readonly #ownership: Ownership;
  readonly #source: LoadSource;
  /** By their owners. */
  readonly #loadings = new Map<string, Loading>();

  constructor({ parameters, ownership }: Pick<LoadTarget, "parameters" | "ownership">, source: LoadSource) {
    this.#parameters = parameters;
    this.#ownership = ownership;
    this.#source = source;
  }

  get isBusy(): boolean {
    return this.#loadings.size > 0;
  }

  /**
   * Reads this server's share of a saved parameter. Throws UNKNOWN_PARAMETER, UNSUPPORTED for a parameter bound by
   * clocks, QUEUE_FULL while its owner stages another, CHECKPOINT_MISSING, _TORN, _FOREIGN (ParameterLoads.L3) or _IO,
   * ARENA_FULL.
   */
  async stage({ name, step, directory }: LoadStage, owner: string): Promise<Step> {
    await this.#source.mayBegin();
    this.#find(name);
    const known = this.#loadings.get(owner);
    if (known !== undefined && known.staged === undefined)
      throw new WeighbridgeError("QUEUE_FULL", `${owner} is loading a parameter; it loads one at a time`, { retryable: true });
    this.unstage(owner); // its owner may have left one
    const loading: Loading = { staged: undefined };
    this.#loadings.set(owner, loading);
    try {
      const staged = await this.#open(name, step, directory);
      loading.staged = staged;
      if (this.#loadings.get(owner) === loading) return { step: staged.step };
      staged.parameter.close(); // ParameterLoads.L2
    } catch (thrown) {
      if (this.#loadings.get(owner) === loading) this.#loadings.delete(owner);
      throw thrown;
    }
    throw new WeighbridgeError("ABORTED", `the loading of ${name} was given up`);
  }

  /**
   * ParameterLoads.L1. Throws BAD_REQUEST if its owner has not staged this step, UNKNOWN_PARAMETER if the other is
   * gone.
   */
  replace(step: number, owner: string): Record<never, never> {
    const staged = this.#loadings.get(owner)?.staged;
    if (staged?.step !== step) throw badRequest(`nothing of step ${step} is staged here for ${owner}`);
    this.#loadings.delete(owner);
    try {
      this.#parameters.replace(staged.parameter);
    } catch (thrown) {
      staged.parameter.close();
      throw thrown;
    }
    return {};
  }

  /** ParameterLoads.L2 */
  unstage(owner: string): Record<never, never> {
    this.#loadings.get(owner)?.staged?.parameter.close();
    this.#loadings.delete(owner);
    return {};
  }

  async #open(name: string, step: number | undefined, directory: string): Promise<Staged> {
    const source = await this.#source.open(step, directory);
    try {
      return await this.#read(name, source);
    } finally {
      await source.close();
    }
  }

  async #read(name: string, source: SnapshotSource): Promise<Staged> {
    const ownership = this.#ownership;
    const { manifest, path } = source;
    const { spec, pace } = this.#find(name);
    const { host } = this.#parameters;
    const [saved] = manifest.parameters;
    const isLoaded = saved?.name === name && host.plugIns.loaderOf(spec, saved, path) !== undefined;
    // ParameterLoads.L3
    requireSameModel(path, manifest.parameters, [host.plugIns.describe(spec)], new Set(isLoaded ? [name] : []));
    const parameter = this.#parameters.beside(spec);
    try {
      for (const record of manifest.parameters) {
        // its consistency stays
        parameter.resume({ ...trainingOf(record, manifest, ownership, path), ...pace.training });
        await restoreParameter(parameter, { source, record, host, ownership, number: this.#parameters.numberOf(name) });
      }
    } catch (thrown) {
      parameter.close();
      throw explainedRoom(thrown, { source, numbers: [this.#parameters.numberOf(name)], ownership, arena: host.arena });
    }
    return { step: manifest.step, parameter };
  }

  #find(name: string): Parameter {
    const parameter = this.#parameters.find(name);
    if (parameter === undefined) throw new WeighbridgeError("UNKNOWN_PARAMETER", `this server has no parameter ${JSON.stringify(name)}`);
    if (parameter.pace.isOnly({ updates: "async", staleness: Infinity })) return parameter;
    const why = "others may be waiting for its clocks; a checkpoint of the whole job can be restored";
    throw unsupported(`${name} is loaded alone only if its consistency is "asp": ${why}`);
  }
}
