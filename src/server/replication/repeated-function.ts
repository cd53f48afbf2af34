// repeated-function — a user's function that changes state, on a replicated or durable server: its standby, or the
// server itself when it comes back, runs it again for the same requests (docs/decisions/0060). Ours are made to be
// repeated; of a user's we know what it declares (PsFunction.P3), and see to the rest here. A server that is repeated
// only when it is stopped (planned-stop.ts) serves all of them, and takes note of what could not be repeated.
//
// Invariants:
//   RepeatedFunction.R1. It changes state in the turn in which it is called: one that answers later is refused.
//   RepeatedFunction.R2. What it did before it threw is repeated, too: a handler may throw at any point.
//   RepeatedFunction.R3. State of its own goes to a standby that comes later: a function without `save` and `load` has
//       none.

import { unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { FunctionContext, TableRow, TensorBlock, WorkerCalls } from "../../contracts/function-context.ts";
import type { PsFunction } from "../../contracts/ps-function.ts";
import type { PlugInModule } from "../../store/plug-ins.ts";

const ALONE = "start the servers with replicas 1 and without --durable";

/** The functions as such a server runs them. Throws UNSUPPORTED for one that changes state and is not deterministic. */
export function repeatedFunctions(functions: readonly PsFunction[]): readonly PsFunction[] {
  const unknown = unknownFunction(functions);
  if (unknown !== undefined) {
    const fix = `declare it \`deterministic\` or with \`reads\`, or ${ALONE}`;
    throw unsupported(`the function ${unknown.name} changes state, and this server is replicated or durable: ${fix}`);
  }
  const refuse: Refuse = (fn, what) => {
    throw refusal(fn, `${what}; this server is replicated or durable: mend that, or ${ALONE}`);
  };
  return functions.map((fn) => (fn.isUpdate ? repeatedFunction(fn, refuse) : fn));
}

/** Why what a function does cannot be repeated. Returns where it is done nevertheless. */
type Refuse = (fn: PsFunction, what: string) => void;

/** The first function of which nothing is known but that it changes state. */
function unknownFunction(functions: readonly PsFunction[]): PsFunction | undefined {
  return functions.find(({ isUpdate, isDeterministic }) => isUpdate && !isDeterministic);
}

function repeatedFunction(fn: PsFunction, refuse: Refuse): PsFunction {
  return {
    ...fn,
    handle: (context, request) => {
      const answer = fn.handle(new RepeatedContext(fn, context, refuse), request);
      if (!(answer instanceof Promise)) return answer;
      answer.catch(() => {}); // its caller hears of a refusal instead
      // RepeatedFunction.R1
      refuse(fn, "answers later, and could not be repeated in order: its handler must not be async");
      return answer;
    },
  };
}

/** The functions of a server that is repeated only when it is stopped. */
export class StoppableFunctions {
  readonly all: readonly PsFunction[];
  /** Why what they have done could not be repeated; "": it could. */
  problem: string;
  /** Whether requests are repeated, or will be: what could not be is refused then. */
  isRepeating: () => boolean = () => false;

  constructor(functions: readonly PsFunction[]) {
    const unknown = unknownFunction(functions);
    this.problem = unknown === undefined ? "" : `the function ${unknown.name} changes state, and is not deterministic`;
    const refuse: Refuse = (fn, what) => {
      const error = refusal(fn, what);
      if (this.isRepeating()) throw error;
      this.problem ||= error.message;
    };
    this.all = functions.map((fn) => (fn.isUpdate && fn.isDeterministic ? repeatedFunction(fn, refuse) : fn));
  }
}

/** Throws UNSUPPORTED for an updater or a row type that is not deterministic (PlugIn.P1). */
export function checkRepeatable(modules: readonly PlugInModule[]): void {
  for (const { module, updaters, rowTypes } of modules)
    for (const { kind, name, deterministic } of [...updaters, ...rowTypes]) {
      if (deterministic) continue;
      const what = `the ${kind === "updater" ? "updater" : "row type"} ${JSON.stringify(name)} of ${module}`;
      const why = "is not deterministic, and this server is replicated or durable";
      throw unsupported(`${what} ${why}: ${ALONE}`);
    }
}

/** What the handler of such a function may use. */
class RepeatedContext implements FunctionContext {
  readonly worker: number;
  readonly incarnation: number;
  readonly #fn: PsFunction;
  readonly #context: FunctionContext;
  readonly #refuse: Refuse;

  constructor(fn: PsFunction, context: FunctionContext, refuse: Refuse) {
    this.worker = context.worker;
    this.incarnation = context.incarnation;
    this.#fn = fn;
    this.#context = context;
    this.#refuse = refuse;
  }

  get workers(): WorkerCalls {
    this.#refuse(this.#fn, "calls workers: a standby has none");
    return this.#context.workers;
  }

  rowsOf<A = Float32Array>(table: string): Iterable<TableRow<A>> {
    return this.#context.rowsOf(table);
  }

  blocksOf(tensor: string): Iterable<TensorBlock> {
    return this.#context.blocksOf(tensor);
  }

  /** RepeatedFunction.R3 */
  own<T extends object>(name: string, create: () => T): T {
    if (this.#fn.save === undefined) this.#refuse(this.#fn, `keeps ${JSON.stringify(name)} of its own, without save and load`);
    return this.#context.own(name, create);
  }
}

function refusal({ name }: PsFunction, what: string): WeighbridgeError {
  return unsupported(`the function ${name} ${what}`);
}

/** What functions keep of their own, by their names. */
export type OwnStateImage = readonly { readonly name: string; readonly saved: Uint8Array }[];

/** Saves and loads what users' functions keep of their own. */
export class OwnState {
  readonly #functions: readonly PsFunction[];
  readonly #context: () => FunctionContext;

  /** `context`: of nobody's call. */
  constructor(functions: readonly PsFunction[], context: () => FunctionContext) {
    this.#functions = functions.filter(({ save }) => save !== undefined);
    this.#context = context;
  }

  /** Throws what a function throws, HANDLER_FAILED for what is no array of bytes. */
  save(): OwnStateImage {
    return this.#functions.map((fn) => {
      const saved = fn.save?.(this.#context());
      if (saved instanceof Uint8Array) return { name: fn.name, saved };
      throw new WeighbridgeError("HANDLER_FAILED", `the function ${fn.name} saves no array of bytes`);
    });
  }

  /** Throws what a function throws. */
  load(image: OwnStateImage): void {
    for (const { name, saved } of image) this.#functions.find((fn) => fn.name === name)?.load?.(this.#context(), saved);
  }
}
