// parameters — the parameters of a server, by the number that stands for their name on the wire.
//
// Invariants:
//   P1. A name has one spec: whoever describes it differently is told in what, and changes nothing.
//   P2. Two names with one number do not both exist: the second is refused.

import { WeighbridgeError } from "../../base/errors.ts";
import { decodeParameterSpec, type ParameterSpec, parameterNumber, specDifferences } from "../../store/parameter-spec.ts";
import { ParameterHost, type ParameterHostOptions } from "./parameter-host.ts";
import { decodeSettings } from "./parameter-settings.ts";
import type { ServerPacer } from "./server-pacer.ts";
import { TableParameter } from "./table-parameter.ts";
import { TensorParameter } from "./tensor-parameter.ts";

export type Parameter = TensorParameter | TableParameter;

export class Parameters {
  readonly #host: ParameterHost;
  readonly #byNumber = new Map<number, Parameter>();

  constructor(options: ParameterHostOptions) {
    this.#host = new ParameterHost(options);
  }

  get pacer(): ServerPacer {
    return this.#host.pacer;
  }

  get specs(): readonly ParameterSpec[] {
    return [...this.#byNumber.values()].map(({ spec }) => spec);
  }

  /** Makes the parameter that a spec in JSON describes, unless it is there. Throws BAD_REQUEST, SPEC_MISMATCH (P1), ARENA_FULL. */
  create(json: string): void {
    const spec = decodeParameterSpec(json);
    const number = parameterNumber(spec.name);
    const known = this.#byNumber.get(number);
    if (known === undefined) {
      this.#byNumber.set(
        number,
        spec.kind === "tensor" ? new TensorParameter(this.#host, number, spec) : new TableParameter(this.#host, number, spec),
      );
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

  get(number: number): Parameter {
    const parameter = this.#byNumber.get(number);
    if (parameter !== undefined) return parameter;
    throw new WeighbridgeError(
      "UNKNOWN_PARAMETER",
      `this server has no parameter of that name: it was cleared, or the server was restarted`,
    );
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

  clear(number: number): void {
    this.get(number).close();
    this.#byNumber.delete(number);
  }

  close(): void {
    this.pacer.close();
  }
}
