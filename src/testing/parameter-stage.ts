// parameter-stage — the parameters of one server, for unit tests. It calls PS functions as a server does: requests lie
// in the arena and become garbage when the handler returns; answers are copied before their memory is released.

import { assert } from "../base/assert.ts";
import { bytesOf } from "../base/bytes.ts";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { VectorClock } from "../consistency/vector-clock.ts";
import type { WorkerIncarnation } from "../consistency/worker-incarnations.ts";
import type { Contract } from "../contracts/contract.ts";
import { Arena } from "../kernel/arena.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { ServedCall } from "../peer/function-host.ts";
import { CheckpointService } from "../server/checkpoint/checkpoint-service.ts";
import { PartsDeparture } from "../server/copy/parts-departure.ts";
import { BUILT_IN_FUNCTIONS } from "../server/handlers/built-in-functions.ts";
import { Ownership } from "../server/ownership.ts";
import { Parameters } from "../server/parameters/parameters.ts";
import { WorkerGroups } from "../server/parameters/worker-groups.ts";
import { PlacementPrepare } from "../server/placement-prepare.ts";
import { type ServedFunction, ServerContext } from "../server/server-context.ts";
import { WorkerCalls } from "../server/worker-calls.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import type { PlugIns } from "../store/plug-ins.ts";
import type { RowTypeSpec } from "../store/row-types/row-type-spec.ts";
import { type OptimizerSpec, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { FrameHeader } from "../wire/frame.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { idOf } from "../wire/node-id.ts";
import { PushNumbers } from "../worker/worker-clock.ts";
import { SimClock } from "./sim-clock.ts";
import { LocalCatalogue } from "./test-catalogues.ts";

type TypedArray = Float32Array | Uint32Array | BigUint64Array;

/** What tests say of a parameter; the rest is the usual. */
export type StageSpec = (
  | { readonly kind: "tensor"; readonly shape: readonly number[] }
  | { readonly kind: "table"; readonly width: number; readonly rows?: number; readonly versions?: boolean; readonly rowType?: RowTypeSpec }
) & {
  readonly name?: string;
  readonly link?: Partial<LinkEncoding>;
  readonly init?: InitializerSpec;
  readonly optimizer?: OptimizerSpec;
  readonly updates?: "async" | "sync";
  readonly reduce?: "sum" | "mean";
  readonly staleness?: number;
};

const MIB = 2 ** 20;
const GARBAGE_BYTE = 0xff;

export type ParameterStageOptions = {
  readonly workers?: number;
  readonly bytesMax?: number;
  readonly plugIns?: PlugIns;
  readonly log?: Log;
};

export class ParameterStage {
  readonly clock: SimClock = new SimClock();
  readonly arena: Arena;
  readonly parameters: Parameters;
  /** The only server's: everything is its own. */
  readonly ownership: Ownership;
  readonly #kernels: SimdKernels;
  readonly #groups: WorkerGroups;
  readonly #checkpoints: CheckpointService;
  readonly #workers = new WorkerCalls();
  readonly #owned = new Map<string, object>();
  readonly #pushes = new Map<number, PushNumbers>();
  readonly #catalogue = new LocalCatalogue();

  /** All workers have joined. */
  constructor({ workers = 2, bytesMax = 32 * MIB, plugIns, log }: ParameterStageOptions = {}) {
    this.arena = new Arena({ bytesMax });
    this.#kernels = new SimdKernels(this.arena);
    const { arena, clock } = this;
    this.parameters = new Parameters({ arena, kernels: this.#kernels, clock, workerCount: workers, secret: 5n, plugIns, log });
    this.#groups = new WorkerGroups(clock, workers);
    const files = undefined;
    this.ownership = new Ownership(arena);
    this.ownership.adopt({ epoch: 1, policy: "ring", servers: [0] }, 0);
    this.#checkpoints = new CheckpointService({
      parameters: this.parameters,
      vectorClock: new VectorClock(),
      ownership: this.ownership,
      placement: new PlacementPrepare(this.ownership, clock),
      files,
      log: SILENT_LOG,
      clock: this.clock,
    });
    for (let rank = 0; rank < workers; rank++) this.parameters.pacer.join(this.holder(rank));
  }

  holder(rank: number, incarnation = 1): WorkerIncarnation {
    return { worker: idOf("worker", rank), incarnation };
  }

  /** Makes a parameter; returns its number. */
  create({ init = { type: "constant" }, optimizer = { type: "sum" }, name = "w", ...spec }: StageSpec): number {
    const common = { updates: "async", reduce: "sum", ...spec };
    const table = spec.kind === "table" ? { versions: false } : {};
    const resolved = { initializer: resolveInitializer(init), optimizer: resolveOptimizer(optimizer) };
    const numbered = this.#catalogue.numberOf(name);
    this.parameters.create(JSON.stringify({ ...table, ...common, ...resolved, name }), numbered);
    return numbered.number;
  }

  /** As a worker clears it. */
  clear(number: number): void {
    this.parameters.clear(number, this.#catalogue.clear(number));
  }

  /** Calls a function as a worker; again: as if its answer had been lost. Throws and rejects what its handler does. */
  call<Q extends Fields, R extends Fields>(
    rank: number,
    contract: Contract<Q, R>,
    request: FieldValues<Q>,
    { again = false }: { readonly again?: boolean } = {},
  ): Promise<FieldValues<R>> {
    const served = handlerOf(contract);
    const call = new ServedCall(new FrameHeader());
    const frame = new StageFrame(this.arena);
    const finish = (response: FieldValues<R>): FieldValues<R> => {
      const copy = copied(response);
      call.releaseAll();
      return copy;
    };
    try {
      const context = this.#context(rank);
      const values = frame.put(request) as FieldValues<Q>;
      const response = again ? served.handleAgain(context, values, call) : served.handle(context, values, call);
      if (!(response instanceof Promise)) return Promise.resolve(finish(response));
      return response.then(finish, (thrown: unknown) => {
        call.releaseAll();
        throw thrown;
      });
    } catch (thrown) {
      call.releaseAll();
      return Promise.reject(thrown as Error);
    } finally {
      frame.drop();
    }
  }

  /** How a worker numbers its pushes; it reports them when it advances. */
  pushes(rank: number): PushNumbers {
    const known = this.#pushes.get(rank) ?? new PushNumbers();
    this.#pushes.set(rank, known);
    return known;
  }

  /** The worker has finished all clocks before this one. */
  advance(rank: number, clock: number): void {
    const pushes = this.pushes(rank);
    this.parameters.pacer.rounds.advance(this.holder(rank), clock, pushes.before(clock));
    pushes.heard(clock);
  }

  /** Takes all memory that is free in spans of this size and smaller; returns what gives it back. */
  fillArena(fromBytes: number = 4 * MIB): () => void {
    const spans: { readonly address: number; readonly byteCount: number }[] = [];
    for (let byteCount = fromBytes; byteCount >= 64; byteCount /= 2) {
      for (let address = this.arena.tryAllocate(byteCount); address !== 0; address = this.arena.tryAllocate(byteCount)) {
        spans.push({ address, byteCount });
      }
    }
    return () => {
      for (const { address, byteCount } of spans) this.arena.release(address, byteCount);
    };
  }

  #context(rank: number): ServerContext {
    const { arena, parameters, ownership } = this;
    const state = {
      arena,
      kernels: this.#kernels,
      parameters,
      groups: this.#groups,
      checkpoints: this.#checkpoints,
      ownership,
      departure: new PartsDeparture({ ownership, parameters: () => parameters, groups: () => this.#groups, clock: this.clock }),
      workers: this.#workers,
    };
    return new ServerContext(state, this.holder(rank), this.#owned);
  }
}

function handlerOf<Q extends Fields, R extends Fields>({ name }: Contract<Q, R>): ServedFunction<Q, R> {
  const served = BUILT_IN_FUNCTIONS.find((candidate) => candidate.name === name);
  assert(served !== undefined, `${name} is a function of ours`);
  return served as unknown as ServedFunction<Q, R>;
}

/** The arrays of a request, as long as its frame is there. */
class StageFrame {
  readonly #arena: Arena;
  readonly #spans: { readonly address: number; readonly byteCount: number }[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  put(request: Readonly<Record<string, unknown>>): Record<string, unknown> {
    return Object.fromEntries(
      Object.entries(request).map(([name, value]) => [name, ArrayBuffer.isView(value) ? this.#placed(value as TypedArray) : value]),
    );
  }

  drop(): void {
    for (const { address, byteCount } of this.#spans) {
      this.#arena.bytes.fill(GARBAGE_BYTE, address, address + byteCount);
      this.#arena.release(address, byteCount);
    }
  }

  #placed(array: TypedArray): TypedArray {
    const byteCount = Math.max(1, array.byteLength);
    const address = this.#arena.allocate(byteCount);
    this.#spans.push({ address, byteCount });
    this.#arena.bytes.set(bytesOf(array), address);
    const Elements = array.constructor as new (buffer: ArrayBufferLike, byteOffset: number, length: number) => TypedArray;
    return new Elements(this.#arena.memory.buffer, address, array.length);
  }
}

function copied<T extends object>(response: T): T {
  return Object.fromEntries(
    Object.entries(response).map(([name, value]) => [name, ArrayBuffer.isView(value) ? (value as TypedArray).slice() : (value as unknown)]),
  ) as T;
}

/** The rows of a request about a whole block. */
export const ALL_ROWS: Uint32Array = new Uint32Array(0);

/** The values of a parameter that carries them as they are. */
export function floatsOf(values: ArrayBufferView): Float32Array {
  assert(values instanceof Float32Array, "values that travel as they are");
  return values;
}
