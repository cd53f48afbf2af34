// parameters — the parameters of a server, by the number that stands for their name on the wire.
//
// Invariants:
//   P1. A name has one spec: whoever describes it differently is told in what, and changes nothing.
//   P2. Two names with one number do not both exist: the second is refused.
//   P3. While a checkpoint is being restored nobody finds, makes or clears a parameter: who asks is told to ask again. A worker that joins waits: at which clock
//       it stands here, the checkpoint says.
//   P4. A parameter that is being saved keeps its memory until that is over, also when it is cleared or replaced meanwhile. Nobody finds it from then on, and its name
//       is free.

import { Deferred } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { decodeParameterSpec, type ParameterSpec, parameterNumber, specDifferences } from "../../store/parameter-spec.ts";
import { ParameterHost, type ParameterHostOptions, type ParameterIds } from "./parameter-host.ts";
import { decodeSettings } from "./parameter-settings.ts";
import type { ServerPacer } from "./server-pacer.ts";
import { TableParameter } from "./table-parameter.ts";
import { TensorParameter } from "./tensor-parameter.ts";

export type Parameter = TensorParameter | TableParameter;

/** What errors name, not more: parameters may come and go without end. */
const CLEARED_NAMES_MAX = 1024;

export class Parameters {
  readonly #host: ParameterHost;
  /** The names of parameters that are no more, by number, the oldest first. */
  readonly #clearedNames = new Map<number, string>();
  readonly #byNumber = new Map<number, Parameter>();
  /** P4: how many save a parameter, and whether it was cleared. */
  readonly #kept = new Map<Parameter, { count: number; isCleared: boolean }>();
  #restoring: Deferred<void> | undefined;

