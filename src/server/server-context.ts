// server-context — what our handlers know beside their request: the caller, and the whole state of the server. One for
// each incarnation of a worker. Users' handlers see less of it (contracts/function-context.ts). And a contract with
// this server's handler of it.

import type { WorkerIncarnation } from "../consistency/worker-incarnations.ts";
import type { Contract } from "../contracts/contract.ts";
import type { FunctionContext, TableRow, TensorBlock } from "../contracts/function-context.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { type ServedFunction as NodeFunction, type ServingOptions, servedFunction } from "../peer/served-function.ts";
import type { Fields } from "../wire/function-schema.ts";
import { rankOf } from "../wire/node-id.ts";
import type { CheckpointService } from "./checkpoint/checkpoint-service.ts";
import type { PartsDeparture } from "./copy/parts-departure.ts";
import type { Ownership } from "./ownership.ts";
import type { Parameters } from "./parameters/parameters.ts";
import type { WorkerGroups } from "./parameters/worker-groups.ts";
import type { Replica } from "./replication/replica.ts";
import type { ScalingPart } from "./scaling-part.ts";
import type { WorkerCalls } from "./worker-calls.ts";

/** What all calls on a server share. */
export type FunctionState = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly checkpoints: CheckpointService;
  readonly ownership: Ownership;
  readonly departure: PartsDeparture;
  readonly workers: WorkerCalls;
  /** Of a server that has a standby, or is one. */
  readonly replica?: Replica | undefined;
  /** Of a server of a job. */
  readonly scaling?: ScalingPart | undefined;
};

export class ServerContext implements FunctionState, FunctionContext {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly checkpoints: CheckpointService;
  readonly ownership: Ownership;
  readonly departure: PartsDeparture;
  readonly workers: WorkerCalls;
  readonly replica: Replica | undefined;
  readonly scaling: ScalingPart | undefined;
  /** The calling worker, as clocks count it. */
  readonly holder: WorkerIncarnation;
  /** Its rank. */
  readonly worker: number;
  readonly #own: Map<string, object>;

  /** `own`: the objects that users' functions keep, the same for all callers. */
  constructor(
    { arena, kernels, parameters, groups, checkpoints, ownership, departure, workers, replica, scaling }: FunctionState,
    holder: WorkerIncarnation,
    own: Map<string, object>,
  ) {
    this.arena = arena;
    this.kernels = kernels;
    this.parameters = parameters;
    this.groups = groups;
    this.checkpoints = checkpoints;
    this.ownership = ownership;
    this.departure = departure;
    this.workers = workers;
    this.replica = replica;
    this.scaling = scaling;
    this.holder = holder;
    this.worker = rankOf(holder.worker);
    this.#own = own;
  }

  get incarnation(): number {
    return this.holder.incarnation;
  }

  rowsOf<A = Float32Array>(table: string): Iterable<TableRow<A>> {
    return this.parameters.tableOf(table).rows() as Iterable<TableRow<A>>;
  }

  blocksOf(tensor: string): Iterable<TensorBlock> {
    return this.parameters.tensorOf(tensor).blocks((block) => this.ownership.ownsBlock(this.parameters.numberOf(tensor), block));
  }

  own<T extends object>(name: string, create: () => T): T {
    const known = this.#own.get(name);
    if (known !== undefined) return known as T;
    const made = create();
    this.#own.set(name, made);
    return made;
  }
}

export type ServedFunction<Q extends Fields = Fields, R extends Fields = Fields> = NodeFunction<ServerContext, Q, R>;

/** For lists of functions of any schemas. */
export function serve<Q extends Fields, R extends Fields>(
  contract: Contract<Q, R>,
  options: ServingOptions<ServerContext, Q, R>,
): ServedFunction {
  return servedFunction(contract, options);
}
