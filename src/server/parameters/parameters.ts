// parameters — the parameters of a server, by the numbers that the scheduler's catalogue assigned
// (scheduler/catalogue.ts).
//
// Invariants:
//   Parameters.P1. A name has one spec: another description is refused with the differences, and changes nothing.
//   Parameters.P2. A name has one number, and a number one name. Other requests are refused: another scheduler numbered
//       them.
//   Parameters.P3. While a checkpoint is being restored, requests that find, make or clear a parameter, or use sums,
//       get a retryable QUEUE_FULL. A worker that joins waits: the checkpoint decides its clock.
//   Parameters.P4. A parameter that is being saved keeps its memory until that is over, also if it is cleared or
//       replaced meanwhile. Nobody finds it from then on, and its name is free.
//   Parameters.P5. A cleared edition of a name is not made again. A later edition replaces an earlier one, whose clear
//       did not reach this server.

import { Deferred } from "../../base/deferred.ts";
import { badRequest, isWeighbridgeError, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { decodeParameterSpec, type ParameterSpec, specDifferences } from "../../store/parameter-spec.ts";
import type { LoadedPlugIn } from "../../store/plug-ins.ts";
import type { CatalogueEntry, ParameterNumber } from "../../wire/catalogue.ts";
import { rankOf } from "../../wire/node-id.ts";
import { ParameterHost, type ParameterHostOptions, type ParameterIds } from "./parameter-host.ts";
import type { ServerPacer } from "./parameter-pace.ts";
import { ServerSums } from "./server-sums.ts";
import { TableParameter } from "./table-parameter.ts";
import { TensorParameter } from "./tensor-parameter.ts";

export type Parameter = TensorParameter | TableParameter;

/** A name that is or was a parameter here: its edition, or, once that was cleared, the next. */
type Named = { readonly name: string; readonly edition: number };

/** Only for errors: parameters may come and go without end. */
const CLEARED_NAMES_MAX = 1024;

export class Parameters {
  /**
   * Visible parameters (Parameters.P3), by number. Handlers that find none here call `table` or `tensor` for the error.
   */
  readonly tables: ReadonlyMap<number, TableParameter>;
  readonly tensors: ReadonlyMap<number, TensorParameter>;
  /** Called before a parameter is made. Must not throw. */
  onState: () => void = () => {};
  /** Sums that workers keep beside the parameters. */
  readonly sums: ServerSums;
  readonly #tables = new Map<number, TableParameter>();
  readonly #tensors = new Map<number, TensorParameter>();
  /** What the parameters share. */
  readonly host: ParameterHost;
  readonly pacer: ServerPacer;
  readonly #named = new Map<number, Named>();
  readonly #numbers = new Map<string, number>();
  /** The numbers of cleared parameters, the oldest first. */
  readonly #cleared = new Set<number>();
  #highest = 0;
  readonly #byNumber = new Map<number, Parameter>();
  /** Parameters.P4: how many saves use a parameter, and whether it was cleared. */
  readonly #kept = new Map<Parameter, { count: number; isCleared: boolean }>();
  #restoring: Deferred<void> | undefined;

  constructor(options: ParameterHostOptions) {
    this.tables = this.#tables;
    this.tensors = this.#tensors;
    this.host = new ParameterHost(options, {
      pushed: (number, clock, count) => this.#byNumber.get(number)?.notePushes(clock, count),
      roundOver: (number, clock) => this.#byNumber.get(number)?.countRound(clock),
      failed: (number) => this.#hide(number),
    });
    this.pacer = this.host.pacer;
    this.sums = new ServerSums(this.host);
    options.ownership?.onChange(() => this.#reserveBlocks());
  }

  /** The placement has changed. Blocks without memory are allocated at their first update, or refused then. */
  #reserveBlocks(): void {
    for (const parameter of this.#byNumber.values()) {
      if (!(parameter instanceof TensorParameter)) continue;
      try {
        parameter.reserve();
      } catch (thrown) {
        if (!isWeighbridgeError(thrown, "ARENA_FULL")) throw thrown;
      }
    }
  }

  get all(): readonly Parameter[] {
    return [...this.#byNumber.values()];
  }

  /** Parameters.P3 */
  get isRestoring(): boolean {
    return this.#restoring !== undefined;
  }

  set isRestoring(is: boolean) {
    if (is) this.#restoring ??= new Deferred();
    else this.#restoring?.resolve();
    if (!is) this.#restoring = undefined;
    for (const [number, parameter] of this.#byNumber) this.#show(number, parameter);
    this.sums.isRestoring = is;
  }

  /** Makes it visible in `tables` and `tensors`. */
  #show(number: number, parameter: Parameter): void {
    if (this.isRestoring || parameter.failure !== undefined) this.#hide(number);
    else if (parameter instanceof TableParameter) this.#tables.set(number, parameter);
    else this.#tensors.set(number, parameter);
  }

  #hide(number: number): void {
    this.#tables.delete(number);
    this.#tensors.delete(number);
  }

  /** Resolves when the restore is over; undefined if there is none. */
  whenRestored(): Promise<void> | undefined {
    return this.#restoring?.promise;
  }

  /** None while a checkpoint is being restored (Parameters.P3). */
  get specs(): readonly ParameterSpec[] {
    if (this.isRestoring) return [];
    return [...this.#byNumber.values()].map(({ spec }) => spec);
  }

  /** The highest number that this server knows. */
  get highest(): number {
    return this.#highest;
  }

  /** What this server knows of the catalogue, without parameters that are being restored. */
  *entries(): Iterable<CatalogueEntry> {
    for (const [number, { name, edition }] of this.#named) {
      const spec = this.isRestoring ? undefined : this.#byNumber.get(number)?.spec;
      yield { name, number, edition, ...(spec === undefined ? {} : { spec: JSON.stringify(spec) }) };
    }
  }

  /**
   * Makes the parameter of a spec in JSON, unless it exists. Throws BAD_REQUEST, SPEC_MISMATCH (Parameters.P1,
   * Parameters.P2), UNKNOWN_PARAMETER for a cleared edition (Parameters.P5), UNKNOWN_PLUG_IN and other refusals of
   * plug-ins (PlugIns.L2), ARENA_FULL.
   */
  create(json: string, numbered: ParameterNumber): void {
    this.checkOpen();
    const spec = decodeParameterSpec(json);
    const { number, edition } = numbered;
    if (number === 0 || edition === 0) throw badRequest(`${spec.name} came without a number or an edition`);
    this.#checkNumber(spec.name, number);
    const named = this.#named.get(number);
    if (named !== undefined && edition < named.edition)
      throw new WeighbridgeError("UNKNOWN_PARAMETER", `${spec.name} was dropped on this server while it was opened`, { retryable: true });
    // Parameters.P5
    if (named !== undefined && edition > named.edition && this.#byNumber.has(number)) this.clear(number, named.edition);
    const known = this.#byNumber.get(number);
    if (known === undefined) {
      this.add(spec, numbered);
      return;
    }
    const differences = specDifferences(known.spec, spec);
    if (differences.length === 0) return;
    throw new WeighbridgeError(
      "SPEC_MISMATCH",
      `${spec.name} is there already, and described differently (there and here): ${differences.join("; ")}`,
    );
  }

  /** The users' plug-ins of a parameter of this spec, whether or not it still exists. Throws as `create`. */
  plugInsOf(json: string): readonly LoadedPlugIn[] {
    return this.host.plugIns.loadedFor(decodeParameterSpec(json));
  }

  /** Makes a parameter whose number nobody has. Throws SPEC_MISMATCH (Parameters.P2), ARENA_FULL. */
  add(spec: ParameterSpec, { number, edition }: ParameterNumber): Parameter {
    this.#checkNumber(spec.name, number);
    const made = this.#make({ id: number, number }, spec);
    this.#byNumber.set(number, made);
    this.#show(number, made);
    this.#name(number, { name: spec.name, edition });
    this.#cleared.delete(number);
    return made;
  }

  #name(number: number, named: Named): void {
    this.#named.set(number, named);
    this.#numbers.set(named.name, number);
    this.#highest = Math.max(this.#highest, number);
  }

  /** Parameters.P2 */
  #checkNumber(name: string, number: number): void {
    const [other, before] = [this.#named.get(number)?.name ?? name, this.#numbers.get(name) ?? number];
    if (other === name && before === number) return;
    const what =
      other === name ? `number ${before} here, and ${number} in the request` : `asked for as number ${number}, which is ${other} here`;
    throw new WeighbridgeError("SPEC_MISMATCH", `${name} is ${what}: it was numbered by another scheduler`);
  }

  /**
   * Makes an invisible parameter, to `replace` the one of its name, or to be closed. Throws UNKNOWN_PARAMETER,
   * ARENA_FULL.
   */
  beside(spec: ParameterSpec): Parameter {
    // With its own id: its pace does not concern the other's reads.
    return this.#make({ id: this.host.nextPacerId(), number: this.numberOf(spec.name) }, spec);
  }

  /**
   * Replaces the parameter of its name. Throws UNKNOWN_PARAMETER, or SPEC_MISMATCH if that was made anew
   * (Parameters.P1).
   */
  replace(made: Parameter): void {
    const { name } = made.spec;
    const number = this.numberOf(name);
    const differences = specDifferences(this.get(number).spec, made.spec);
    if (differences.length > 0)
      throw new WeighbridgeError("SPEC_MISMATCH", `${name} was made anew meanwhile, and described differently: ${differences.join("; ")}`);
    this.#remove(number);
    this.#byNumber.set(number, made);
    this.#show(number, made);
  }

  #make(ids: ParameterIds, spec: ParameterSpec): Parameter {
    this.onState();
    return spec.kind === "tensor" ? new TensorParameter(this.host, ids, spec) : new TableParameter(this.host, ids, spec);
  }

  /** For pushes and reads. Throws UNKNOWN_PARAMETER, UNSUPPORTED for a table, HANDLER_FAILED (HostedParameter.H4). */
  tensor(number: number): TensorParameter {
    const parameter = this.#healthy(number);
    if (parameter instanceof TensorParameter) return parameter;
    throw unsupported(`${parameter.spec.name} is a table, not a tensor: push and pull its rows by key`);
  }

  /** As `tensor`; UNSUPPORTED for a tensor. */
  table(number: number): TableParameter {
    const parameter = this.#healthy(number);
    if (parameter instanceof TableParameter) return parameter;
    throw unsupported(`${parameter.spec.name} is a tensor, not a table`);
  }

  #healthy(number: number): Parameter {
    const parameter = this.get(number);
    if (parameter.failure === undefined) return parameter;
    throw parameter.failure;
  }

  /** The parameter of this name; undefined if there is none. */
  find(name: string): Parameter | undefined {
    return this.#byNumber.get(this.#numbers.get(name) ?? 0);
  }

  /** `name` is from the request, if it has one. Throws UNKNOWN_PARAMETER. */
  get(number: number, name?: string): Parameter {
    this.checkOpen();
    const parameter = this.#byNumber.get(number);
    if (parameter !== undefined) return parameter;
    const known = name ?? this.#named.get(number)?.name;
    const what = known === undefined ? `of number ${number}` : JSON.stringify(known);
    const why = this.#cleared.has(number) ? "it was dropped" : "the server was restarted, or has never had it";
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `this server has no parameter ${what}: ${why}`);
  }

  /** As `tensor`, by its name. */
  tensorOf(name: string): TensorParameter {
    return this.tensor(this.numberOf(name));
  }

  /** As `table`, by its name. */
  tableOf(name: string): TableParameter {
    return this.table(this.numberOf(name));
  }

  /** Throws UNKNOWN_PARAMETER. */
  numberOf(name: string): number {
    const number = this.#numbers.get(name);
    if (number !== undefined && this.#byNumber.has(number)) return number;
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `this server has no parameter ${JSON.stringify(name)}`);
  }

  /** Whether pulls leave notes on which later updates depend: what was pulled (DC-ASGD), and keys named by lists. */
  get recordsReads(): boolean {
    for (const { spec } of this.#byNumber.values()) if (spec.link !== undefined || spec.optimizer?.type === "dcAsgd") return true;
    return false;
  }

  /** A worker died or left. */
  forgetWorker(worker: number): void {
    this.host.keyLists.forget(worker);
    this.forgetPulls(worker);
  }

  /** The worker died, left or began anew: its pulls are of no use. */
  forgetPulls(worker: number): void {
    for (const { store } of this.all) store.forgetPulls(rankOf(worker));
  }

  /**
   * Clears this edition, or an earlier one; false if there is a later one (Parameters.P5). Throws UNKNOWN_PARAMETER.
   */
  clear(number: number, edition: number): boolean {
    const { name } = this.get(number).spec;
    if ((this.#named.get(number)?.edition ?? 0) > edition) return false;
    this.#remove(number);
    this.#name(number, { name, edition: edition + 1 });
    this.#noteCleared(number);
    return true;
  }

  #remove(number: number): void {
    const parameter = this.get(number);
    this.#byNumber.delete(number);
    this.#hide(number);
    parameter.endRounds();
    const kept = this.#kept.get(parameter);
    if (kept === undefined) parameter.free();
    else kept.isCleared = true;
  }

  /** Keeps its memory until the returned function is called, once (Parameters.P4). */
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

  /** Whether memory of cleared parameters is kept (Parameters.P4). */
  get keepsCleared(): boolean {
    for (const { isCleared } of this.#kept.values()) if (isCleared) return true;
    return false;
  }

  #noteCleared(number: number): void {
    this.#cleared.delete(number);
    this.#cleared.add(number);
    const [oldest] = this.#cleared;
    if (this.#cleared.size <= CLEARED_NAMES_MAX || oldest === undefined) return;
    this.#cleared.delete(oldest);
    this.#forgetName(oldest);
  }

  #forgetName(number: number): void {
    const named = this.#named.get(number);
    this.#named.delete(number);
    if (named !== undefined) this.#numbers.delete(named.name);
  }

  /** Takes over the catalogue of another server, with empty parameters; this one has none. Throws ARENA_FULL. */
  adopt(entries: Iterable<CatalogueEntry>): void {
    for (const { name, number, edition, spec } of entries) {
      if (spec !== undefined) this.add(decodeParameterSpec(spec), { number, edition });
      else {
        this.#name(number, { name, edition });
        this.#noteCleared(number);
      }
    }
  }

  /** Removes everything: a restore that failed leaves nothing behind. */
  clearAll(): void {
    for (const parameter of this.all) parameter.close();
    for (const number of this.#byNumber.keys()) {
      this.#hide(number);
      this.#forgetName(number);
    }
    this.#byNumber.clear();
    this.sums.clear();
  }

  /** Throws QUEUE_FULL while a checkpoint is being restored (Parameters.P3). */
  checkOpen(): void {
    if (!this.isRestoring) return;
    throw new WeighbridgeError("QUEUE_FULL", "this server is restoring a checkpoint: try again", { retryable: true });
  }

  close(): void {
    this.isRestoring = false;
    this.pacer.close();
  }
}