  constructor(options: ParameterHostOptions) {
    this.#host = new ParameterHost(options, {
      pushed: (number, clock, count) => this.#byNumber.get(number)?.notePushes(clock, count),
      roundOver: (number, clock) => this.#byNumber.get(number)?.countRound(clock),
    });
  }

  get pacer(): ServerPacer {
    return this.#host.pacer;
  }

  /** What the parameters share. */
  get host(): ParameterHost {
    return this.#host;
  }

  get all(): readonly Parameter[] {
    return [...this.#byNumber.values()];
  }

  /** P3 */
  get isRestoring(): boolean {
    return this.#restoring !== undefined;
  }

  set isRestoring(is: boolean) {
    if (is) this.#restoring ??= new Deferred();
    else this.#restoring?.resolve();
    if (!is) this.#restoring = undefined;
  }

  /** Resolves when nothing is being restored any more; undefined when nothing is. */
  whenRestored(): Promise<void> | undefined {
    return this.#restoring?.promise;
  }

  /** None while a checkpoint is being restored (P3). */
  get specs(): readonly ParameterSpec[] {
    if (this.isRestoring) return [];
    return [...this.#byNumber.values()].map(({ spec }) => spec);
  }

  /** Makes the parameter that a spec in JSON describes, unless it is there. Throws BAD_REQUEST, SPEC_MISMATCH (P1), ARENA_FULL. */
  create(json: string): void {
    this.#checkOpen();
    const spec = decodeParameterSpec(json);
    const known = this.#byNumber.get(parameterNumber(spec.name));
    if (known === undefined) {
      this.add(spec);
      return;
    }
    if (known.spec.name !== spec.name) {
      throw new WeighbridgeError("SPEC_MISMATCH", `the names ${known.spec.name} and ${spec.name} have the same hash: rename one of them`); // P2
    }
    const differences = specDifferences(known.spec, spec);
    if (differences.length === 0) return;
    throw new WeighbridgeError(
      "SPEC_MISMATCH",
      `${spec.name} is there already, and described differently (there and here): ${differences.join("; ")}`,
    );
  }

  /** Makes a parameter whose number nobody has. Throws ARENA_FULL. */
  add(spec: ParameterSpec): Parameter {
    const number = parameterNumber(spec.name);
    const made = this.#make({ id: number, number }, spec);
    this.#byNumber.set(number, made);
    return made;
  }

  /** Makes a parameter that nobody finds, to `replace` the one of its name, or to be closed. Throws ARENA_FULL. */
  beside(spec: ParameterSpec): Parameter {
    return this.#make({ id: this.#host.nextUnit(), number: parameterNumber(spec.name) }, spec); // the pace of the other's reads is none of its business
  }

  /** Puts one that was made beside in the place of the one of its name. Throws UNKNOWN_PARAMETER, or SPEC_MISMATCH when that was made anew (P1). */
  replace(made: Parameter): void {
    const { name } = made.spec;
    const number = this.#numberOf(name);
    const differences = specDifferences(this.get(number).spec, made.spec);
    if (differences.length > 0)
      throw new WeighbridgeError("SPEC_MISMATCH", `${name} was made anew meanwhile, and described differently: ${differences.join("; ")}`);
    this.clear(number);
    this.#byNumber.set(number, made);
  }

  #make(ids: ParameterIds, spec: ParameterSpec): Parameter {
    return spec.kind === "tensor" ? new TensorParameter(this.#host, ids, spec) : new TableParameter(this.#host, ids, spec);
  }

  /** Throws UNKNOWN_PARAMETER, or UNSUPPORTED for a table. */
  tensor(number: number): TensorParameter {
    const parameter = this.get(number);
    if (parameter instanceof TensorParameter) return parameter;
    throw new WeighbridgeError("UNSUPPORTED", `${parameter.spec.name} is a table, not a tensor: push and pull its rows by key`);
  }

  /** Throws UNKNOWN_PARAMETER, or UNSUPPORTED for a tensor. */
  table(number: number): TableParameter {
    const parameter = this.get(number);
    if (parameter instanceof TableParameter) return parameter;
    throw new WeighbridgeError("UNSUPPORTED", `${parameter.spec.name} is a tensor, not a table`);
  }

  /** The parameter of this name; undefined when there is none. */
  find(name: string): Parameter | undefined {
    const parameter = this.#byNumber.get(parameterNumber(name));
    return parameter?.spec.name === name ? parameter : undefined;
  }

  /** `name` is what the caller says, where its request tells it. Throws UNKNOWN_PARAMETER. */
  get(number: number, name: string | undefined = this.#clearedNames.get(number)): Parameter {
    this.#checkOpen();
    const parameter = this.#byNumber.get(number);
    if (parameter !== undefined) return parameter;
    const what = name === undefined ? `of number ${number}` : JSON.stringify(name);
    const why = this.#clearedNames.has(number) ? "it was cleared" : "the server was restarted, or has never had it";
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `this server has no parameter ${what}: ${why}`);
  }

  /** As `tensor`, by its name. */
  tensorOf(name: string): TensorParameter {
    return this.tensor(this.#numberOf(name));
  }

  /** As `table`, by its name. */
  tableOf(name: string): TableParameter {
    return this.table(this.#numberOf(name));
  }

  #numberOf(name: string): number {
    if (this.find(name) !== undefined) return parameterNumber(name);
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `this server has no parameter ${JSON.stringify(name)}`);
  }

  /** Throws UNKNOWN_PARAMETER, BAD_REQUEST or BAD_ARGUMENT. */
  configure(number: number, json: string): void {
    this.get(number).configure(decodeSettings(json));
  }

  /** A worker died or left. */
  forgetWorker(worker: number): void {
    this.#host.keyLists.forget(worker);
  }

  clear(number: number): void {
    const parameter = this.get(number);
    this.#byNumber.delete(number);
    this.#noteCleared(number, parameter.spec.name);
    parameter.endRounds();
    const kept = this.#kept.get(parameter);
    if (kept === undefined) parameter.free();
    else kept.isCleared = true;
  }

  /** Keeps its memory until the function that is returned is called, once (P4). */
  keep(parameter: Parameter): () => void {
    const kept = this.#kept.get(parameter) ?? { count: 0, isCleared: false };
    this.#kept.set(parameter, kept);
    kept.count++;
    return () => {
      if (--kept.count > 0) return;
      this.#kept.delete(parameter);
      if (kept.isCleared) parameter.free();
    };
  }

  /** Whether memory is kept that is of no other use any more (P4). */
  get keepsCleared(): boolean {
    for (const { isCleared } of this.#kept.values()) if (isCleared) return true;
    return false;
  }

  #noteCleared(number: number, name: string): void {
    this.#clearedNames.delete(number);
    this.#clearedNames.set(number, name);
    const [oldest] = this.#clearedNames.keys();
    if (this.#clearedNames.size > CLEARED_NAMES_MAX && oldest !== undefined) this.#clearedNames.delete(oldest);
  }

  /** Removes everything: a restore that failed leaves nothing behind. */
  clearAll(): void {
    for (const parameter of this.all) parameter.close();
    this.#byNumber.clear();
  }

  /** P3 */
  #checkOpen(): void {
    if (!this.isRestoring) return;
    throw new WeighbridgeError("QUEUE_FULL", "this server is restoring a checkpoint: ask again", { retryable: true });
  }

  close(): void {
    this.isRestoring = false;
    this.pacer.close();
  }
}
